"""The generated sections of handwritten pages: between `<!-- generated:NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import os
import re
import tempfile
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import msgspec

from ostler import main
from ostler.app import settings
from ostler.app.options import print_parser
from ostler.cli.session_runner import TERMINATED, exit_code
from ostler.context.policy import ContextPolicy
from ostler.core.harness import Harness
from ostler.core.journal import World
from ostler.core.processes import ProcessLimits
from ostler.core.tool import ToolKind
from ostler.drivers.agent_tool import AgentTool
from ostler.history.audit_decisions import ACTIONS, NO_DECISION
from ostler.history.export import transcript
from ostler.models.providers import PROVIDERS, ModelOptions
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.permissions.guard import permission_hook
from ostler.permissions.harmless_programs import GIT, PROGRAMS
from ostler.permissions.protected import protection_table
from ostler.permissions.rules import PROFILES, judge
from ostler.permissions.trust import LIMITS, SENSITIVE
from ostler.schema import errors
from ostler.schema.events import EVENT_TYPES, Event, RunEnded, RunWaiting, Totals
from ostler.schema.facts import Fact, encode_lines
from ostler.schema.messages import as_content
from ostler.schema.usage import Usage
from ostler.server.app import OPERATIONS
from ostler.server.scopes import REQUESTS, SCOPES
from ostler.server.tokens import ABOUT_SCOPES
from ostler.sessions.session import create_session
from ostler.store.invariants import INVARIANTS, TREE_INVARIANTS
from ostler.store.memory import MemoryStore
from ostler.store.sqlite_maintenance import MENDABLE, STORE_INVARIANTS
from ostler.tools import builtin_tool, builtin_tools
from ostler.tui.commands.registry import Commands
from ostler.tui.themes import ThemeList

WIDTH = "100"
_NO_DEFAULT = ("", None, (), msgspec.NODEFAULT)
_MARKED = re.compile(r"(?m)^(<!-- generated:([\w-]+) -->\n)(.*?)^(<!-- end -->)$", re.DOTALL)
_TYPE_NAMES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    types.NoneType: "null",
    Any: "any",
}
_KIND_DESCRIPTIONS: dict[ToolKind, str] = {
    "read": "read files",
    "search": "search",
    "edit": "change files",
    "execute": "run commands",
    "fetch": "use the network",
    "agent": "plan or hand a task on",
    "other": "anything else",
}


def fill_sections(page: str, name: str) -> str:
    """The page with current sections. Raises `SystemExit` for an unknown section."""

    def section(match: re.Match[str]) -> str:
        if match[2] not in SECTIONS:
            raise SystemExit(f"{name}: there is no section {match[2]!r}; there are: {', '.join(SECTIONS)}")
        return f"{match[1]}{SECTIONS[match[2]]().strip()}\n{match[4]}"

    if page.count("<!-- generated:") != len(_MARKED.findall(page)):
        raise SystemExit(f"{name}: a generated section has no end; write <!-- end --> on a line of its own")
    return _MARKED.sub(section, page)


# --- rows and types ---------------------------------------------------------------------------------


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def json_type(hint: Any) -> str:
    """The JSON name of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(json_type(argument) for argument in arguments)
    if origin is tuple:
        inner = json_type(arguments[0])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if origin is dict:
        return "object"
    return _TYPE_NAMES.get(hint) or str(hint.__name__)


def field_docstrings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The string below each field, from the source: Python doesn't keep it."""
    (definition,) = ast.parse(inspect.getsource(struct)).body
    assert isinstance(definition, ast.ClassDef)
    docstrings = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    docstrings[field.target.id] = text
    return docstrings


# --- help -------------------------------------------------------------------------------------------


def help_of(*command: str) -> str:
    """What `--help` prints in a terminal of fixed width, without colours."""
    environment = dict(os.environ)
    os.environ |= {"COLUMNS": WIDTH, "NO_COLOR": "1"}
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            main.run([*command, "--help"])
    finally:
        os.environ.clear()
        os.environ |= environment
    return f"```\n{printed.getvalue()}```"


RUN_COMMANDS = ("follow", "steer", "cancel", "pause", "resume", "release")
"""The commands for one run, which share a section."""


def help_of_each(command: str) -> str:
    """The help of each subcommand."""
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
        default = "–" if field.default in _NO_DEFAULT else f"`{field.default}`"
        option = ", ".join(f"`{name}`" for name in options.get(field.name, ())) or "–"
        hint = hints[field.name]
        is_table = isinstance(hint, type) and issubclass(hint, msgspec.Struct)
        values = "object" if is_table else json_type(hint).removesuffix(" | null")
        variable = "–" if field.name in settings.TABLES else f"`OSTLER_{field.name.upper()}`"
        yield row(
            f"`{field.name}`", values, default, variable, option, _trust(field.name), meanings[field.name]
        )


def tool_limits_table() -> Iterator[str]:
    meanings = field_docstrings(ProcessLimits)
    yield "| setting | default | meaning |"
    yield "|---|---:|---|"
    for field in msgspec.structs.fields(ProcessLimits):
        default = "90 % of the memory" if field.default is None else f"{field.default}"
        yield row(f"`{field.name}`", default, meanings[field.name])


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
            "the run failed: the model was unreachable, refused or broke off, or the store cannot be used",
        ),
        (errors.UsageError.exit_code, "a usage error: a wrong option, file, session or setting"),
        (errors.NoModel.exit_code, "no model is configured, or there is no key for it"),
        (exit_code(refused), "the run completed, but a call was refused; or the model refused to answer"),
        (
            exit_code(RunEnded("limit")),
            "a limit ended the run: steps, tokens, cost, time, or the same call repeated",
        ),
        (exit_code(RunWaiting("question")), "the run waits for a person, or was paused"),
        (exit_code(RunEnded("cancelled")), "cancelled with Ctrl-C"),
        (141, "the reader of the output closed it, as `head` does"),
        (exit_code(RunEnded("cancelled", TERMINATED)), "terminated: SIGTERM or SIGHUP"),
    )
    yield "| code | when |"
    yield "|---:|---|"
    for code, when in sorted(rows):
        yield row(str(code), when)


def permission_table() -> Iterator[str]:
    yield row("tools that …", *(f"`{profile}`" for profile in PROFILES))
    yield "|---|" + "---|" * len(PROFILES)
    for kind, words in _KIND_DESCRIPTIONS.items():
        verdicts = {"allow": "run", "ask": "ask", "refuse": "refused"}
        yield row(words, *(verdicts[judge(profile, kind)] for profile in PROFILES))


def scope_table() -> Iterator[str]:
    yield row("scope", "allows")
    yield row("---", "---")
    for scope, about in ABOUT_SCOPES.items():
        yield row(f"`{scope}`", about)
    yield ""
    yield row("needs", "routes", "requests to a session")
    yield row("---", "---", "---")
    for access in (one for one in ABOUT_SCOPES if one in SCOPES["admin"]):
        routes = [f"`{one.method} {one.path}`" for one in OPERATIONS if one.access == (access,)]
        if access == "observe":
            routes = ["every `GET`", *(one for one in routes if "`GET " not in one)]
        kinds = [f"`{kind.__struct_config__.tag}`" for kind, needs in REQUESTS.items() if needs == access]
        if routes or kinds:
            yield row(f"`{access}`", ", ".join(routes), ", ".join(kinds))


def harmless_commands() -> Iterator[str]:
    """Programs with the same options share a row."""
    names_of: dict[str, list[str]] = {}
    for name, line in [*PROGRAMS.items(), *((f"git {name}", line) for name, line in GIT.items())]:
        names_of.setdefault(line, []).append(f"`{name}`")
    yield "| program | options | operands |"
    yield "|---|---|---|"
    for line, names in names_of.items():
        options, _, operands = (part.strip() for part in line.partition("|"))
        yield row(", ".join(names), f"`{options}`" if options else "", f"`{operands}`" if operands else "")


def protected_files() -> Iterator[str]:
    yield row("files", "Ostler asks about", "names")
    yield "|---|---|---|"
    for title, patterns, asked, except_for in protection_table():
        names = ", ".join(f"`{pattern}`" for pattern in patterns) or "wherever they are"
        names += f"; but not {', '.join(f'`{name}`' for name in except_for)}" if except_for else ""
        yield row(title, asked, names)


def tool_table() -> Iterator[str]:
    yield "| tool | what it does | parameters | counts as |"
    yield "|---|---|---|---|"
    for tool in builtin_tools():
        required = tool.spec.schema["required"]
        parameters = ", ".join(
            f"`{name}{'' if name in required else '?'}`" for name in tool.spec.schema["properties"]
        )
        about = re.split(r"(?<=[a-z])[.;:] ", tool.spec.description)[0].rstrip(".")
        yield row(f"`{tool.spec.name}`", about, parameters, _KIND_DESCRIPTIONS[tool.spec.kind])


def agent_tool_table() -> Iterator[str]:
    """The parameters of the tool that starts other vendors' agents."""
    yield "| parameter | what it is |"
    yield "|---|---|"
    for name, about in AgentTool({}).spec.schema["properties"].items():
        yield row(f"`{name}`", about["description"])


def provider_table() -> Iterator[str]:
    yield "| provider | key | default model | server |"
    yield "|---|---|---|---|"
    for provider in PROVIDERS.values():
        key = " or ".join(f"`{name}`" for name in provider.key_variables) or "none"
        variable = provider.base_url_variable
        server = provider.base_url or (f"`{variable}`" if variable else "a file: `gguf/PATH`")
        model = f"`{provider.default_model}`" if provider.default_model else "–"
        yield row(f"`{provider.name}`", key, model, server)


def policy_table() -> Iterator[str]:
    """The context policy."""
    yield "| rule | values | default | meaning |"
    yield "|---|---|---|---|"
    for group in msgspec.structs.fields(ContextPolicy):
        hints, meanings = typing.get_type_hints(group.type), field_docstrings(group.type)
        for field in msgspec.structs.fields(group.type):
            values = json_type(hints[field.name]).removesuffix(" | null")
            default = "–" if field.default in _NO_DEFAULT else f"`{field.default}`".lower()
            yield row(f"`{group.name}.{field.name}`", values, default, meanings[field.name])


def action_table() -> Iterator[str]:
    """The actions of the audit."""
    tags = {kind: tag for tag, kind in EVENT_TYPES.items()}
    yield "| action | what it answers | usually by | outcome | recorded as |"
    yield "|---|---|---|---|---|"
    for name, action in ACTIONS.items():
        yield row(f"`{name}`", action.answers, action.actor, action.outcome, f"`{tags[action.fact]}`")


def facts_without_decision() -> str:
    return ", ".join(f"`{tag}`" for tag, kind in EVENT_TYPES.items() if kind in NO_DECISION)


def command_table() -> Iterator[str]:
    """The slash commands of the terminal."""
    context: Any = SimpleNamespace()
    yield "| command | also | |"
    yield "|---|---|---|"
    for command in Commands(context).own:
        usage = f"/{command.name} {command.arguments}".rstrip()
        yield row(f"`{usage}`", ", ".join(f"`/{name}`" for name in command.aliases), command.about)


def theme_table() -> Iterator[str]:
    """The built-in themes."""
    themes = ThemeList((), print)
    yield "| theme | |"
    yield "|---|---|"
    for name in themes:
        yield row(f"`{name}`", themes.description(name))


def invariant_table() -> Iterator[str]:
    yield "| number | what holds | when |"
    yield "|---|---|---|"
    for invariant in INVARIANTS:
        when = "at rest" if invariant.only_at_rest else "always"
        yield row(invariant.number, invariant.sentence, when)


def tree_invariant_table() -> Iterator[str]:
    yield "| number | what holds |"
    yield "|---|---|"
    for invariant in TREE_INVARIANTS:
        yield row(invariant.number, invariant.sentence)


def store_invariant_table() -> Iterator[str]:
    yield "| number | what holds | `repair` |"
    yield "|---|---|---|"
    for number, sentence in STORE_INVARIANTS.items():
        repaired = "where an index is damaged" if number == "S1" else "yes" if number in MENDABLE else "–"
        yield row(number, sentence, repaired)


# --- a sample session -------------------------------------------------------------------------------

SAMPLE_FOLDER = "/home/ada/garden"


class Sample(msgspec.Struct, frozen=True):
    lines: tuple[str, ...]
    """As `--json` prints them."""
    text: tuple[str, ...]
    """As `ostler sessions show` prints them."""
    appends: tuple[tuple[str, ...], ...]
    """The types of the facts of each append."""


def sample() -> Sample:
    """A run with one tool call, the same at any time and on any machine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "plants.txt").write_text("thyme\nsage\n", encoding="utf-8")
        return asyncio.run(_sample(folder))


async def _sample(folder: Path) -> Sample:
    counts: dict[str, int] = {}

    def new_id(prefix: str) -> str:
        counts[prefix] = counts.get(prefix, 0) + 1
        return f"{prefix}_{counts[prefix]}"

    world = World(now_ms=lambda: 1_767_225_600_000, new_id=new_id)
    call = Call("read", {"path": "plants.txt"}, id="call_1")
    script = [
        Turn("I look.", calls=(call,), piece=100, usage=Usage(input_tokens=812, output_tokens=31)),
        Turn("Thyme and sage.", piece=100, usage=Usage(input_tokens=871, output_tokens=9)),
    ]
    harness = Harness(
        ScriptedModel(script, name="anthropic/claude-sonnet-5-5"),
        cwd=folder,
        permission_hook=permission_hook("read-only", folder),
        permission_profile="read-only",
    )
    harness.set_tools([builtin_tool("read")])
    store = MemoryStore(world)
    session = await create_session(store, harness, world=world)
    batches: list[Sequence[Fact | Event]] = []
    session.subscribe(batches.append)
    await session.prompt(as_content("What grows here?"))
    text = transcript(await store.summary(session.id), await store.read(session.id))
    lines = [_line(item) for batch in batches for item in batch]
    appends = [tuple(item.type for item in batch) for batch in batches if isinstance(batch[0], Fact)]

    def in_sample_folder(text: str) -> str:
        return text.replace(str(folder), SAMPLE_FOLDER)

    return Sample(tuple(map(in_sample_folder, lines)), tuple(map(in_sample_folder, text)), tuple(appends))


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
    "harmless-commands": lambda: "\n".join(harmless_commands()),
    "tool-limits": lambda: "\n".join(tool_limits_table()),
    "permissions": lambda: "\n".join(permission_table()),
    "protected-files": lambda: "\n".join(protected_files()),
    "terminal_commands": lambda: "\n".join(command_table()),
    "themes": lambda: "\n".join(theme_table()),
    "token-scopes": lambda: "\n".join(scope_table()),
    "tools": lambda: "\n".join(tool_table()),
    "agent-tool": lambda: "\n".join(agent_tool_table()),
    "providers": lambda: "\n".join(provider_table()),
    "invariants": lambda: "\n".join(invariant_table()),
    "tree-invariants": lambda: "\n".join(tree_invariant_table()),
    "store-invariants": lambda: "\n".join(store_invariant_table()),
    "json-sample": lambda: _fenced(sample().lines, "json"),
    "sessions-show-sample": lambda: _fenced(sample().text),
}
