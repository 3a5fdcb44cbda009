"""Loads the extensions of a session, with the user's consent, and finds their commands in prompts."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ostler.app.console import ask_consent, has_terminal, print_stderr, reserve_stdout
from ostler.app.options import RunOptions
from ostler.app.settings import Settings, project_paths
from ostler.core.harness import Harness
from ostler.core.lazy import lazy_module
from ostler.extensions.idle_host import IdleHost, has_extensions, set_host
from ostler.schema.requests import RunCommand
from ostler.schema.text import one_line
from ostler.store.paths import expand_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.context import slash_commands
    from ostler.extensions.host import ExtensionHost
    from ostler.extensions.loader import discovery, extension_loader
    from ostler.extensions.loader.code_files import ProjectExtension
    from ostler.extensions.ui.front_end import FrontEnd
else:
    discovery = lazy_module("ostler.extensions.loader.discovery")
    extension_loader = lazy_module("ostler.extensions.loader.extension_loader")
    slash_commands = lazy_module("ostler.context.slash_commands")


async def load_extensions(
    options: RunOptions,
    settings: Settings,
    harness: Harness,
    make_front_end: Callable[[], FrontEnd],
    *,
    say: Callable[[str], None] = print_stderr,
    asks: bool = True,
) -> ExtensionHost | None:
    """Loads the extensions of this session, and reports those that are left out. `make_front_end` makes the
    front end for them, if there are any. With `asks`, it asks the person at the terminal for consent."""
    consent = _ask_consent if asks and has_terminal() else None
    reserve_stdout()

    def loader_options() -> dict[str, Any]:
        values = {name: _as_text(value) for name, value in settings.options.items()}
        search = _search(options, settings, harness.cwd)
        return {"search": search, "say": say, "options": values, "face": make_front_end()}

    are_named = bool(options.extension or settings.extensions)
    if are_named or (not options.no_extensions and has_extensions(harness.cwd)):
        return await extension_loader.load_into(harness, consent=consent, **loader_options())
    if not options.no_extensions:
        set_host(harness, IdleHost(harness, lambda: extension_loader.empty_host(**loader_options())))
    return None


def _search(options: RunOptions, settings: Settings, cwd: Path) -> discovery.ExtensionSearch:
    return discovery.ExtensionSearch(
        cwd,
        named=tuple(expand_home(path).absolute() for path in options.extension or ()),
        configured=tuple(cwd / path for path in settings.extensions),
        of_project=project_paths(cwd) if settings.extensions else {},
        automatic=not options.no_extensions,
        trusts=options.trust,
        process_limits=settings.tool_limits,
    )


def _as_text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ask_consent(extensions: Sequence[ProjectExtension]) -> bool:
    """Lists the extensions, and asks once for all."""
    for extension in extensions:
        print_stderr(
            f"this project has the extension {extension.candidate.name} ({extension.candidate.path}):"
        )
        for line in extension.lines():
            print(f"  {one_line(line)}", file=sys.stderr)
    what = "it" if len(extensions) == 1 else "them"
    return ask_consent(
        f"an extension runs with your rights. Have you reviewed {what}, and do you allow {what}?"
    )


def command_in(host: ExtensionHost | None, prompt: str, harness: Harness) -> RunCommand | None:
    """The extension command that a prompt calls, unless a template has its name."""
    if host is None:
        return None
    call = re.fullmatch(r"/([^\s/]+)(?:\s+(.*))?", prompt, re.DOTALL)
    if call is None or call[1] not in host.commands():
        return None
    templates = slash_commands.prompts_here(harness.cwd)
    if call[1] in slash_commands.prompt_commands(templates, harness.model.name).names:
        return None
    return RunCommand(id="", by="cli", name=call[1], arguments=(call[2] or "").strip())
