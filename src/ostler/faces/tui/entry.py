"""`ostler` in a terminal: from options to a conversation that a person has."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.driving import collect_garbage_from_here, keep_model, opened
from ostler.faces.cli.equipping import equipped, settings_from
from ostler.faces.cli.saying import say
from ostler.faces.tui.face import TuiFace
from ostler.faces.tui.questions import OpenQuestions
from ostler.faces.tui.themes.asking import TerminalInput, found_dark
from ostler.faces.tui.themes.choosing import chosen_theme, colors_of
from ostler.faces.tui.themes.shelf import themes_for
from ostler.faces.tui.tui import Tui
from ostler.kernel.harness import Harness
from ostler.kernel.store import Store
from ostler.runs.session import Session, create_session
from ostler.runs.settings import Settings
from ostler.runs.stores import find_session, newest_session, open_store


def run_tui(options: argparse.Namespace) -> int:
    cwd = working_directory(options.cwd)
    settings, harness = equipped(settings_from(options, cwd), cwd, "", options)
    return asyncio.run(_run(options, settings, harness))


async def _run(options: argparse.Namespace, settings: Settings, harness: Harness) -> int:
    from ostler.extensions.showing.themes import ThemeBook

    store = open_store(settings, in_memory=options.no_session)
    session = await _session(options, store, harness)
    collect_garbage_from_here()
    keep_model(options, session)
    reader = TerminalInput(sys.stdin)
    face = TuiFace(_stays)
    questions = OpenQuestions()
    harness.asker = questions.ask
    with reader.raw_mode():
        face.is_dark = await found_dark(settings.appearance, reader, sys.stdout, os.environ)
    themes = ThemeBook()
    themes.bring_along(themes_for(harness.cwd, say))
    name = chosen_theme(settings.theme, themes, os.environ, say)
    tui = Tui(session, None, face, questions, input=reader)
    tui.rows.colors = colors_of(themes, name, dark=face.is_dark)
    await tui.run(" ".join(options.words))
    await store.tidy()
    return 0


async def _stays(session: str, prompt: str) -> str:
    from ostler.vocabulary.errors import UsageError

    raise UsageError("this terminal shows one session only")


async def _session(options: argparse.Namespace, store: Store, harness: Harness) -> Session:
    if options.session is not None:
        return await opened(store, await find_session(store, options.session), harness)
    if options.continue_ and (newest := await newest_session(store, harness.cwd)):
        return await opened(store, newest, harness)
    return await create_session(store, harness)
