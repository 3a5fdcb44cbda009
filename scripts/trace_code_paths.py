"""Which files a reader must open to follow four code paths: those of docs/how-it-works.md, in order.

    python scripts/trace_code_paths.py [NAME]

A file counts when one of its functions is called that is longer than 20 lines and has a branch; not during
an import. Only the vendor is fake: processes, pseudo-terminals, store and HTTP are real. Each process writes
the files that it enters to a trace; merged by time, the traces are the path.
"""

from __future__ import annotations

import ast
import dis
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx2

from ostler.main import main
from ostler.server.tokens import TokenStore
from ostler.testkit.vendors import Answer, FakeVendor, call, turn

SOURCE = Path(__file__).resolve().parents[1] / "src" / "ostler"

SHORT = 20
"""Functions up to this many lines don't count."""

PATIENCE = 60.0

STARTED = "0 started\n"

_BRANCHES = (ast.If, ast.IfExp, ast.Match, ast.Try, ast.BoolOp, ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def counted_functions(path: str) -> frozenset[tuple[str, int]]:
    """Name and first line of the functions of a file that count."""
    functions = [one for one in ast.walk(ast.parse(Path(path).read_bytes())) if isinstance(one, _FUNCTIONS)]
    return frozenset(
        (one.name, min([one.lineno, *(decorator.lineno for decorator in one.decorator_list)]))
        for one in functions
        if (one.end_lineno or 0) - one.lineno >= SHORT
        and any(isinstance(part, _BRANCHES) for part in ast.walk(one))
    )


@cache
def is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: when that happens depends on what was loaded before."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def start_of(code: CodeType) -> int:
    """The offset at which a function or coroutine begins; one that is resumed is further on."""
    return next((one.offset for one in dis.get_instructions(code) if one.opname == "RESUME"), 0)


class Recorder:
    """Writes each file to a trace when the first of its counted functions is called, from the call of `start`
    to that of `stop` (`core/loop.py:advance`). With the start `signal` it begins at SIGUSR2."""

    def __init__(self, trace: Path, start: str, stop: str) -> None:
        self._trace, self._start, self._stop = trace, start, stop
        self._is_on, self._is_over = start == "", False
        self._files: set[str] = set()
        if start == "signal":
            signal.signal(signal.SIGUSR2, self._turn_on)

    def _turn_on(self, *_: object) -> None:
        self._is_on = True
        self._trace.write_text(STARTED)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or self._is_over or not code.co_filename.startswith(str(SOURCE)):
            return
        if frame.f_lasti > start_of(code):
            return  # a coroutine that is resumed
        file = code.co_filename[len(str(SOURCE)) + 1 :]
        name = f"{file}:{code.co_name}"
        self._is_on = self._is_on or name == self._start
        self._is_over = self._is_on and name == self._stop
        if not self._is_on or file in self._files:
            return
        is_counted = (code.co_name, code.co_firstlineno) in counted_functions(code.co_filename)
        if is_counted and not is_importing(frame):
            self._files.add(file)
            with self._trace.open("a") as trace:
                trace.write(f"{time.monotonic_ns()} {file}\n")


def record(trace: str, start: str, stop: str, arguments: list[str]) -> None:
    """Runs `ostler` with these arguments in this process."""
    sys.argv[1:] = arguments
    recorder = Recorder(Path(trace), start, stop)
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    main()


class Program:
    """`ostler` in a pseudo-terminal, under the recorder."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int, trace: Path) -> None:
        self._process, self._terminal, self._trace = process, terminal, trace
        self._output = b""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait_for(self, pattern: str) -> str:
        """Waits until it has printed this, and returns the first group of the pattern or all of the match."""
        deadline = time.monotonic() + PATIENCE
        while not (match := re.search(pattern.encode(), self._output)):
            if not select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"no {pattern!r} in {self._output[-2000:]!r}")
            self._output += os.read(self._terminal, 65536)
        return (match[1] if match.groups() else match[0]).decode()

    def start_recording(self) -> None:
        self._process.send_signal(signal.SIGUSR2)
        deadline = time.monotonic() + PATIENCE
        while not self._trace.read_text():
            if time.monotonic() > deadline:
                raise TimeoutError("the recorder did not start")

    def wait(self) -> None:
        with suppress(OSError):  # how Linux reports that the other side is closed
            while os.read(self._terminal, 65536):
                pass
        self._process.wait(PATIENCE)


class Stage:
    """A folder with a home and a fake vendor, where programs run under the recorder."""

    def __init__(self, folder: Path, vendor: FakeVendor) -> None:
        self.folder = folder
        self.home = folder / "home"
        self._traces: list[Path] = []
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OSTLER_")},
            "OSTLER_HOME": str(self.home),
            "OPENAI_API_KEY": "a-key",
            "OPENAI_BASE_URL": vendor.chat_url,
            "TERM": "xterm-256color",
        }

    @contextmanager
    def run(self, *arguments: str, start: str = "", stop: str = "") -> Iterator[Program]:
        ours, theirs = pty.openpty()
        trace = self.folder / f"{len(self._traces)}.trace"
        trace.touch()
        self._traces.append(trace)
        process = subprocess.Popen(
            [sys.executable, __file__, "--record", str(trace), start, stop, *arguments],
            env=self._environment,
            cwd=self.folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        try:
            yield Program(process, ours, trace)
        finally:
            process.kill()
            process.wait()
            os.close(ours)

    def files(self) -> list[str]:
        """The files that all programs entered, each of them once, in the order of time."""
        traces = [path.read_text().removeprefix(STARTED) for path in self._traces]
        lines = [line.split() for trace in traces for line in trace.splitlines()]
        return list(dict.fromkeys(file for _, file in sorted(lines, key=lambda line: int(line[0]))))


MODEL = ("--model", "openai/fake")

GATE = """
from ostler.extensions import Refuse

def setup(ostler):
    @ostler.before_tool
    def gate(call):
        return Refuse("not here")
"""

AGENT = """
import sys, time
from pathlib import Path

print("Hello! I am ready.", flush=True)
while not Path(sys.argv[1]).exists():
    time.sleep(0.05)
print("The screen has changed.", flush=True)
time.sleep(600)
"""


def trace_prompt(stage: Stage) -> None:
    """`ostler -p hi` without tools, from the entry to the first commit."""
    with stage.run("-p", *MODEL, "hi", stop="store/sqlite_rows.py:insert_session") as program:
        program.wait()


def trace_question(stage: Stage) -> None:
    """A permission question, shown in the terminal and answered in the browser."""
    with (
        stage.run("serve", "--port", "0", start="signal") as server,
        stage.run(*MODEL, start="core/call_gate.py:check", stop="tools/bash.py:run") as terminal,
    ):
        url = server.wait_for(r"(http://127\.0\.0\.1:\d+)/")
        token = TokenStore(stage.home / "tokens.json").new("trace", "all")
        headers = {"Authorization": f"Bearer {token}"}
        terminal.wait_for("openai/fake")
        terminal.type("Make a file.\r")
        terminal.wait_for("touch made")
        # A connection for each request: the server closes one that is idle while the recorder starts.
        limits = httpx2.Limits(max_keepalive_connections=0)
        base = f"{url}/api/v1/"
        with httpx2.Client(base_url=base, headers=headers, timeout=PATIENCE, limits=limits) as browser:
            (question,) = browser.get("questions").json()["questions"]
            server.start_recording()
            answer = {"type": "answer", "question": question["asked"]["id"], "answer": "yes"}
            place = f"sessions/{question['session']}/requests?wait=20"
            browser.post(place, json=answer).raise_for_status()
        terminal.wait_for("Done.")


def trace_refusal(stage: Stage) -> None:
    """An extension that denies a tool call."""
    (stage.folder / "gate.py").write_text(GATE)
    prompt = ("-e", "gate.py", "--yes", "-p", *MODEL, "Make a file.")
    with stage.run(
        *prompt, start="core/call_gate.py:check", stop="core/tool_calls.py:record_result"
    ) as program:
        program.wait()


def trace_screen(stage: Stage) -> None:
    """A driven agent's screen changes, and an SSE client sees it."""
    (stage.folder / "agent.py").write_text(AGENT)
    agent = (sys.executable, "-S", "-E", "agent.py", "go")
    with stage.run("serve", "--port", "0", "--", *agent, start="signal") as server:
        url = server.wait_for(r"open (http://\S+?/)")
        with httpx2.stream("GET", f"{url}internal/screen", timeout=PATIENCE) as stream:
            lines = stream.iter_lines()
            next(line for line in lines if "ready" in line)
            server.start_recording()
            (stage.folder / "go").touch()
            next(line for line in lines if "changed" in line)


PATHS: dict[str, Callable[[Stage], None]] = {
    "prompt": trace_prompt,
    "question": trace_question,
    "refusal": trace_refusal,
    "screen": trace_screen,
}


def trace_path(name: str) -> list[str]:
    """The files of a path, in order."""
    bash = turn(call("bash", {"command": "touch made"}))
    answers: list[Answer] = [turn("Hello.")] if name == "prompt" else [bash, turn("Done.")]
    with tempfile.TemporaryDirectory() as folder, FakeVendor(answers) as vendor:
        stage = Stage(Path(folder), vendor)
        PATHS[name](stage)
        return stage.files()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        record(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
    for name in sys.argv[1:] or PATHS:
        files = trace_path(name)
        print(f"{name}: {len(files)} files", *files, sep="\n  ")
