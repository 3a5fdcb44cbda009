"""The environment of all measures: directories, a certificate, both sides' commands, the scripted model.

The scripted model is a separate process, `python -m bench.environment [CERTIFICATE]`, which replies at once
and records when. `POST /SCENARIO/RUN/v1/chat/completions` replies with the next answer of the scenario;
`GET /records/RUN` returns the times of that run's requests. It exits when its standard input closes.

A scenario is words joined by dashes, so that it fits into a path:

- `text-N`: one answer of N text deltas.
- `calls-N-TOOL`: N answers that call the tool once, then a text.
- `parallel-N-TOOL`: one answer that calls the tool N times, then a text.
- `argument-N-T`: T answers that call `write` with N characters, in deltas of 16; then a text.
- `article-N-S`: one answer of Markdown in N deltas, spread over S seconds.
- `paragraphs-N`: one answer of N short paragraphs.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Literal, NamedTuple

from bench.child import BenchError, Finished, measure

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
OSTLER = str(Path(PYTHON).with_name("ostler"))
OPENAI = ("--model", "openai/bench", "--api-key", "k")
"""Options for the scripted model; `--base-url` is the third."""
Side = Literal["ours", "floor", "bare"]


class Times(NamedTuple):
    """One request at the server, in milliseconds of the monotonic clock."""

    first_byte: float
    last_byte: float


class Environment:
    """Use it in `with`, which stops its server. `bundle` is None without openssl."""

    def __init__(self, directory: Path, rounds: int) -> None:
        self.rounds = rounds
        self.work = directory / "work"
        self.work.mkdir()
        self._directory = directory
        self._numbers = count(1)
        self.bundle = _certificate(directory)
        command = [PYTHON, "-m", "bench.environment", str(directory / "server.pem") if self.bundle else ""]
        self._server = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._server.stdout is not None
        self._ports = json.loads(self._server.stdout.readline() or "[0, 0]")

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.kill()
        self._server.communicate()

    def home(self, name: str) -> Path:
        path = self._directory / "homes" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def variables(self, home: str, *, secure: bool = False) -> dict[str, str]:
        """The environment variables of a child."""
        path = str(self.home(home))
        variables = {
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "HOME": path,
            "OSTLER_HOME": path,
        }
        return variables | {"SSL_CERT_FILE": str(self.bundle)} if secure else variables

    def new_run(self) -> str:
        return f"run{next(self._numbers)}"

    def url(self, scenario: str, run: str, *, secure: bool = False) -> str:
        scheme = "https" if secure else "http"
        return f"{scheme}://127.0.0.1:{self._ports[secure]}/{scenario}/{run}/v1"

    def requests(self, run: str) -> list[Times]:
        """The requests of a run, as the server recorded them."""
        connection = HTTPConnection("127.0.0.1", self._ports[0], timeout=10)
        try:
            connection.request("GET", f"/records/{run}")
            records = json.load(connection.getresponse())
        finally:
            connection.close()
        if not records or None in records:
            raise BenchError("the server got no request, or could not finish an answer")
        return [Times(record["first_byte"] / 1e6, record["answer_last"] / 1e6) for record in records]

    def one_shot(
        self,
        side: Side,
        scenario: str,
        run: str,
        home: str,
        *,
        secure: bool = False,
        options: Sequence[str] = (),
        cwd: str = "",
    ) -> Finished:
        """One prompt on a side's command line, in the folder `cwd` or in an empty one."""
        url = self.url(scenario, run, secure=secure)
        match side:
            case "ours":
                command = [OSTLER, "-p", "--json", *OPENAI, "--base-url", url, "--yes", *options, "begin"]
            case "floor":
                command = [*program("floor"), url, "begin"]
            case "bare":
                command = [*program("bare", "loop"), url, "begin"]
        work = self.work / (cwd or run)
        work.mkdir(exist_ok=True)
        return measure(command, self.variables(home, secure=secure), work)

    def in_process(
        self, side: Literal["ours", "floor"], scenario: str, runs: Sequence[str], home: str
    ) -> float:
        """The seconds that agents take in one process, one agent for each run, all at once."""
        urls = [self.url("text-1", self.new_run()), *(self.url(scenario, run) for run in runs)]
        command = [*program("in_process"), side, str(self.home(home) / "library.db"), *urls]
        finished = measure(command, self.variables(home), self.work, keep_output=True)
        return float(json.loads(finished.output)["seconds"])


def program(name: str, function: str = "main") -> list[str]:
    """The command that starts a module of bench.programs from its bytecode, as an installed command does."""
    start = f"from bench.programs.{name} import {function}; {function}()"
    return [PYTHON, "-c", f"import sys; sys.path.append({str(ROOT)!r}); {start}"]


def _certificate(directory: Path) -> Path | None:
    """A bundle of the system's certificates and one for 127.0.0.1, so that it loads as slowly as a user's."""
    if shutil.which("openssl") is None:
        return None
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    (directory / "server.pem").write_bytes(certificate.read_bytes() + key.read_bytes())
    system = ssl.get_default_verify_paths().cafile
    bundle = directory / "bundle.pem"
    bundle.write_bytes(certificate.read_bytes() + (Path(system).read_bytes() if system else b""))
    return bundle


# --- the answers of the scripted model --------------------------------------------------------------

DELTAS_PER_WRITE = 20
SECONDS_BETWEEN_WRITES = 0.001
ARGUMENT_DELTA = 16
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class Answer(NamedTuple):
    """The bytes of a Chat Completions stream. Several pieces are sent with a pause between them."""

    pieces: tuple[bytes, ...]
    pause: float = SECONDS_BETWEEN_WRITES


@cache
def answer(scenario: str, number: int) -> Answer:
    """The answer to request `number` (from 0) of a scenario."""
    kind, size, *options = scenario.split("-")
    match kind:
        case "text":
            return _paced(_text_deltas(int(size)), "stop")
        case "article":
            return _evenly(_article_deltas(int(size)), float(options[0]))
        case "paragraphs":
            paragraphs = [f"Paragraph {number} is short.\n\n" for number in range(int(size))]
            return _paced([{"content": text} for text in paragraphs], "stop")
        case "calls" if number < int(size):
            return _at_once(_call_deltas(number, 1, options[0]), "tool_calls")
        case "parallel" if number == 0:
            return _at_once(_call_deltas(number, int(size), options[0]), "tool_calls")
        case "argument" if number < int(options[0]):
            return _paced(_argument_deltas(number, int(size)), "tool_calls")
        case "calls" | "parallel" | "argument":
            return _at_once(_text_deltas(1), "stop")
    raise ValueError(f"unknown scenario {scenario!r}")


def _text_deltas(count: int) -> list[dict[str, Any]]:
    return [{"content": f" word{number % 10}"} for number in range(count)]


_ARTICLE = """## What a harness does

A harness lets a horse pull **without** being hurt: the load lies on its *shoulders*, not on its neck. What is
tied where depends on the work, and `buckles` are looked at every morning.

- the collar carries the load, and has to fit
- the traces lead from the collar to the cart
- the reins go through the rings, to the driver

```python
def load(horses: int, each: float = 80.0) -> float:
    # kilograms that so many can pull all day
    return sum(each for _ in range(horses))
```

"""


def _article_deltas(count: int) -> list[dict[str, Any]]:
    """One word each, as models stream them."""
    words = re.findall(r"\n+|[^\S\n]*\S+", _ARTICLE)
    return [{"content": words[number % len(words)]} for number in range(count)]


def _call_deltas(number: int, calls: int, tool: str) -> list[dict[str, Any]]:
    deltas = []
    for index in range(calls):
        arguments = json.dumps(_arguments(tool, f"{number}.{index}"))
        deltas.append(_call_start(index, _call_id(number, index), tool))
        deltas += _call_arguments(index, arguments)
    return deltas


def _arguments(tool: str, name: str) -> dict[str, Any]:
    """Different for each call: an agent may stop a model that repeats itself."""
    match tool:
        case "echo":
            return {"text": f"hi {name}"}
        case "bash":
            return {"command": f"echo hi {name}"}
        case "nap":
            return {"seconds": 0.2}
    raise ValueError(f"unknown tool {tool!r}")


def _argument_deltas(number: int, size: int) -> list[dict[str, Any]]:
    line = "The horse stood still while its harness was mended.\n"
    content = (line * (size // len(line) + 1))[:size]
    arguments = json.dumps({"path": f"written-{number}.txt", "content": content})
    return [_call_start(0, _call_id(number, 0), "write"), *_call_arguments(0, arguments)]


def _call_id(number: int, index: int) -> str:
    """As long as OpenAI's own."""
    return f"call_{number:016d}{index:08d}"


def _call_start(index: int, call: str, tool: str) -> dict[str, Any]:
    function = {"name": tool, "arguments": ""}
    return {"tool_calls": [{"index": index, "id": call, "type": "function", "function": function}]}


def _call_arguments(index: int, arguments: str) -> list[dict[str, Any]]:
    fragments = [arguments[at : at + ARGUMENT_DELTA] for at in range(0, len(arguments), ARGUMENT_DELTA)]
    return [{"tool_calls": [{"index": index, "function": {"arguments": text}}]} for text in fragments]


def _at_once(deltas: list[dict[str, Any]], reason: str) -> Answer:
    frames = [_frame(delta) for delta in deltas]
    return Answer((HEAD + _chunk([_first_frame(), *frames, _last_frames(reason)]) + _chunk([]),))


def _paced(deltas: list[dict[str, Any]], reason: str) -> Answer:
    frames = [_frame(delta) for delta in deltas]
    groups = [frames[at : at + DELTAS_PER_WRITE] for at in range(0, len(frames), DELTAS_PER_WRITE)]
    first, last = HEAD + _chunk([_first_frame()]), _chunk([_last_frames(reason)]) + _chunk([])
    return Answer((first, *map(_chunk, groups), last))


def _evenly(deltas: list[dict[str, Any]], seconds: float) -> Answer:
    first, last = HEAD + _chunk([_first_frame()]), _chunk([_last_frames("stop")]) + _chunk([])
    return Answer((first, *(_chunk([_frame(delta)]) for delta in deltas), last), seconds / len(deltas))


def _first_frame() -> bytes:
    return _frame({"role": "assistant", "content": ""})


def _last_frames(reason: str) -> bytes:
    usage = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
    return _frame({}, finish_reason=reason) + _event({"choices": [], "usage": usage}) + b"data: [DONE]\n\n"


def _frame(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    return _event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def _event(fields: dict[str, Any]) -> bytes:
    head = {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "bench",
    }
    return b"data: " + json.dumps(head | fields, separators=(",", ":")).encode() + b"\n\n"


def _chunk(frames: list[bytes]) -> bytes:
    data = b"".join(frames)
    return b"%x\r\n%b\r\n" % (len(data), data)


# --- its server -------------------------------------------------------------------------------------

_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Record(NamedTuple):
    """The times of one request, in nanoseconds of the monotonic clock."""

    first_byte: int
    answer_last: int


class Connection(asyncio.Protocol):
    """One keep-alive connection; answers requests one after the other."""

    def __init__(self, records: dict[str, list[Record | None]]) -> None:
        self._records = records
        self._received = bytearray()
        self._end = 0
        self._first_byte = 0
        self._sending: asyncio.Task[None] | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._sending is not None:
            self._sending.cancel()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def data_received(self, data: bytes) -> None:
        if not self._received:
            self._first_byte = perf_counter_ns()
        self._received += data
        if not self._end:
            head_end = self._received.find(b"\r\n\r\n")
            if head_end < 0:
                return
            length = _CONTENT_LENGTH.search(self._received, 0, head_end + 2)
            self._end = head_end + 4 + (int(length[1]) if length else 0)
        if len(self._received) >= self._end:
            self._answer()

    def _answer(self) -> None:
        method, path, _ = self._received[: self._received.index(b"\r\n")].decode().split(" ")
        self._end = 0
        self._received.clear()
        match method, path.strip("/").split("/"):
            case "GET", ["records", run]:
                self._reply(200, [record and record._asdict() for record in self._records[run]])
            case "POST", [scenario, run, "v1", "chat", "completions"]:
                self._stream(scenario, run)
            case _:
                self._reply(404, {"error": {"message": f"no such path: {method} {path}"}})

    def _stream(self, scenario: str, run: str) -> None:
        records, first_byte = self._records[run], self._first_byte
        place = len(records)
        records.append(None)
        pieces, pause = answer(scenario, place)
        if len(pieces) == 1:
            # The time is taken before the write: the client may act before `write` returns.
            records[place] = Record(first_byte, perf_counter_ns())
            self._transport.write(pieces[0])
            return

        async def send() -> None:
            loop = asyncio.get_running_loop()
            due = loop.time()
            for piece in pieces[:-1]:
                self._transport.write(piece)
                due = max(due + pause, loop.time() - pause)
                await asyncio.sleep(due - loop.time())
                await self._can_write.wait()
            records[place] = Record(first_byte, perf_counter_ns())
            self._transport.write(pieces[-1])

        self._sending = asyncio.create_task(send())

    def _reply(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)


async def serve(certificate: str) -> None:
    """Prints the ports, one for http and one for https (0 without a certificate), and serves."""
    records: dict[str, list[Record | None]] = defaultdict(list)
    loop = asyncio.get_running_loop()
    plain = await loop.create_server(lambda: Connection(records), "127.0.0.1", 0)
    ports = [plain.sockets[0].getsockname()[1], 0]
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        secure = await loop.create_server(lambda: Connection(records), "127.0.0.1", 0, ssl=context)
        ports[1] = secure.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    stdin_closed = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), stdin_closed.set)
    await stdin_closed.wait()


if __name__ == "__main__":
    gc.disable()
    asyncio.run(serve(sys.argv[1] if len(sys.argv) > 1 else ""))
