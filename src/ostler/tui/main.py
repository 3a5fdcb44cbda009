"""Starts the terminal UI: full, as plain lines, or attached to a server's session; and its welcome line."""

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
from ostler.core.lazy import lazy_module, load
from ostler.core.store import Store
from ostler.schema.text import plural
from ostler.sessions.session import Session, create_session, open_or_follow
from ostler.store.paths import below_home
from ostler.tui import terminal_input
from ostler.tui.conversation import print_resume_hint

if TYPE_CHECKING:
    from prompt_toolkit.output import Output

    from ostler.context import instructions
    from ostler.extensions.host import ExtensionHost
    from ostler.tui import first_run, inline_app, terminal_ui, themes
    from ostler.tui.command_context import CommandContext, SetUp
    from ostler.tui.front_end import TuiFrontEnd
    from ostler.tui.plain import conversation as plain
    from ostler.tui.render import images
    from ostler.tui.terminal_ui import TerminalUI
else:  # the terminal keeps what is typed before it loads any of these
    first_run = lazy_module("ostler.tui.first_run")
    images = lazy_module("ostler.tui.render.images")
    inline_app = lazy_module("ostler.tui.inline_app")
    instructions = lazy_module("ostler.context.instructions")
    plain = lazy_module("ostler.tui.plain.conversation")
    terminal_ui = lazy_module("ostler.tui.terminal_ui")
    themes = lazy_module("ostler.tui.themes")

INTERACTIVE_DEFAULTS = {"permissions": "ask"}
"""The default settings. Without a person to ask, permissions begin with `read-only`."""


def run_tui(options: RunOptions) -> int:
    cwd = working_directory(options.cwd)
    configured = settings_for(options, cwd, INTERACTIVE_DEFAULTS)
    check_combination(options)
    session_model = ""
    if not configured.model and (options.continue_ or options.session is not None):
        session_model = asyncio.run(stored_model(options, configured, cwd))
    # The first run announces the demo itself.
    settings, harness = prepare_harness(configured, cwd, session_model, options, announces_demo=False)
    set_up: SetUp | None = None
    if settings.model == "demo" and "demo" not in (configured.model, session_model):
        store = None if options.no_session else partial(open_store, settings)
        set_up = partial(_set_up_model, store)
        options.no_session = True  # the demo must not fill a person's store
    if options.plain or settings.screen_reader or os.environ.get("TERM") == "dumb":
        return asyncio.run(_run_plain(options, settings, harness, set_up))
    with terminal_input.keep_early_typing(sys.stdin):
        return asyncio.run(_run(options, settings, harness, set_up))


async def _set_up_model(store: Callable[[], Store] | None, context: CommandContext) -> None:
    await first_run.set_up_model(context, store)


async def _run(options: RunOptions, settings: Settings, harness: Harness, set_up: SetUp | None) -> int:
    front_end: TuiFrontEnd = load("ostler.tui.front_end:TuiFrontEnd")()
    harness.asker = front_end.ask
    front_end.bring_along(themes.themes_for(harness.cwd, print_stderr))
    host = await load_extensions(options, settings, harness, lambda: front_end)
    if host is not None:
        front_end.use_themes(host.ui.themes)
    front_end.begin_with(themes.chosen_theme(settings.theme, os.environ))
    store = open_store(settings, in_memory=options.no_session)
    session = await _session(options, store, harness)
    store_model(options, session)
    prompt = " ".join(options.words)

    def begin(tui: TerminalUI) -> None:
        if set_up is not None:
            tui.composer.soon(begin_with(tui, set_up))
        elif not session.state.leaf and not prompt:
            tui.composer.soon(print_welcome(tui, settings))

    async def begin_with(tui: TerminalUI, set_up: SetUp) -> None:
        """The prompt of the command line is for the model that answers then."""
        await set_up(tui)
        if prompt:
            await tui.submit(prompt)

    tui, signal_number = await run_terminal(
        session, front_end, settings, host=host, prompt="" if set_up else prompt, begin=begin
    )
    await tui.conversation.store.checkpoint()
    if signal_number:
        return 128 + signal_number
    print_resume_hint(tui.conversation, options.cwd)
    return 0


async def run_terminal(
    session: Session,
    front_end: TuiFrontEnd,
    settings: Settings,
    *,
    host: ExtensionHost | None = None,
    prompt: str = "",
    begin: Callable[[TerminalUI], None] = lambda tui: None,
) -> tuple[TerminalUI, int]:
    """Shows a session in this terminal until the person leaves. `begin` is called before the first frame.

    Returns the UI, which may show another session by then, and the number of the signal that ended it, or 0.
    """
    enable_gc()
    reader = terminal_input.TerminalInput(sys.stdin)
    with reader.raw_mode():
        terminal_input.take_early_typing(reader, real_stdout())
        front_end.is_dark = await terminal_input.detected_dark(
            settings.appearance, reader, real_stdout(), os.environ
        )
    tui = terminal_ui.TerminalUI(
        session,
        host,
        front_end,
        input=reader,
        output=terminal_output(),
        notify=settings.notify,
        editing=settings.editing,
        pictures=images.way_to_draw(settings.images, os.environ),
    )
    if settings.appearance == "auto":
        reader.answers.on_color = lambda color: front_end.set_background(
            dark=terminal_input.is_dark("auto", color, os.environ)
        )
    tui.composer.soon(_report_missing_theme(tui, settings))
    begin(tui)
    signals: list[int] = []

    def end(number: int) -> None:
        """Quits as a person would, so that the terminal is restored."""
        signals.append(number)
        tui.quit()

    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    with reader.raw_mode():
        terminal_input.take_early_typing(reader, real_stdout())
    reader.is_ui_drawn = True
    with front_end.captured_output(tui.say):
        await tui.run(prompt)
    return tui, signals[0] if signals else 0


async def _report_missing_theme(tui: TerminalUI, settings: Settings) -> None:
    theme, session = themes.chosen_theme(settings.theme, os.environ), tui.conversation.session
    notice = await themes.missing_theme(theme, tui.front_end.themes, tui.conversation.host, session.id)
    if notice:
        tui.say(notice, "warning")


def terminal_output() -> Output:
    """The terminal itself, wherever standard output leads meanwhile."""
    from prompt_toolkit.output import ColorDepth

    has_all = os.environ.get("COLORTERM") in ("truecolor", "24bit")
    depth = ColorDepth.TRUE_COLOR if has_all and not os.environ.get("NO_COLOR") else None
    output = inline_app.InlineOutput.from_pty(
        real_stdout(), term=os.environ.get("TERM"), default_color_depth=depth
    )
    # We never ask for the cursor position: when the answer comes, a conversation that goes on stands above
    # the cursor, and the toolkit would scroll it away to make room below.
    output.enable_cpr = False
    return output


async def _run_plain(options: RunOptions, settings: Settings, harness: Harness, set_up: SetUp | None) -> int:
    front_end = plain.PlainFrontEnd()
    harness.asker = front_end.ask
    await load_extensions(options, settings, harness, lambda: front_end)
    store = open_store(settings, in_memory=options.no_session)
    session = await _session(options, store, harness)
    enable_gc()
    store_model(options, session)
    ui = plain.PlainConversation(session, front_end)
    await ui.run(" ".join(options.words), set_up)
    await ui.conversation.store.checkpoint()
    if not ui.is_terminated:
        print_resume_hint(ui.conversation, options.cwd)
    return 0


async def _session(options: RunOptions, store: Store, harness: Harness) -> Session:
    if options.session is not None:
        return await open_or_follow(store, await find_session(store, options.session), harness)
    if options.continue_:
        if newest := await newest_session(store, harness.cwd):
            return await open_or_follow(store, newest, harness)
        print_stderr(f"there is no session in {harness.cwd} yet: starting a new one")
    return await create_session(store, harness)


async def print_welcome(tui: TerminalUI, settings: Settings) -> None:
    """Lists the instruction files, skills and extensions of a new session, after the first frame."""
    await tui.app.is_seen.wait()
    conversation = tui.conversation
    if conversation.host is not None and (session := conversation.host.sessions.get(conversation.session.id)):
        await session.drain()  # an extension may hide it
    if tui.extensions.visibility.hide_startup:
        return
    parts = await asyncio.to_thread(_instruction_sources, conversation.harness.cwd, settings.instructions)
    if settings.system:
        parts.insert(0, "your own system prompt")
    if conversation.host is not None and (loaded := [one.name for one in conversation.host.loaded]):
        parts.append(f"{plural(len(loaded), 'extension')}: {', '.join(loaded)}")
    if parts:
        tui.say(f"with {' · '.join(parts)}")


def _instruction_sources(cwd: Path, has_instructions: bool) -> list[str]:
    parts: list[str] = []
    for source in instructions.instructions_in(cwd).sources if has_instructions else ():
        path, folder = Path(source.path), cwd.resolve()
        name = str(path.relative_to(folder)) if path.is_relative_to(folder) else below_home(path)
        parts.append(name or os.path.relpath(path, folder))
    if skills := len(instructions.skills_in(cwd).by_name):
        parts.append(plural(skills, "skill"))
    return parts
