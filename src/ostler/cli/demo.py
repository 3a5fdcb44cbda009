"""`ostler demo`: runs a scripted agent, kills its process in the middle of a call, and resumes the run.

The loop and the tools are the real ones. `ostler demo-part` is the process that gets killed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ostler.app.harness import build_harness
from ostler.app.options import Parser
from ostler.app.settings import Settings
from ostler.app.stores import opened_store
from ostler.cli.output import LivePrinter
from ostler.cli.session_runner import exit_code
from ostler.core.function_tool import in_thread
from ostler.core.processes import kill_processes_of
from ostler.core.store import Store
from ostler.models.scripted import JOB, LABEL, RUNS, SLOW_RUN, DemoModel
from ostler.permissions.guard import permission_hook
from ostler.permissions.rules import parse_rule
from ostler.schema.errors import CallRefused
from ostler.schema.events import QuestionAsked, RunEnded, ToolCalled, ToolResultFact
from ostler.schema.ids import new_id
from ostler.schema.messages import as_content
from ostler.sessions.session import create_session, open_session

TYPING_PAUSE = 0.012


def demo_part_command(arguments: list[str]) -> int:
    part, folder, session = arguments
    gc.enable()
    return asyncio.run(_drive(part, Path(folder), session))


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def demo_home(folder: Path) -> Path | None:
    """The home of the session: with a terminal the user's own, else one in the demo's folder, so that a
    failure cannot damage the user's store."""
    return None if has_terminal() else folder / "ostler-home"


async def _drive(part: str, folder: Path, session: str) -> int:
    has_person = has_terminal()
    printer = LivePrinter(shows_answers=not has_person)  # a person sees what they typed
    settings = Settings(model="demo", permissions="edit")

    async def answer_itself(asked: QuestionAsked) -> object:
        printer.line("  (no terminal: the demo answers its own question)", "dim")
        return "yes"

    harness = build_harness(settings, folder, asker=_ask_person if has_person else answer_itself)
    # The user's own rules do not apply. One question is enough to see how it is asked.
    rules = [parse_rule(f"bash(={SLOW_RUN})", "allow")]
    harness.permission_hook = permission_hook(settings.permissions, folder, rules, scopes=())
    harness.model = DemoModel(TYPING_PAUSE if has_person else 0.0, is_slow=True)
    async with opened_store(settings, home=demo_home(folder)) as store:
        if part == "begin":
            opened = await create_session(store, harness, session=session)
        else:
            opened = await open_session(store, session, harness)
        opened.subscribe(printer.see)
        outcome = await (opened.prompt(as_content(JOB)) if part == "begin" else opened.advance())
        await opened.close()
    return exit_code(outcome) if outcome else 1


async def _ask_person(asked: QuestionAsked) -> object:
    while True:
        try:
            reply = (await in_thread(lambda: input("  yes or no? "))).strip().lower()
        except EOFError:
            raise CallRefused("the person left") from None
        if reply in ("y", "yes"):
            return "yes"
        if reply in ("n", "no"):
            raise CallRefused("no")


LOOK_AGAIN = 0.01
READING_PAUSE = 1.0
"""Seconds to read what is about to happen."""
ENDING = 5.0
"""Seconds that an interrupted process has to exit before it is killed."""

_DESCRIPTION = (
    "Runs a scripted agent with the real loop and tools. In the middle of a call its process is killed with "
    "SIGKILL, and a new one resumes the run without repeating anything."
)


def demo_command(arguments: list[str]) -> int:
    Parser(prog="ostler demo", description=_DESCRIPTION).parse_args(arguments)
    gc.enable()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    return _Demo().run()


class _Demo:
    def __init__(self) -> None:
        self._printer = LivePrinter()
        self._folder = Path(tempfile.mkdtemp(prefix="ostler-demo-"))
        self._session = new_id("ses")

    def run(self) -> int:
        self._say(LABEL, "bold")
        self._say(f"folder: {self._folder}", "dim")
        self._say(f"> {JOB}", "bold")
        with self._part("begin") as first:
            if not self._is_under_way(first):
                self._say("The run ended before there was a call to interrupt: nothing was killed.", "dim")
                return first.wait()
            self._kill(first)
        with self._part("go-on") as second:
            self._say(f"↻ Resuming in a new process, {second.pid}. All it has is the log.", "bold")
            second.wait()
        return asyncio.run(self._sum_up())

    @contextmanager
    def _part(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """Runs a part of the run in a process of its own, which does not outlive the block."""
        command = [sys.executable, "-P", "-m", "ostler", "demo-part", name, str(self._folder), self._session]
        sys.stdout.flush()
        process = subprocess.Popen(command, env=dict(os.environ))
        try:
            yield process
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt):  # the terminal sends Ctrl+C to both
                process.send_signal(signal.SIGINT)
            try:
                process.wait(ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            kill_processes_of(self._session)
            raise

    def _is_under_way(self, first: subprocess.Popen[bytes]) -> bool:
        """Waits until the slow command really runs; False if it never will."""
        while SLOW_RUN not in self._counted():
            if first.poll() is not None:
                return False
            time.sleep(LOOK_AGAIN)
        return True

    def _kill(self, first: subprocess.Popen[bytes]) -> None:
        self._say()
        self._say(f"✗ Killing process {first.pid} with SIGKILL (kill -9) in the middle of this call.", "bold")
        self._say("  It gets no chance to save anything, or to clean up.", "dim")
        first.send_signal(signal.SIGKILL)
        first.wait()
        if has_terminal():
            time.sleep(READING_PAUSE)

    async def _sum_up(self) -> int:
        home = demo_home(self._folder)
        async with opened_store(home=home) as store:
            ended, results = await self._outcomes(store)
        counted = self._counted()
        self._say()
        self._say(f"How often did each command really run? The program itself kept count in {RUNS}:", "bold")
        width = max(map(len, counted))
        for command, times in counted.items():
            failed = results.get(command, "nothing")
            recorded = "finished" if failed is None else failed.removeprefix("tool_")
            often = "1 time " if times == 1 else f"{times} times"
            again = "not repeated" if times == 1 else "REPEATED"
            style = "green" if times == 1 else "red"
            self._say(f"  {command:<{width}}  {often}  recorded as {recorded}, {again}", style)
        where = f"OSTLER_HOME={shlex.quote(str(home))} " if home else ""
        self._say(f"The log has every fact: `{where}ostler sessions show {self._session}`", "dim")
        is_as_promised = {*counted.values()} == {1} and results.get(SLOW_RUN) == "tool_interrupted"
        return exit_code(ended) if ended and is_as_promised else 1

    async def _outcomes(self, store: Store) -> tuple[RunEnded | None, dict[str, str | None]]:
        """From the log: how the run ended, and why each command failed, if it did."""
        ended: RunEnded | None = None
        commands: dict[str, str] = {}
        results: dict[str, str | None] = {}
        for fact in await store.read(self._session):
            match fact.event:
                case ToolCalled(call=call, arguments={"command": str() as command}):
                    commands[call] = command
                case ToolResultFact(call=call, failed=failed) if call in commands:
                    results[commands[call]] = failed
                case RunEnded() as event:
                    ended = event
        return ended, results

    def _counted(self) -> Counter[str]:
        try:
            return Counter((self._folder / RUNS).read_text("utf-8").splitlines())
        except FileNotFoundError:
            return Counter()

    def _say(self, text: str = "", style: str = "") -> None:
        self._printer.line(text, style)
        sys.stdout.flush()
