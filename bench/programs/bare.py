"""The references without Ostler: four commands, each built on one library.

They import what they need inside, so that none pays for another's imports at start.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

FRAMES_PER_SECOND = 15


# --- an agent loop on asyncio -----------------------------------------------------------------------


def loop() -> None:
    """The floor's loop on asyncio streams instead of httpx2. Arguments: BASE_URL PROMPT."""
    import asyncio

    from bench.programs.floor import bash, run, write

    async def one_shot(url: str, prompt: str) -> None:
        client: Any = _Client(url)
        await client.connect()
        await run(client, url, prompt, [bash, write])
        client.writer.close()

    asyncio.run(one_shot(sys.argv[1], sys.argv[2]))


class _Client:
    """One keep-alive connection, with the part of httpx2's interface that the loop uses."""

    def __init__(self, url: str) -> None:
        from urllib.parse import urlsplit

        self._url = urlsplit(url)

    async def connect(self) -> None:
        import asyncio

        context = None
        if self._url.scheme == "https":
            import ssl

            context = ssl.create_default_context()
        self._reader, self.writer = await asyncio.open_connection(
            self._url.hostname, self._url.port, ssl=context
        )

    def stream(self, method: str, url: str, *, json: Any) -> AbstractAsyncContextManager[_Client]:
        from json import dumps

        path = url.partition(self._url.netloc)[2]
        body = dumps(json).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {self._url.netloc}\r\nauthorization: Bearer k\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        return self

    async def __aenter__(self) -> _Client:
        self._head = await self._reader.readuntil(b"\r\n\r\n")
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    def raise_for_status(self) -> None:
        assert self._head.startswith(b"HTTP/1.1 200 "), self._head

    async def aiter_lines(self) -> AsyncIterator[str]:
        """The lines of a chunked body."""
        line_start = b""
        while size := int(await self._reader.readline(), 16):
            *lines, line_start = (line_start + (await self._reader.readexactly(size + 2))[:-2]).split(b"\n")
            for line in lines:
                yield line.decode()
        await self._reader.readline()


# --- an ASGI application ----------------------------------------------------------------------------


def asgi() -> None:
    """Sends the frames of a file to all its clients, under uvicorn. Argument: the file. Prints its port."""
    import asyncio
    from pathlib import Path

    import uvicorn

    from bench.child import serve_commands

    queues: set[asyncio.Queue[bytes]] = set()
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        queues.add(queue)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        caught_up = b'data: {"type":"caught_up"}\n\n'
        await send({"type": "http.response.body", "body": caught_up, "more_body": True})
        while True:
            await send({"type": "http.response.body", "body": await queue.get(), "more_body": True})

    async def serve(frames: list[bytes]) -> None:
        async def publish(command: dict[str, Any]) -> bool:
            for frame in frames:
                for queue in queues:
                    queue.put_nowait(frame)
                await asyncio.sleep(command["pause"])
            return True

        config = uvicorn.Config(
            app, port=0, log_level="warning", access_log=False, server_header=False, ws="none", lifespan="off"
        )
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve())
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)
        await serve_commands(publish)
        serving.cancel()

    frames = Path(sys.argv[1]).read_bytes().split(b"\n\n")[:-1]
    asyncio.run(serve([frame + b"\n\n" for frame in frames]))


# --- a terminal -------------------------------------------------------------------------------------


def prompt() -> None:
    """A prompt of prompt_toolkit."""
    from prompt_toolkit import PromptSession

    PromptSession[str]().prompt("> ")


def tail() -> None:
    """An answer in prompt_toolkit and rich: a usual way to combine them. Argument: BASE_URL.

    Prints each finished paragraph above, draws the open one with rich's Markdown 15 times a second, and has
    an input line. It has no log and no tools.
    """
    import asyncio

    asyncio.run(_Tail(sys.argv[1]).run())


class _Tail:
    def __init__(self, url: str) -> None:
        from urllib.parse import urlsplit

        from prompt_toolkit.application import Application
        from prompt_toolkit.buffer import Buffer
        from prompt_toolkit.formatted_text import ANSI
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window

        self._url = urlsplit(url)
        self._open: list[str] = []
        self._finished = ""
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
        import asyncio

        streaming = asyncio.ensure_future(self._stream())
        drawing = asyncio.ensure_future(self._draw())
        await self._app.run_async()
        drawing.cancel()
        await streaming

    async def _stream(self) -> None:
        import asyncio
        import json

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
        self._finished += "".join(self._open)
        self._open = ["completed"]

    def _feed(self, text: str) -> None:
        self._open.append(text)
        if "`" in text:
            self._is_code = "".join(self._open).count("```") % 2 == 1
        if "\n" in text and not self._is_code:
            before, blank, last = "".join(self._open).rpartition("\n\n")
            self._finished += before + blank
            self._open = [last]

    async def _draw(self) -> None:
        import asyncio

        from prompt_toolkit.formatted_text import ANSI

        drawn: list[str] | None = None
        while True:
            if self._finished:
                finished, self._finished = self._finished, ""
                self._app.renderer.erase()
                self._app.output.write_raw(_rows(finished).replace("\n", "\r\n"))
            if self._open != drawn:
                drawn = list(self._open)
                self._drawn = ANSI(_rows("".join(drawn)).rstrip("\n"))
                self._app.invalidate()
            await asyncio.sleep(1 / FRAMES_PER_SECOND)


def _rows(text: str) -> str:
    import io

    from rich.console import Console
    from rich.markdown import Markdown

    out = io.StringIO()
    Console(file=out, force_terminal=True, color_system="truecolor", width=80).print(Markdown(text))
    return out.getvalue()
