"""The generated sections of handwritten pages: between `<!-- generated:NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import asyncio
import io
import os
import re
import tempfile
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import msgspec

from docs_audit import action_table, facts_without_decision
from docs_invariants import (
    invariant_table,
    store_invariant_table,
    tree_invariant_table,
)
from docs_policy import policy_table
from docs_tables import field_docstrings, row, spelled
from docs_terminal import command_table
from docs_themes import theme_table
from ostler import main
from ostler.app import settings
from ostler.app.options import print_parser
from ostler.cli.session_runner import TERMINATED, exit_code
from ostler.core.harness import Harness
from ostler.core.journal import World
from ostler.core.tool import ToolKind
from ostler.drivers.agent_tool import AgentTool
from ostler.history.export import transcript
from ostler.models.providers import PROVIDERS, ModelOptions
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.permissions.guard import permission_hook
from ostler.permissions.known_programs import LOOKING, VERSIONS
from ostler.permissions.rules import PROFILES, judge
from ostler.permissions.trust import LIMITS, SENSITIVE
from ostler.schema import errors
from ostler.schema.events import Event, RunEnded, RunWaiting, Totals
from ostler.schema.facts import Fact, encode_lines
from ostler.schema.messages import as_content
from ostler.schema.usage import Usage
from ostler.sessions.session import create_session
from ostler.store.memory import MemoryStore
from ostler.tools import builtin_tool, builtin_tools

WIDTH = "100"
_MARKED = re.compile(r"(?m)^(<!-- generated:([\w-]+) -->\n)(.*?)^(<!-- end -->)$", re.DOTALL)
_KINDS_IN_WORDS: dict[ToolKind, str] = {
    "read": "read files",
    "search": "search",
    "edit": "change files",
    "execute": "run commands",
    "fetch": "use the network",
    "agent": "plan or hand a task on",
    "other": "anything else",
}


def filled(page: str, name: str) -> str:
    """The page with its sections as they should be; raises `SystemExit` for a section that nobody writes."""

    def section(match: re.Match[str]) -> str:
        if match[2] not in SECTIONS:
            raise SystemExit(f"{name}: there is no section {match[2]!r}; there are: {', '.join(SECTIONS)}")
        return f"{match[1]}{SECTIONS[match[2]]().strip()}\n{match[4]}"

    if page.count("<!-- generated:") != len(_MARKED.findall(page)):
        raise SystemExit(f"{name}: a generated section has no end; write <!-- end --> on a line of its own")
    return _MARKED.sub(section, page)


# --- help -------------------------------------------------------------------------------------------


def help_of(*command: str) -> str:
    """What `--help` prints in a terminal of fixed width, without colours."""
    kept = dict(os.environ)
    os.environ |= {"COLUMNS": WIDTH, "NO_COLOR": "1"}
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            main.run([*command, "--help"])
    finally:
        os.environ.clear()
        os.environ |= kept
    return f"```\n{printed.getvalue()}```"


RUN_COMMANDS = ("follow", "steer", "cancel", "pause", "resume", "release")
"""The commands about one run that have no section of their own."""


def help_of_each(command: str) -> str:
    """The help of each command below this one."""
    names = re.findall(r"(?m)^    (\w+)(?: |$)", help_of(command))
    return "\n\n".join(help_of(command, name) for name in names)


# --- tables -----------------------------------------------------------------------------------------


def settings_table() -> Iterator[str]:
    hints = typing.get_type_hints(settings.Settings)
    meanings = field_docstrings(ModelOptions) | field_docstrings(settings.Settings)
    options = {action.dest: action.option_strings for action in print_parser({})._actions}
    yield "| setting | values | default | variable | option | in a project's file | meaning |"
    yield "|---|---|---|---|---|---|---|"
    for field in msgspec.structs.fields(settings.Settings):
        default = "–" if field.default in ("", None, (), msgspec.NODEFAULT) else f"`{field.default}`"
        option = ", ".join(f"`{name}`" for name in options.get(field.name, ())) or "–"
        values = spelled(hints[field.name]).removesuffix(" | null")
        variable = "–" if field.name in settings.TABLES else f"`OSTLER_{field.name.upper()}`"
        yield row(
            f"`{field.name}`", values, default, variable, option, _trust(field.name), meanings[field.name]
        )


def _trust(name: str) -> str:
    if name in SENSITIVE:
        return "after `ostler trust`"
    if name in ("permissions", "tools", *LIMITS):
        return "after `ostler trust`, if it allows more than your own"
    return "after `ostler trust`, if your key would go to another provider" if name == "model" else "yes"


def exit_code_table() -> Iterator[str]:
    refused = RunEnded("completed", own=Totals(refused_calls=1))
    rows: Sequence[tuple[int, str]] = (
        (exit_code(RunEnded("completed")), "the run completed"),
        (
            exit_code(RunEnded("failed")),
            "the run failed: the model was not reached, refused or broke off, or the store cannot be used",
        ),
        (errors.UsageError.exit_code, "what was asked cannot be: a wrong option, file, session or setting"),
        (errors.NoModel.exit_code, "nothing is configured that could answer: no model, or no key for it"),
        (exit_code(refused), "the run completed, but a call was refused; or the model refused to answer"),
        (
            exit_code(RunEnded("limit")),
            "a limit ended the run: steps, tokens, cost, time, or the same call over and over",
        ),
        (exit_code(RunWaiting("question")), "the run waits for a person, or was paused"),
        (exit_code(RunEnded("cancelled")), "cancelled with Ctrl-C"),
        (141, "whoever read the output has left, as `head` does"),
        (exit_code(RunEnded("cancelled", TERMINATED)), "terminated: SIGTERM or SIGHUP"),
    )
    yield "| code | when |"
    yield "|---:|---|"
    for code, when in sorted(rows):
        yield row(str(code), when)


def permission_table() -> Iterator[str]:
    yield row("tools that …", *(f"`{profile}`" for profile in PROFILES))
    yield "|---|" + "---|" * len(PROFILES)
    for kind, words in _KINDS_IN_WORDS.items():
        verdicts = {"allow": "run", "ask": "ask", "refuse": "refused"}
        yield row(words, *(verdicts[judge(profile, kind)] for profile in PROFILES))


def harmless_commands() -> str:
    looking, telling = (", ".join(f"`{name}`" for name in sorted(names)) for names in (LOOKING, VERSIONS))
    return f"{looking}; and with `--version` only: {telling}"


def tool_table() -> Iterator[str]:
    yield "| tool | what it does | parameters | counts as |"
    yield "|---|---|---|---|"
    for one in builtin_tools():
        required = one.spec.schema["required"]
        parameters = ", ".join(
            f"`{name}{'' if name in required else '?'}`" for name in one.spec.schema["properties"]
        )
        about = re.split(r"(?<=[a-z])[.;:] ", one.spec.description)[0].rstrip(".")
        yield row(f"`{one.spec.name}`", about, parameters, _KINDS_IN_WORDS[one.spec.kind])


def agent_tool_table() -> Iterator[str]:
    """Of the tool that starts other vendors' agents."""
    yield "| parameter | what it is |"
    yield "|---|---|"
    for name, about in AgentTool({}).spec.schema["properties"].items():
        yield row(f"`{name}`", about["description"])


def provider_table() -> Iterator[str]:
    yield "| provider | key | default model | server |"
    yield "|---|---|---|---|"
    for one in PROVIDERS.values():
        key = " or ".join(f"`{name}`" for name in one.key_variables) or "none"
        server = one.base_url or (
            f"`{one.base_url_variable}`" if one.base_url_variable else "a file: `gguf/PATH`"
        )
        yield row(f"`{one.name}`", key, f"`{one.default_model}`" if one.default_model else "–", server)


# --- a session, always the same ---------------------------------------------------------------------

SAMPLE_FOLDER = "/home/ada/garden"


class Sample(msgspec.Struct, frozen=True):
    lines: tuple[str, ...]
    """As `--json` prints them."""
    shown: tuple[str, ...]
    """As `ostler sessions show` prints it."""
    appends: tuple[tuple[str, ...], ...]
    """The types of the facts of each append."""


def sample() -> Sample:
    """A run with one tool call and nothing in it that depends on the moment or the machine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "plants.txt").write_text("thyme\nsage\n", encoding="utf-8")
        return asyncio.run(_sample(folder))


async def _sample(folder: Path) -> Sample:
    count: dict[str, int] = {}

    def new_id(prefix: str) -> str:
        count[prefix] = count.get(prefix, 0) + 1
        return f"{prefix}_{count[prefix]}"

    world = World(now_ms=lambda: 1_767_225_600_000, new_id=new_id)
    call = Call("read", {"path": "plants.txt"}, id="call_1")
    script = [
        Turn("I look.", calls=(call,), piece=100, usage=Usage(input_tokens=812, output_tokens=31)),
        Turn("Thyme and sage.", piece=100, usage=Usage(input_tokens=871, output_tokens=9)),
    ]
    harness = Harness(
        ScriptedModel(script, name="anthropic/claude-sonnet-5-5"),
        cwd=folder,
        permission_hook=permission_hook("read-only"),
        permission_profile="read-only",
    )
    harness.set_tools([builtin_tool("read")])
    store = MemoryStore(world)
    session = await create_session(store, harness, world=world)
    seen: list[Sequence[Fact | Event]] = []
    session.subscribe(seen.append)
    await session.prompt(as_content("What grows here?"))
    shown = transcript(await store.summary(session.id), await store.read(session.id))
    lines = [_line(item) for batch in seen for item in batch]
    appends = [tuple(item.type for item in batch) for batch in seen if isinstance(batch[0], Fact)]

    def at_home(text: str) -> str:
        return text.replace(str(folder), SAMPLE_FOLDER)

    return Sample(tuple(map(at_home, lines)), tuple(map(at_home, shown)), tuple(appends))


def _line(item: Fact | Event) -> str:
    return (item.line() if isinstance(item, Fact) else encode_lines([item]).rstrip()).decode()


def _fenced(lines: Sequence[str], language: str = "") -> str:
    return "\n".join([f"```{language}", *lines, "```"])


SECTIONS: dict[str, Callable[[], str]] = {
    "audit-actions": lambda: "\n".join(action_table()),
    "audit-no-decision": facts_without_decision,
    "context-policy": lambda: "\n".join(policy_table()),
    "help": help_of,
    "help-answer": lambda: help_of("answer"),
    "help-audit": lambda: help_of("audit"),
    "help-context": lambda: help_of("context"),
    "help-cost": lambda: help_of("cost"),
    "help-demo": lambda: help_of("demo"),
    "help-replay": lambda: help_of("replay"),
    "help-run-commands": lambda: "\n\n".join(map(help_of, RUN_COMMANDS)),
    "help-runs": lambda: help_of("runs"),
    "help-sessions": lambda: help_of("sessions"),
    "help-sessions-commands": lambda: help_of_each("sessions"),
    "help-key": lambda: help_of("key"),
    "help-key-commands": lambda: help_of_each("key"),
    "help-permissions": lambda: help_of("permissions"),
    "help-permissions-commands": lambda: help_of_each("permissions"),
    "help-doctor": lambda: help_of("doctor"),
    "help-trust": lambda: help_of("trust"),
    "settings": lambda: "\n".join(settings_table()),
    "exit-codes": lambda: "\n".join(exit_code_table()),
    "harmless-commands": harmless_commands,
    "permissions": lambda: "\n".join(permission_table()),
    "terminal_commands": lambda: "\n".join(command_table()),
    "themes": lambda: "\n".join(theme_table()),
    "tools": lambda: "\n".join(tool_table()),
    "agent-tool": lambda: "\n".join(agent_tool_table()),
    "providers": lambda: "\n".join(provider_table()),
    "invariants": lambda: "\n".join(invariant_table()),
    "tree-invariants": lambda: "\n".join(tree_invariant_table()),
    "store-invariants": lambda: "\n".join(store_invariant_table()),
    "json-sample": lambda: _fenced(sample().lines, "json"),
    "sessions-show-sample": lambda: _fenced(sample().shown),
}
