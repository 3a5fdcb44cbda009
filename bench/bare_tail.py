"""The reference for a stream: prompt_toolkit and rich alone, as a good programmer would put them together.

It asks the server, prints the paragraphs that are whole above, draws the one that grows with rich's Markdown
15 times a second, and has a line to type in. It keeps no log and knows no tools.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
from urllib.parse import urlsplit

FRAMES = 15


def main() -> None:
    asyncio.run(_Tail(sys.argv[1]).run())


class _Tail:
    def __init__(self, url: str) -> None:
        from prompt_toolkit.application import Application
        from prompt_toolkit.buffer import Buffer
        from prompt_toolkit.formatted_text import ANSI
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window

        self._url = urlsplit(url)
        self._open: list[str] = []
        self._whole = ""
        self._is_code = False
        self._drawn = ANSI("")
        keys = KeyBindings()

        @keys.add("c-d")
        def leave(event: object) -> None:
            self._app.exit()

        line = Window(BufferControl(Buffer()), height=1, get_line_prefix=lambda *_: "> ")
        tail = Window(FormattedTextControl(lambda: self._drawn), dont_extend_height=True)
        self._app: Application[None] = Application(Layout(HSplit([tail, line])), key_bindings=keys)

    async def run(self) -> None:
        streaming = asyncio.ensure_future(self._stream())
        drawing = asyncio.ensure_future(self._draw())
        await self._app.run_async()
        drawing.cancel()
        await streaming

    async def _stream(self) -> None:
        body = json.dumps({"model": "bench", "stream": True, "messages": []}).encode()
        reader, writer = await asyncio.open_connection(self._url.hostname, self._url.port)
        path = f"{self._url.path}/chat/completions"
        head = f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        async for line in reader:
            if line.startswith(b"data: [DONE]"):
                break
            if line.startswith(b"data: "):
                for choice in json.loads(line[6:])["choices"]:
                    self._feed(choice["delta"].get("content") or "")
        writer.close()
        self._whole += "".join(self._open)
        self._open = ["completed"]

    def _feed(self, text: str) -> None:
        self._open.append(text)
        if "`" in text:
            self._is_code = "".join(self._open).count("```") % 2 == 1
        if "\n" in text and not self._is_code:
            before, blank, rest = "".join(self._open).rpartition("\n\n")
            self._whole += before + blank
            self._open = [rest]

    async def _draw(self) -> None:
        from prompt_toolkit.formatted_text import ANSI

        seen: list[str] | None = None
        while True:
            if self._whole:
                whole, self._whole = self._whole, ""
                self._app.renderer.erase()
                self._app.output.write_raw(_rows(whole).replace("\n", "\r\n"))
            if self._open != seen:
                seen = list(self._open)
                self._drawn = ANSI(_rows("".join(seen)).rstrip("\n"))
                self._app.invalidate()
            await asyncio.sleep(1 / FRAMES)


def _rows(text: str) -> str:
    from rich.console import Console
    from rich.markdown import Markdown

    out = io.StringIO()
    Console(file=out, force_terminal=True, color_system="truecolor", width=80).print(Markdown(text))
    return out.getvalue()
