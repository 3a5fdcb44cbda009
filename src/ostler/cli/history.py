"""`ostler audit` and `ostler replay`: reads the stored facts of a session."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from ostler.app.console import aligned, print_json, print_lines, print_stderr
from ostler.app.harness import choose_tools, set_system_prompt
from ostler.app.options import Parser, add_json, add_session
from ostler.app.settings import Settings, load_settings, working_directory
from ostler.app.stores import find_session, opened_store, read_facts
from ostler.context.instructions import nested_instructions
from ostler.core.harness import Harness
from ostler.history.audit import audit_entries, why
from ostler.history.audit_decisions import AuditEntry
from ostler.history.export import EXTENSIONS, read_export_file
from ostler.history.items import call_title
from ostler.history.recording import RecordedRun, Recording, recording_in, recording_of
from ostler.history.replay import ReplayResult, Stage, replay
from ostler.models.scripted import RecordedModel
from ostler.permissions.guard import configured_rules, user_guard
from ostler.schema.errors import NotFound, UsageError
from ostler.schema.events import AssistantMessage, ToolCalled, ToolStarted
from ostler.schema.facts import Fact
from ostler.schema.messages import ToolCall, text_of
from ostler.schema.text import cut, one_line, plural, printable
from ostler.store.paths import store_file

_WIDEST_SUBJECT = 40


def audit_command(arguments: list[str]) -> int:
    options = _audit_parser().parse_args(arguments)
    facts = asyncio.run(read_facts(options.id))
    called = None if options.why is None else _called(facts, options.why)
    entries = list(audit_entries(facts)) if called is None else why(facts, called.call)
    if options.json:
        print_json(*entries)
        return 0
    if called:
        print_lines(_heading(facts, called))
    print_lines(_rows(entries), fits=not called)
    if called is None and not any(entry.run for entry in entries):
        print_stderr("this session has no runs yet")
    return 0


def _audit_parser() -> Parser:
    parser = Parser(
        prog="ostler audit",
        description="Shows the decisions in a session and their reasons: which model was called, which calls "
        "were allowed or refused, how people answered, which limits applied. It reads the stored facts.",
    )
    add_session(parser)
    about = "only the decisions that led to one call, given by its id or its number in this list"
    parser.add_argument("--why", metavar="CALL", help=about)
    add_json(parser)
    return parser


def _called(facts: Sequence[Fact], wanted: str) -> ToolCalled:
    """The call with that id or number, or that the decision with that number is about."""
    calls = [(fact.seq, fact.event) for fact in facts if isinstance(fact.event, ToolCalled)]
    number = wanted.removeprefix("#")
    decided = {str(entry.seq): entry.call for entry in audit_entries(facts)}
    for seq, called in calls:
        if called.call in (wanted, decided.get(number)) or str(seq) == number:
            return called
    raise NotFound(f"the session has no call {wanted}; `ostler audit` and `ostler sessions show` number them")


def _heading(facts: Sequence[Fact], called: ToolCalled) -> Iterator[str]:
    """The call, and the model's text with it."""
    yield f"{one_line(called.name)}: {call_title(called.name, called.arguments, called.display)}"
    for fact in facts:
        event = fact.event
        if not isinstance(event, AssistantMessage) or event.suppressed:
            continue
        has_call = any(isinstance(block, ToolCall) and block.id == called.call for block in event.content)
        text = one_line(text_of(event.content if event.shown is None else event.shown))
        if has_call and text:
            yield f"the model said: {cut(text, 400)}"
    yield ""


def _rows(entries: Sequence[AuditEntry]) -> Iterator[str]:
    """Number, time, action, subject and reason."""
    if not entries:
        return
    has_terminal = sys.stdout.isatty()
    table = [
        (
            f"#{entry.seq}",
            _clock(entry.time) if has_terminal else entry.time,
            one_line(entry.action),
            cut(_subject(entry), _WIDEST_SUBJECT) if has_terminal else _subject(entry),
            one_line(entry.reason),
        )
        for entry in entries
    ]
    yield from aligned([("#", "TIME", "ACTION", "WHAT", "WHY"), *table])


def _clock(time: str) -> str:
    return datetime.fromisoformat(time).astimezone().strftime("%m-%d %H:%M:%S")


def _subject(entry: AuditEntry) -> str:
    name = entry.tool or (entry.model if not entry.what else "") or entry.who
    return one_line(" ".join(filter(None, (name, entry.what))))


def replay_command(arguments: list[str]) -> int:
    options = _replay_parser().parse_args(arguments)
    if options.tools == "recorded" and (options.yes or options.permissions):
        raise UsageError("recorded tools need no permission: use --tools live to run them")
    if options.yes and options.permissions not in (None, "full"):
        raise UsageError(f"--yes and --permissions {options.permissions} cannot be combined")
    cwd = working_directory(options.cwd)
    permissions = "full" if options.yes else options.permissions or "read-only"
    loaded = load_settings(cwd, {"permissions": permissions})
    for notice in loaded.notices:
        print_stderr(notice)
    result = asyncio.run(_replay(options, loaded.settings, cwd))
    if options.json:
        outcome: dict[str, Any] = {"identical": result.identical, **msgspec.to_builtins(result)}
        if result.difference is not None:
            outcome["difference"]["diff"] = result.difference.diff()
        print_json(outcome)
    else:
        _print(result)
    return 0 if result.identical else 1


def _replay_parser() -> Parser:
    parser = Parser(
        prog="ostler replay",
        description="Runs a recorded session again and shows the first difference. The model's answers come "
        "from the log, so nothing is sent. Exit code 0: identical; 1: different.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    about = "a session's id (a unique prefix is enough), or a file written by `ostler sessions export`"
    add("recording", metavar="SESSION|EXPORT", help=about)
    about = "where tool results come from: the log (default), or the built-in tools, which then really run"
    add("--tools", choices=("recorded", "live"), default="recorded", help=about)
    add("--cwd", metavar="DIR", help="the directory of live tools (default: this one)")
    about = "what live tools may do (default: read-only)"
    add("--permissions", choices=("read-only", "edit", "full"), help=about)
    add("--yes", action="store_true", help="the same as --permissions full")
    add_json(parser, "print the outcome as one JSON object")
    return parser


async def _replay(options: argparse.Namespace, settings: Settings, cwd: Path) -> ReplayResult:
    recording = await _recording(options.recording)
    live = options.tools == "live"
    rules = configured_rules(settings.allow, settings.ask, settings.deny)
    harness = Harness(
        RecordedModel(recording.facts),
        permission_hook=user_guard(settings.permissions, cwd, rules) if live else None,
        reasoning=settings.reasoning,
        max_output_tokens=settings.max_output_tokens,
        cwd=cwd,
    )
    harness.tools = choose_tools(None, cwd)
    if live:
        if settings.instructions:
            harness.hooks.add(nested_instructions(cwd))
        called = {fact.event.name for fact in recording.facts if isinstance(fact.event, ToolStarted)}
        if absent := sorted(called - set(harness.tools)):
            print_stderr(f"using the recorded results of tools that are not built in: {', '.join(absent)}")

    def set_prompt(harness: Harness, run: RecordedRun) -> None:
        folder = Path(run.event.cwd) if run.event.cwd else cwd
        day = datetime.fromtimestamp(run.started.time_ms / 1000).date()
        set_system_prompt(harness, settings, folder, day)

    return await replay(recording, Stage(harness, live=live, before_run=set_prompt))


async def _recording(name: str) -> Recording:
    if _is_file(name):
        with read_export_file(name) as lines:
            return await recording_in(lines)
    if "/" in name or name.endswith(EXTENSIONS["jsonl"]) or not store_file().exists():
        raise NotFound(f"there is no file {name}; see `ostler sessions list`")
    async with opened_store() as store:
        return await recording_of(store, await find_session(store, name))


def _is_file(name: str) -> bool:
    return name == "-" or Path(name).is_file()


def _print(result: ReplayResult) -> None:
    numbers = ((result.runs, "run"), (result.requests, "request"), (result.results, "result"))
    counts = ", ".join(plural(number, what) for number, what in numbers)
    difference = result.difference
    if difference is None:
        print(f"identical: {counts}")
        if result.exact < result.requests:
            print_stderr(
                f"{result.exact} of the requests are byte-identical; the others may differ in what the log "
                "does not contain: system prompt, descriptions of tools, settings of the model"
            )
        return
    place = f"step {difference.step} of run {difference.run}, fact {difference.fact}"
    print(f"different: {difference.text} ({place})")
    print(printable(difference.diff()))
    print_stderr(f"identical until then: {counts}")
