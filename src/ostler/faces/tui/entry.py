"""`ostler` in a terminal: from options to a conversation that a person has."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable
from functools import partial

from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.driving import collect_garbage_from_here, keep_model
from ostler.faces.cli.equipping import equipped, settings_from
from ostler.faces.cli.extending import extended
from ostler.faces.cli.own_output import own_output
from ostler.faces.cli.prompt import check_combination, kept_model
from ostler.faces.cli.saying import say
from ostler.faces.tui.typed_early import keeping_typed, take_typed
from ostler.faces.tui.way_back import tell_way_back
from ostler.kernel.harness import Harness
from ostler.kernel.store import Store
from ostler.runs.session import Session, create_session
from ostler.runs.settings import Settings
from ostler.runs.stores import find_session, newest_session, open_store
from ostler.runs.watched_session import open_or_watch

TYPE_CHECKING = False
if TYPE_CHECKING:  # loaded only for the face that is shown
    from prompt_toolkit.output import Output

WHERE_SOMEBODY_CAN_BE_ASKED = {"permissions": "ask"}
"""What holds here, where nobody has set it. Who is not there to be asked begins with `read-only`."""


def run_tui(options: argparse.Namespace) -> int:
    cwd = working_directory(options.cwd)
    named = settings_from(options, cwd, WHERE_SOMEBODY_CAN_BE_ASKED)
    check_combination(options)
    kept = ""
    if not named.model and (options.continue_ or options.session is not None):
        kept = asyncio.run(kept_model(options, named, cwd))
    settings, harness = equipped(named, cwd, kept, options, says_demo=False)  # the first steps do
    is_kept = not options.no_session
    nobody_asked = settings.model == "demo" and "demo" not in (named.model, kept)
    if nobody_asked:
        options.no_session = True  # for the demo: it must not become somebody's conversation
    if options.plain or settings.screen_reader or os.environ.get("TERM") == "dumb":
        return asyncio.run(_run_plain(options, settings, harness, needs_model=nobody_asked, is_kept=is_kept))
    with keeping_typed(sys.stdin):
        return asyncio.run(_run(options, settings, harness, needs_model=nobody_asked, is_kept=is_kept))


async def _run(
    options: argparse.Namespace, settings: Settings, harness: Harness, *, needs_model: bool, is_kept: bool
) -> int:
    from ostler.faces.tui.drawing.picture_ways import way_to_draw
    from ostler.faces.tui.face import TuiFace
    from ostler.faces.tui.questions import OpenQuestions
    from ostler.faces.tui.stray_output import StrayOutput
    from ostler.faces.tui.themes.asking import TerminalInput, found_dark
    from ostler.faces.tui.themes.background import is_dark
    from ostler.faces.tui.themes.choosing import chosen_theme, missing_theme
    from ostler.faces.tui.themes.shelf import themes_for
    from ostler.faces.tui.tui import Tui

    face, questions = TuiFace(), OpenQuestions()
    harness.asker = questions.ask
    face.bring_along(themes_for(harness.cwd, say))
    host = await extended(options, settings, harness, face)
    if host is not None:
        face.take_book(host.themes)
    theme = chosen_theme(settings.theme, os.environ)
    face.begin_with(theme)
    store = open_store(settings, in_memory=options.no_session)
    session = await _session(options, store, harness)
    collect_garbage_from_here()
    keep_model(options, session)
    reader = TerminalInput(sys.stdin)
    with reader.raw_mode():
        take_typed(reader, own_output())
        face.is_dark = await found_dark(settings.appearance, reader, own_output(), os.environ)
    tui = Tui(
        session,
        host,
        face,
        questions,
        input=reader,
        output=terminal_output(),
        notify=settings.notify,
        editing=settings.editing,
        pictures=way_to_draw(settings.images, os.environ),
    )
    if settings.appearance == "auto":
        reader.answers.came = lambda color: face.see_background(dark=is_dark("auto", color, os.environ))
    face.stray = StrayOutput(tui.say)

    async def look_for_theme() -> None:
        if notice := await missing_theme(theme, face.book, host, session.id):
            tui.say(notice, "warning")

    tui.writing.soon(look_for_theme())
    if not session.state.leaf and not options.words and not needs_model:
        from ostler.faces.tui.beginning import say_what_was_found

        tui.writing.soon(say_what_was_found(tui, settings))
    if needs_model:
        from ostler.faces.tui.first_steps import first_steps

        words, options.words = " ".join(options.words), []

        async def begin() -> None:
            """What was said on the command line is for whoever answers then."""
            await first_steps(tui, partial(open_store, settings) if is_kept else None)
            if words:
                await tui.submit(words)

        tui.writing.soon(begin())
    terminated = leave_when_terminated(tui.leave)
    with reader.raw_mode():
        take_typed(reader, own_output())
    reader.is_drawn_for = True
    with face.stray.taken():
        await tui.run(" ".join(options.words))
    await tui.conversation.store.tidy()
    if terminated:
        return 128 + terminated[0]
    tell_way_back(tui.conversation, options.cwd)
    return 0


def leave_when_terminated(leave: Callable[[], None]) -> list[int]:
    """As a person would, so that the terminal is left as it was. Returns where the signals will be."""
    came: list[int] = []

    def end(number: int) -> None:
        came.append(number)
        leave()

    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    return came


def terminal_output() -> Output:
    """The terminal itself, whatever standard output leads to meanwhile."""
    from prompt_toolkit.output import ColorDepth

    from ostler.faces.tui.inline_output import InlineOutput

    has_all = os.environ.get("COLORTERM") in ("truecolor", "24bit")
    depth = ColorDepth.TRUE_COLOR if has_all and not os.environ.get("NO_COLOR") else None
    output = InlineOutput.from_pty(own_output(), term=os.environ.get("TERM"), default_color_depth=depth)
    # Nobody asks where the cursor is: by the time of the answer, a conversation that goes on stands above it,
    # and the toolkit would scroll that away to make room below.
    output.enable_cpr = False
    return output


async def _run_plain(
    options: argparse.Namespace, settings: Settings, harness: Harness, *, needs_model: bool, is_kept: bool
) -> int:
    from ostler.faces.tui.plain_face import PlainConversation, PlainFace

    face = PlainFace()
    harness.asker = face.ask
    await extended(options, settings, harness, face)
    store = open_store(settings, in_memory=options.no_session)
    session = await _session(options, store, harness)
    collect_garbage_from_here()
    keep_model(options, session)
    ways = partial(open_store, settings) if needs_model and is_kept else needs_model
    conversation = PlainConversation(session, face)
    await conversation.run(" ".join(options.words), needs_model=ways)
    await conversation.desk.conversation.store.tidy()
    if not conversation.is_terminated:
        tell_way_back(conversation.desk.conversation, options.cwd)
    return 0


async def _session(options: argparse.Namespace, store: Store, harness: Harness) -> Session:
    if options.session is not None:
        return await open_or_watch(store, await find_session(store, options.session), harness)
    if options.continue_:
        if newest := await newest_session(store, harness.cwd):
            return await open_or_watch(store, newest, harness)
        say(f"there is no session of {harness.cwd} yet: a new one begins")
    return await create_session(store, harness)
