"""`ostler demo-part`, which `ostler demo` starts: one process with a part of its run, until it ends or is
killed."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

from ostler.faces.cli.exit_codes import exit_code
from ostler.faces.cli.show import LivePrinter
from ostler.kernel.tool import in_thread
from ostler.models.demo import JOB, SLOW_RUN, DemoModel
from ostler.runs.assembly import make_harness
from ostler.runs.permissions import permission_guard
from ostler.runs.session import create_session, open_session
from ostler.runs.settings import Settings
from ostler.runs.stores import open_store
from ostler.tools.permission_rules import parse_rule
from ostler.vocabulary.errors import CallRefused
from ostler.vocabulary.events import QuestionAsked
from ostler.vocabulary.messages import as_content

TYPING_PAUSE = 0.012


def demo_part_command(arguments: list[str]) -> int:
    part, folder, session = arguments
    gc.enable()
    return asyncio.run(_drive(part, Path(folder), session))


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def demo_home(folder: Path) -> Path | None:
    """Where the session is kept: with a terminal where its user keeps everything. What lies there may be of
    another version, or broken, and only a person can mend that."""
    return None if has_terminal() else folder / "ostler-home"


async def _drive(part: str, folder: Path, session: str) -> int:
    has_person = has_terminal()
    printer = LivePrinter(shows_answers=not has_person)  # a person sees what they typed
    settings = Settings(model="demo", permissions="edit")
    harness = make_harness(settings, folder, asker=_ask_person if has_person else _Answerer(printer).answer)
    # Whatever is remembered elsewhere. One question is enough to see how it is asked.
    rules = [parse_rule(f"bash(={SLOW_RUN})", "allow")]
    harness.permission = permission_guard(settings.permissions, folder, rules, scopes=())
    harness.model = DemoModel(TYPING_PAUSE if has_person else 0.0, is_slow=True)
    store = open_store(settings, home=demo_home(folder))
    if part == "begin":
        opened = await create_session(store, harness, session=session)
    else:
        opened = await open_session(store, session, harness)
    opened.observe(printer.see)
    quiet = await (opened.prompt(as_content(JOB)) if part == "begin" else opened.advance())
    await opened.close()
    await store.close()
    return exit_code(quiet) if quiet else 1


async def _ask_person(asked: QuestionAsked) -> object:
    while True:
        try:
            reply = (await in_thread(lambda: input("  yes or no? "))).strip().lower()
        except EOFError:
            raise CallRefused("nobody is there any more") from None
        if reply in ("y", "yes"):
            return "yes"
        if reply in ("n", "no"):
            raise CallRefused("no")


class _Answerer:
    """Without a terminal there is nobody to ask, so the demo answers itself, and says that it does."""

    def __init__(self, printer: LivePrinter) -> None:
        self._printer = printer

    async def answer(self, asked: QuestionAsked) -> object:
        self._printer.line("  (no terminal: the demo answers its own question)", "dim")
        return "yes"
