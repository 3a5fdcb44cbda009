"""A session of a server in the terminal UI: followed live, prompted and answered from here."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from ostler.app.console import print_stderr
from ostler.app.session_choice import enable_gc
from ostler.app.settings import load_settings
from ostler.core.harness import Harness
from ostler.core.model import AbsentModel
from ostler.remote.client import API, Remote
from ostler.remote.store import RemoteStore
from ostler.sessions.session import follow_session
from ostler.tui.front_end import TuiFrontEnd
from ostler.tui.main import run_terminal
from ostler.tui.plain.conversation import PlainConversation, PlainFrontEnd
from ostler.tui.themes import chosen_theme, themes_for


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
    is_plain = settings.screen_reader or os.environ.get("TERM") == "dumb"
    front_end = PlainFrontEnd() if is_plain else TuiFrontEnd()
    if not options.read_only:
        harness.asker = front_end.ask
    followed = await follow_session(store, session, harness)
    if isinstance(front_end, PlainFrontEnd):
        enable_gc()
        await PlainConversation(followed, front_end).run()
        return 0
    front_end.bring_along(themes_for(Path.cwd(), print_stderr))
    front_end.begin_with(chosen_theme(settings.theme, os.environ))
    notice = f"at {store.host}; a run there continues when you leave"
    _, signal_number = await run_terminal(followed, front_end, settings, begin=lambda tui: tui.say(notice))
    return 128 + signal_number if signal_number else 0
