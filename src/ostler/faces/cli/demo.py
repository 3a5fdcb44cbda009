"""`ostler demo`: the real loop with the real tools and a scripted model, end to end."""

from __future__ import annotations

import asyncio
import gc
import shlex
import sys
import tempfile
from pathlib import Path

from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.exit_codes import exit_code
from ostler.faces.cli.show import LivePrinter
from ostler.kernel.tool import in_thread
from ostler.models.demo import JOB, LABEL, DemoModel
from ostler.runs.assembly import make_harness
from ostler.runs.permissions import permission_guard
from ostler.runs.session import create_session
from ostler.runs.settings import Settings
from ostler.runs.stores import open_store
from ostler.vocabulary.errors import CallRefused
from ostler.vocabulary.events import QuestionAsked
from ostler.vocabulary.messages import as_content

TYPING_PAUSE = 0.012


def run(arguments: list[str]) -> int:
    parser = Parser(
        prog="ostler demo", description="Watch a scripted agent work with the real loop and tools."
    )
    parser.parse_args(arguments)
    return asyncio.run(_demo())


async def _demo() -> int:
    gc.enable()
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    folder = Path(tempfile.mkdtemp(prefix="ostler-demo-"))
    printer = LivePrinter(shows_answers=not has_terminal)  # a person sees what they typed
    settings = Settings(model="demo", permissions="edit")
    harness = make_harness(settings, folder, asker=_ask_person if has_terminal else _Answerer(printer).answer)
    harness.permission = permission_guard(settings.permissions, folder, scopes=())  # whatever is remembered
    harness.model = DemoModel(TYPING_PAUSE if has_terminal else 0.0)
    printer.line(LABEL, "bold")
    printer.line(f"folder: {folder}", "dim")
    printer.line(f"> {JOB}", "bold")
    # What lies in the user's home may be of another version, or broken: only a person can mend that.
    own_home = None if has_terminal else folder / "ostler-home"
    store = open_store(settings, home=own_home)
    session = await create_session(store, harness)
    session.observe(printer.see)
    quiet = await session.prompt(as_content(JOB))
    await session.close()
    await store.close()
    where = f"OSTLER_HOME={shlex.quote(str(own_home))} " if own_home else ""
    printer.line(f"Every fact of it is kept: `{where}ostler sessions show {session.id}`", "dim")
    return exit_code(quiet)


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
