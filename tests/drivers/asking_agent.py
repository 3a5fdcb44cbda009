"""The echo agent, which asks before some of what it does: run as a program by the tests."""

from __future__ import annotations

import select
from itertools import count

from echo_agent import EchoAgent, main, say


class AskingAgent(EchoAgent):
    """`/write` wants to be confirmed: then nothing is shown to type in. `/spin` never stands still."""

    is_asking = False

    def draw(self) -> None:
        if self.is_asking:
            lines = [*self.shown, "Do you want to write the file?", " ❯ y. Yes", "   n. No"]
            say("\x1b[?2026h\x1b[2J\x1b[H" + "\r\n".join(lines) + "\x1b[?2026l")
        else:
            super().draw()

    def take(self, keys: bytes) -> None:
        if not self.is_asking:
            super().take(keys)
        elif keys in (b"y", b"n"):
            self.is_asking = False
            self.shown.append("written" if keys == b"y" else "not written")

    def answer(self, text: str) -> None:
        if text.startswith("/write"):
            self.shown.append(f"> {text}")
            self.is_asking = True
        elif text == "/spin":
            self.spin()
        else:
            super().answer(text)

    def spin(self) -> None:
        """Until a key is pressed."""
        for turn in count():
            self.shown[1:] = [f"turn {turn}"]
            self.draw()
            if select.select([0], [], [], 0.05)[0]:
                return


if __name__ == "__main__":
    main(AskingAgent)
