"""What the first answer needs and the first frame does not: it is loaded while the person reads, or types."""
# MERGED: `ostler` in a terminal: from options to a conversation that a person has.
# MERGED: What a new session begins with, in a line: instruction files, skills and extensions that were
# MERGED: found.
# MERGED: A session of a server in the terminal's own face: seen live, asked and answered from here.

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.app.console import print_stderr, real_stdout
from ostler.app.extension_setup import load_extensions
from ostler.app.harness import prepare_harness, settings_for
from ostler.app.options import RunOptions
from ostler.app.session_choice import check_combination, enable_gc, store_model, stored_model
from ostler.app.settings import Settings, working_directory
from ostler.app.stores import find_session, newest_session, open_store
from ostler.core.harness import Harness
from ostler.core.store import Store
from ostler.schema.text import plural
from ostler.sessions.session import Session, create_session, open_or_follow
from ostler.store.paths import below_home
from ostler.tui.conversation import print_resume_hint
from ostler.tui.terminal_input import keep_early_typing, take_early_typing

if TYPE_CHECKING:
    from prompt_toolkit.output import Output

    from ostler.tui.terminal_ui import TerminalUI


WHERE_SOMEBODY_CAN_BE_ASKED = {"permissions": "ask"}
"""What holds here, where nobody has set it. Who is not there to be asked begins with `read-only`."""


def run_tui(options: RunOptions) -> int:
    cwd = working_directory(options.cwd)
    named = settings_for(options, cwd, WHERE_SOMEBODY_CAN_BE_ASKED)
    check_combination(options)
    kept = ""
    if not named.model and (options.continue_ or options.session is not None):
        kept = asyncio.run(stored_model(options, named, cwd))
    settings, harness = prepare_harness(named, cwd, kept, options, announces_demo=False)  # the first steps do
    is_kept = not options.no_session
    nobody_asked = settings.model == "demo" and "demo" not in (named.model, kept)
    if nobody_asked:
        options.no_session = True  # for the demo: it must not become somebody's conversation
    if options.plain or settings.screen_reader or os.environ.get("TERM") == "dumb":
        return asyncio.run(_run_plain(options, settings, harness, needs_model=nobody_asked, is_kept=is_kept))
    with keep_early_typing(sys.stdin):
        return asyncio.run(_run(options, settings, harness, needs_model=nobody_asked, is_kept=is_kept))


async def _run(
    options: RunOptions, settings: Settings, harness: Harness, *, needs_model: bool, is_kept: bool
) -> int:
    from ostler.app.question_queue import QuestionQueue
    from ostler.tui.front_end import StrayOutput, TuiFrontEnd
    from ostler.tui.render.images import way_to_draw
    from ostler.tui.terminal_input import TerminalInput, detected_dark, is_dark
    from ostler.tui.terminal_ui import TerminalUI
    from ostler.tui.themes import chosen_theme, missing_theme, themes_for

    face, questions = TuiFrontEnd(), QuestionQueue()
    harness.asker = questions.ask
    face.bring_along(themes_for(harness.cwd, print_stderr))
    host = await load_extensions(options, settings, harness, lambda: face)
    if host is not None:
        face.take_book(host.ui.themes)
    theme = chosen_theme(settings.theme, os.environ)
    face.begin_with(theme)
    store = open_store(settings, in_memory=options.no_session)
    session = await _session(options, store, harness)
    enable_gc()
    store_model(options, session)
    reader = TerminalInput(sys.stdin)
    with reader.raw_mode():
        take_early_typing(reader, real_stdout())
        face.is_dark = await detected_dark(settings.appearance, reader, real_stdout(), os.environ)
    tui = TerminalUI(
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
        tui.writing.soon(print_welcome(tui, settings))
    if needs_model:
        from ostler.tui.first_run import set_up_model

        words, options.words = " ".join(options.words), []

        async def begin() -> None:
            """What was said on the command line is for whoever answers then."""
            await set_up_model(tui, partial(open_store, settings) if is_kept else None)
            if words:
                await tui.submit(words)

        tui.writing.soon(begin())
    terminated = quit_on_signals(tui.quit)
    with reader.raw_mode():
        take_early_typing(reader, real_stdout())
    reader.is_drawn_for = True
    with face.stray.captured():
        await tui.run(" ".join(options.words))
    await tui.conversation.store.checkpoint()
    if terminated:
        return 128 + terminated[0]
    print_resume_hint(tui.conversation, options.cwd)
    return 0


def quit_on_signals(leave: Callable[[], None]) -> list[int]:
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

    from ostler.tui.inline_app import InlineOutput

    has_all = os.environ.get("COLORTERM") in ("truecolor", "24bit")
    depth = ColorDepth.TRUE_COLOR if has_all and not os.environ.get("NO_COLOR") else None
    output = InlineOutput.from_pty(real_stdout(), term=os.environ.get("TERM"), default_color_depth=depth)
    # Nobody asks where the cursor is: by the time of the answer, a conversation that goes on stands above it,
    # and the toolkit would scroll that away to make room below.
    output.enable_cpr = False
    return output


async def _run_plain(
    options: RunOptions, settings: Settings, harness: Harness, *, needs_model: bool, is_kept: bool
) -> int:
    from ostler.tui.plain.conversation import PlainConversation, PlainFrontEnd

    face = PlainFrontEnd()
    harness.asker = face.ask
    await load_extensions(options, settings, harness, lambda: face)
    store = open_store(settings, in_memory=options.no_session)
    session = await _session(options, store, harness)
    enable_gc()
    store_model(options, session)
    ways = partial(open_store, settings) if needs_model and is_kept else needs_model
    conversation = PlainConversation(session, face)
    await conversation.run(" ".join(options.words), needs_model=ways)
    await conversation.desk.conversation.store.checkpoint()
    if not conversation.is_terminated:
        print_resume_hint(conversation.desk.conversation, options.cwd)
    return 0


async def _session(options: RunOptions, store: Store, harness: Harness) -> Session:
    if options.session is not None:
        return await open_or_follow(store, await find_session(store, options.session), harness)
    if options.continue_:
        if newest := await newest_session(store, harness.cwd):
            return await open_or_follow(store, newest, harness)
        print_stderr(f"there is no session of {harness.cwd} yet: a new one begins")
    return await create_session(store, harness)


async def print_welcome(tui: TerminalUI, settings: Settings) -> None:
    """Nothing, where nothing was. The first frame does not wait for it."""
    await tui.app.is_seen.wait()
    conversation = tui.conversation
    if conversation.host is not None and (session := conversation.host.sessions.get(conversation.session.id)):
        await session.drain()  # one of them may not want it to be seen
    if tui.extensions.visibility.hide_startup:
        return
    found = await asyncio.to_thread(_found, conversation.harness.cwd, settings.instructions)
    if settings.system:
        found.insert(0, "your own system prompt")
    if conversation.host is not None and (loaded := [one.name for one in conversation.host.loaded]):
        found.append(f"{plural(len(loaded), 'extension')}: {', '.join(loaded)}")
    if found:
        tui.say(f"with {' · '.join(found)}")


def _found(cwd: Path, instructions: bool) -> list[str]:
    from ostler.context.instructions import instructions_in, skills_in

    sources = instructions_in(cwd).sources if instructions else ()
    found = [_place(Path(one.path), cwd.resolve()) for one in sources]
    if skills := len(skills_in(cwd).found):
        found.append(plural(skills, "skill"))
    return found


def _place(path: Path, cwd: Path) -> str:
    """As short as it can be said."""
    if path.is_relative_to(cwd):
        return str(path.relative_to(cwd))
    return below_home(path) or os.path.relpath(path, cwd)
