"""A tracker driven by a clock that jumps from one event to the next, and the agents it watches."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from ostler.drivers.driver import AnswerFailed, Delivered, Undelivered
from ostler.drivers.tracker import Event, Tracker, Write

Reaction = Callable[[bytes], Iterable[tuple[float, str]]]


class Played:
    """`react` says what the agent draws when keys arrive: pairs of a delay and the screen from then on."""

    def __init__(self, tracker: Tracker, react: Reaction = lambda keys: (), *, screen: str = "") -> None:
        self.tracker = tracker
        self.now = 0.0
        self.screen = screen
        self.react = react
        self.looks = 0
        self.written: list[tuple[float, bytes]] = []
        self.outcomes: list[tuple[float, Delivered | Undelivered]] = []
        self.failed_answers: list[str] = []
        self.bracketed_paste = True
        self._coming: list[tuple[float, int, str]] = []
        self._count = 0

    @property
    def texts(self) -> list[str]:
        return [f"{message.role}: {message.text}" for message in self.tracker.messages]

    def draw(self, screen: str, after: float = 0.0) -> None:
        self._count += 1
        heapq.heappush(self._coming, (self.now + after, self._count, screen))

    def carry_out(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Write):
                self.written.append((self.now, event.data))
                for delay, screen in self.react(event.data):
                    self.draw(screen, delay)
            elif isinstance(event, AnswerFailed):
                self.failed_answers.append(event.reason)
            else:
                self.outcomes.append((self.now, event))

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(20_000):
            wanted = self.tracker.wants_look_at()
            drawn = self._coming[0][0] if self._coming else None
            times = [max(time, self.now) for time in (wanted, drawn) if time is not None]
            if not times or min(times) > until:
                self.now = until
                return
            self.now = min(times)
            if drawn is not None and drawn <= self.now:
                self.screen = heapq.heappop(self._coming)[2]
                self.tracker.output(self.now)
            else:
                self.looks += 1
                self.carry_out(self.tracker.look(self.now, self.screen, self.bracketed_paste))
        raise AssertionError("the tracker wants to look again and again")

    def send(self, text: str) -> int:
        return self.tracker.send(self.now, text)


class EchoAgent:
    """Shows a conversation and a prompt, echoes what is typed, and answers a moment after Enter."""

    def __init__(self, answer: Callable[[str], str], thinking: float = 0.5) -> None:
        self.answer = answer
        self.thinking = thinking
        self.shown = ["hello"]
        self.typed = ""
        self.pasting = False

    @property
    def screen(self) -> str:
        return "\n".join([*self.shown, f"> {self.typed}".rstrip()])

    def __call__(self, keys: bytes) -> Iterable[tuple[float, str]]:
        if keys == b"\r":
            said, self.typed = self.typed, ""
            self.shown += [f"> {said}"]
            yield 0.01, "\n".join([*self.shown, "thinking"])
            self.shown += self.answer(said).split("\n")
            yield self.thinking, self.screen
        elif not keys.startswith((b"\x1b", b"x\x08")):
            self.typed += keys.decode()
            yield 0.005, self.screen
