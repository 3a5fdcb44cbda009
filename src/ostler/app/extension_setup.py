"""Extensions on the command line: which are loaded, what a person consents to, and their commands."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ostler.app.console import ask_person, has_terminal, print_stderr, reserve_stdout
from ostler.app.settings import Settings, project_paths
from ostler.core.harness import Harness
from ostler.extensions.idle_host import IdleHost, has_extensions, set_host
from ostler.schema.requests import RunCommand
from ostler.schema.text import one_line
from ostler.store.paths import expand_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.extensions.host import ExtensionHost
    from ostler.extensions.loader.code_files import ProjectExtension
    from ostler.extensions.loader.discovery import ExtensionSearch
    from ostler.extensions.ui.front_end import FrontEnd


async def load_extensions(
    options: argparse.Namespace,
    settings: Settings,
    harness: Harness,
    make_face: Callable[[], FrontEnd],
    *,
    tell: Callable[[str], None] = print_stderr,
    asks: bool = True,
) -> ExtensionHost | None:
    """Loads the extensions that count here, and reports those that are left out. `make_face` is called when
    there is one. Unless it `asks`, the person at the terminal is not the one to consent."""
    consent = _ask_about if asks and has_terminal() else None
    reserve_stdout()
    wanted = bool(options.extension or settings.extensions)
    if wanted or (not options.no_extensions and has_extensions(harness.cwd)):
        from ostler.extensions.loader.extension_loader import load_into

        search = _search(options, settings, harness.cwd)
        return await load_into(harness, search, consent=consent, **_with(settings, make_face, tell))
    if not options.no_extensions:
        set_host(
            harness,
            IdleHost(harness, lambda: _first_host(options, settings, harness, make_face, tell)),
        )
    return None


def _first_host(
    options: argparse.Namespace,
    settings: Settings,
    harness: Harness,
    make_face: Callable[[], FrontEnd],
    tell: Callable[[str], None],
) -> ExtensionHost:
    from ostler.extensions.loader.extension_loader import empty_host

    return empty_host(_search(options, settings, harness.cwd), **_with(settings, make_face, tell))


def _with(
    settings: Settings, make_face: Callable[[], FrontEnd], tell: Callable[[str], None]
) -> dict[str, Any]:
    options = {name: _as_text(value) for name, value in settings.options.items()}
    return {"say": tell, "options": options, "face": make_face()}


def _search(options: argparse.Namespace, settings: Settings, cwd: Path) -> ExtensionSearch:
    from ostler.extensions.loader.discovery import ExtensionSearch

    return ExtensionSearch(
        cwd,
        named=tuple(expand_home(path).absolute() for path in options.extension or ()),
        configured=tuple(cwd / path for path in settings.extensions),
        of_project=project_paths(cwd) if settings.extensions else {},
        automatic=not options.no_extensions,
        trusts=options.trust,
    )


def _as_text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ask_about(extensions: Sequence[ProjectExtension]) -> bool:
    """Shows what would run, and asks once for all."""
    for one in extensions:
        print_stderr(f"this project brings the extension {one.found.name} ({one.found.path}):")
        for line in one.lines():
            print(f"  {one_line(line)}", file=sys.stderr)
    what = "it, and may it" if len(extensions) == 1 else "them, and may they"
    return ask_person(f"an extension runs with your rights. Have you looked at {what} run?")


def command_in(host: ExtensionHost | None, prompt: str, harness: Harness) -> RunCommand | None:
    """The command that a prompt is, if an extension brings it and no template has its name."""
    if host is None:
        return None
    typed = re.fullmatch(r"/([^\s/]+)(?:\s+(.*))?", prompt, re.DOTALL)
    if typed is None or typed[1] not in host.commands():
        return None
    from ostler.context.slash_commands import prompt_commands, prompts_here

    if typed[1] in prompt_commands(prompts_here(harness.cwd), harness.model.name).names:
        return None
    return RunCommand(id="", by="cli", name=typed[1], arguments=(typed[2] or "").strip())
