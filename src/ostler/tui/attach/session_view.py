"""A session of a server in the terminal UI: followed live, prompted and answered from here."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostler.app.console import print_stderr, real_stdout
from ostler.app.session_choice import enable_gc
from ostler.app.settings import Settings, load_settings
from ostler.core.harness import Harness
from ostler.core.model import AbsentModel
from ostler.remote.client import API, Remote
from ostler.remote.store import RemoteStore
from ostler.sessions.session import Session, follow_session

if TYPE_CHECKING:
    pass
from ostler.tui.main import quit_on_signals, terminal_output


class RemoteModel(AbsentModel):
    """Answers at the server, and has only its name here."""

    def __init__(self, name: str) -> None:
        super().__init__("it answers at the server")
        self.name = name


async def show_conversation(
    remote: Remote, session: str, view: dict[str, Any], options: argparse.Namespace
) -> int:
    settings = load_settings(Path.cwd(), {}).settings
    store = RemoteStore(remote, read_only=options.read_only)
    await store.summary(session)
    agent = (view.get("agent") or {}).get("type")
    harness = Harness(
        RemoteModel(view["model"] or agent or (await remote.get(f"{API}/me"))["model"] or "no model"),
        cwd=Path(view["cwd"]),
        make_model=RemoteModel,
        reasoning=view["reasoning"] or None,
    )
    if settings.screen_reader or os.environ.get("TERM") == "dumb":
        return await _show_plainly(store, session, harness, options)
    return await _show(store, session, harness, settings, options)


async def _show(
    store: RemoteStore, session: str, harness: Harness, settings: Settings, options: argparse.Namespace
) -> int:
    from ostler.app.question_queue import QuestionQueue
    from ostler.tui.front_end import TuiFrontEnd
    from ostler.tui.render.images import way_to_draw
    from ostler.tui.terminal_input import TerminalInput, detected_dark
    from ostler.tui.terminal_ui import TerminalUI
    from ostler.tui.themes import chosen_theme, themes_for

    face, questions = TuiFrontEnd(), QuestionQueue()
    if not options.read_only:
        harness.asker = questions.ask
    face.bring_along(themes_for(Path.cwd(), print_stderr))
    face.begin_with(chosen_theme(settings.theme, os.environ))
    opened = await _opened(store, session, harness)
    reader = TerminalInput(sys.stdin)
    with reader.raw_mode():
        face.is_dark = await detected_dark(settings.appearance, reader, real_stdout(), os.environ)
    tui = TerminalUI(
        opened,
        None,
        face,
        questions,
        input=reader,
        output=terminal_output(),
        notify=settings.notify,
        editing=settings.editing,
        pictures=way_to_draw(settings.images, os.environ),
    )
    tui.say(f"at {store.host}; what is under way there goes on when you leave")
    terminated = quit_on_signals(tui.quit)
    reader.is_drawn_for = True
    await tui.run()
    return 128 + terminated[0] if terminated else 0


async def _show_plainly(
    store: RemoteStore, session: str, harness: Harness, options: argparse.Namespace
) -> int:
    from ostler.tui.plain.conversation import PlainConversation, PlainFrontEnd

    face = PlainFrontEnd()
    if not options.read_only:
        harness.asker = face.ask
    await PlainConversation(await _opened(store, session, harness), face).run()
    return 0


async def _opened(store: RemoteStore, session: str, harness: Harness) -> Session:
    opened = await follow_session(store, session, harness)
    enable_gc()
    return opened
