"""A session of a server in the terminal's own face: seen live, asked and answered from here."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from ostler.faces.attach.remote import API, Remote
from ostler.faces.attach.remote_store import RemoteStore
from ostler.faces.cli.driving import collect_garbage_from_here
from ostler.faces.cli.own_output import own_output
from ostler.faces.cli.saying import say
from ostler.kernel.harness import Harness
from ostler.runs.absent_model import AbsentModel
from ostler.runs.session import Session
from ostler.runs.settings import Settings, load_settings
from ostler.runs.watched_session import watch_session


class FarModel(AbsentModel):
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
        FarModel(view["model"] or agent or (await remote.get(f"{API}/me"))["model"] or "no model"),
        cwd=Path(view["cwd"]),
        make_model=FarModel,
        reasoning=view["reasoning"] or None,
    )
    if settings.screen_reader or os.environ.get("TERM") == "dumb":
        return await _show_plainly(store, session, harness, options)
    return await _show(store, session, harness, settings, options)


async def _show(
    store: RemoteStore, session: str, harness: Harness, settings: Settings, options: argparse.Namespace
) -> int:
    from ostler.faces.tui.drawing.picture_ways import way_to_draw
    from ostler.faces.tui.entry import leave_when_terminated, terminal_output
    from ostler.faces.tui.face import TuiFace
    from ostler.faces.tui.questions import OpenQuestions
    from ostler.faces.tui.themes.asking import TerminalInput, found_dark
    from ostler.faces.tui.themes.choosing import chosen_theme
    from ostler.faces.tui.themes.shelf import themes_for
    from ostler.faces.tui.tui import Tui

    face, questions = TuiFace(), OpenQuestions()
    if not options.read_only:
        harness.asker = questions.ask
    face.bring_along(themes_for(Path.cwd(), say))
    face.begin_with(chosen_theme(settings.theme, os.environ))
    opened = await _opened(store, session, harness)
    reader = TerminalInput(sys.stdin)
    with reader.raw_mode():
        face.is_dark = await found_dark(settings.appearance, reader, own_output(), os.environ)
    tui = Tui(
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
    terminated = leave_when_terminated(tui.leave)
    reader.is_drawn_for = True
    await tui.run()
    return 128 + terminated[0] if terminated else 0


async def _show_plainly(
    store: RemoteStore, session: str, harness: Harness, options: argparse.Namespace
) -> int:
    from ostler.faces.tui.plain_face import PlainConversation, PlainFace

    face = PlainFace()
    if not options.read_only:
        harness.asker = face.ask
    await PlainConversation(await _opened(store, session, harness), face).run()
    return 0


async def _opened(store: RemoteStore, session: str, harness: Harness) -> Session:
    opened = await watch_session(store, session, harness)
    collect_garbage_from_here()
    return opened
