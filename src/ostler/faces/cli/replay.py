"""`ostler replay`: a recorded session runs again, without a network, and the first difference is shown."""

from __future__ import annotations

import argparse
import asyncio
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec

from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.columns import printable
from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.portable_file import EXTENSION, reading
from ostler.kernel.harness import Harness
from ostler.models.recorded import RecordedModel
from ostler.runs.assembly import choose_tools, tell_at_first
from ostler.runs.home import store_file
from ostler.runs.nested_instructions import nested_instructions
from ostler.runs.permissions import configured_rules, user_guard
from ostler.runs.replay import Replayed, Stage, replay
from ostler.runs.replay_recording import RecordedRun, Recording, recording_in, recording_of
from ostler.runs.settings import Settings, load_settings
from ostler.runs.stores import find_session, open_store
from ostler.vocabulary.errors import NotFound, UsageError
from ostler.vocabulary.events import ToolStarted


def replay_command(arguments: list[str]) -> int:
    options = _replay_parser().parse_args(arguments)
    if options.tools == "recorded" and (options.yes or options.permissions):
        raise UsageError("recorded tools need no permission: say --tools live to run them")
    if options.yes and options.permissions not in (None, "full"):
        raise UsageError(f"--yes and --permissions {options.permissions} exclude each other")
    cwd = working_directory(options.cwd)
    permissions = "full" if options.yes else options.permissions or "read-only"
    loaded = load_settings(cwd, {"permissions": permissions})
    for notice in loaded.notices:
        _say(notice)
    found = asyncio.run(_replay(options, loaded.settings, cwd))
    if options.json:
        _print_json(found)
    else:
        _print(found)
    return 0 if found.identical else 1


def _replay_parser() -> Parser:
    parser = Parser(
        prog="ostler replay",
        description="Runs a recorded session again and shows the first difference. The model's answers come "
        "from the log: nothing is sent anywhere. Exit code 0: identical; 1: there is a difference.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "recording",
        metavar="SESSION|EXPORT",
        help="a session's id (a unique beginning will do), or a file that `ostler sessions export` wrote",
    )
    parser.add_argument(
        "--tools",
        choices=("recorded", "live"),
        default="recorded",
        help="where results come from: the log (default), or the built-in tools, which really run",
    )
    parser.add_argument("--cwd", metavar="DIR", help="where live tools work (default: here)")
    parser.add_argument(
        "--permissions",
        choices=("read-only", "edit", "full"),
        help="what live tools may do (default: read-only)",
    )
    parser.add_argument("--yes", action="store_true", help="the same as --permissions full")
    parser.add_argument("--json", action="store_true", help="the outcome as one JSON object")
    return parser


async def _replay(options: argparse.Namespace, settings: Settings, cwd: Path) -> Replayed:
    recording = await _recording(options.recording)
    live = options.tools == "live"
    harness = Harness(
        RecordedModel(recording.facts),
        permission=user_guard(settings.permissions, cwd, configured_rules(settings)) if live else None,
        reasoning=settings.reasoning,
        max_output_tokens=settings.max_output_tokens,
        cwd=cwd,
    )
    harness.tools = choose_tools(None, cwd)
    if live:
        if settings.instructions:
            harness.hooks.add(nested_instructions(cwd))
        _name_absent_tools(recording, harness)

    def as_it_was(harness: Harness, run: RecordedRun) -> None:
        place = Path(run.event.cwd) if run.event.cwd else cwd
        tell_at_first(harness, settings, place, _day(run))

    return await replay(recording, Stage(harness, live=live, before_run=as_it_was))


def _name_absent_tools(recording: Recording, harness: Harness) -> None:
    called = {fact.event.name for fact in recording.facts if isinstance(fact.event, ToolStarted)}
    if absent := sorted(called - set(harness.tools)):
        _say(f"not built in, so with the log's results: {', '.join(absent)}")


def _day(run: RecordedRun) -> date:
    return datetime.fromtimestamp(run.started.time_ms / 1000).date()


async def _recording(name: str) -> Recording:
    if _is_file(name):
        with reading(name) as lines:
            return await recording_in(lines)
    if "/" in name or name.endswith(EXTENSION) or not store_file().exists():
        raise NotFound(f"there is no file {name}; `ostler sessions` lists the sessions there are")
    store = open_store()
    try:
        return await recording_of(store, await find_session(store, name))
    finally:
        await store.close()


def _is_file(name: str) -> bool:
    return name == "-" or Path(name).is_file()


def _print(found: Replayed) -> None:
    counts = (
        f"{_many(found.runs, 'run')}, {_many(found.requests, 'request')}, {_many(found.results, 'result')}"
    )
    difference = found.difference
    if difference is None:
        print(f"identical: {counts}")
        if found.exact < found.requests:
            _say(
                f"{found.exact} of the requests are the same to the byte; the others may differ in what the "
                "log does not hold: system prompt, descriptions of tools, settings of the model"
            )
        return
    place = f"step {difference.step} of run {difference.run}, fact {difference.fact}"
    print(f"different: {difference.text} ({place})")
    print(printable(difference.diff()))
    _say(f"the same until then: {counts}")


def _print_json(found: Replayed) -> None:
    outcome: dict[str, Any] = {"identical": found.identical, **msgspec.to_builtins(found)}
    if found.difference is not None:
        outcome["difference"]["diff"] = found.difference.diff()
    sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _say(text: str) -> None:
    print(f"ostler: {text}", file=sys.stderr)
