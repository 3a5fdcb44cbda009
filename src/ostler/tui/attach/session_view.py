"""A session of a server in the terminal UI: followed live, prompted and answered from here."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostler.app.console import print_stderr
from ostler.app.session_choice import enable_gc
from ostler.app.settings import Settings, load_settings
from ostler.core.harness import Harness
from ostler.core.model import AbsentModel
from ostler.remote.client import API, Remote
from ostler.remote.store import RemoteStore
from ostler.sessions.session import follow_session
from ostler.tui.front_end import TuiFrontEnd
from ostler.tui.main import run_terminal
from ostler.tui.plain.conversation import PlainConversation, PlainFrontEnd
from ostler.tui.themes import chosen_theme, themes_for

if TYPE_CHECKING:
    from ostler.tui.terminal_ui import TerminalUI


class RemoteModel(AbsentModel):
    """The server calls it; here it has only a name."""

    def __init__(self, name: str) -> None:
        super().__init__("the server calls the model")
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
        return await _show_plain(store, session, harness, options)
    return await _show(store, session, harness, settings, options)


async def _show(
    store: RemoteStore, session: str, harness: Harness, settings: Settings, options: argparse.Namespace
) -> int:
    face = TuiFrontEnd()
    if not options.read_only:
        harness.asker = face.ask
    face.bring_along(themes_for(Path.cwd(), print_stderr))
    face.begin_with(chosen_theme(settings.theme, os.environ))

    def begin(tui: TerminalUI) -> None:
        tui.say(f"at {store.host}; a run there continues when you leave")

    followed = await follow_session(store, session, harness)
    _, signal_number = await run_terminal(followed, face, settings, begin=begin)
    return 128 + signal_number if signal_number else 0


async def _show_plain(store: RemoteStore, session: str, harness: Harness, options: argparse.Namespace) -> int:
    face = PlainFrontEnd()
    if not options.read_only:
        harness.asker = face.ask
    followed = await follow_session(store, session, harness)
    enable_gc()
    await PlainConversation(followed, face).run()
    return 0
