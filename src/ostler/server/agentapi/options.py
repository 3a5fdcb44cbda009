"""The options of `ostler serve … -- AGENT`: flags, agentapi's environment variables and defaults."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.app.options import Parser, positive
from ostler.app.settings import working_directory
from ostler.drivers.agent_spec import AGENT_TYPES, AgentSpec, Transport, detect
from ostler.drivers.screen import check_size
from ostler.schema.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from ostler.server.command import ServeOptions

TRANSPORTS = ("pty", "acp", "stream-json")
STANDARD_INPUT = "-"


def port(given: str) -> int:
    if not (given.isdecimal() and given.isascii()) or int(given) > 65535:
        raise argparse.ArgumentTypeError(f"{given!r} is not a port: take one from 0 to 65535")
    return int(given)


def _whole_number(given: str) -> int:
    if not (given.isdecimal() and given.isascii()):
        raise argparse.ArgumentTypeError(f"{given!r} is not a whole number")
    return int(given)


def _truth(given: str) -> bool:
    if given.lower() in ("1", "t", "true"):
        return True
    if given.lower() in ("0", "f", "false"):
        return False
    raise argparse.ArgumentTypeError(f"{given!r} is neither true nor false")


def _with_commas(given: str) -> list[str]:
    return given.split(",") if given else []


class AgentOption(msgspec.Struct, frozen=True):
    """An option that needs an agent."""

    flags: tuple[str, ...]
    about: str
    read: Callable[[str], Any] = str
    default: Any = ""
    metavar: str = ""
    choices: tuple[str, ...] | None = None
    is_agentapis: bool = True
    """Whether agentapi has it: then an environment variable sets it, too."""
    is_hidden: bool = False

    @property
    def name(self) -> str:
        return self.flags[-1].removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        return f"AGENTAPI_{self.name.upper()}" if self.is_agentapis else ""

    @property
    def is_list(self) -> bool:
        return self.read is _with_commas


def _switch(*flags: str, about: str, default: bool | None = False, **more: Any) -> AgentOption:
    return AgentOption(flags, about, _truth, default, **more)


OPTIONS = (
    AgentOption(("-t", "--type"), f"how its screen is read: {', '.join(AGENT_TYPES)}", metavar="NAME"),
    AgentOption(
        ("--transport",),
        "how it is driven: pty, its screen and keyboard (default); acp; stream-json",
        default="pty",
        metavar="NAME",
        choices=TRANSPORTS,
        is_agentapis=False,
    ),
    _switch("--experimental-acp", about="the same as --transport acp"),
    AgentOption(
        ("-I", "--initial-prompt"),
        "sent once it is ready; - reads standard input, which is also read when something is piped in",
        metavar="TEXT",
    ),
    AgentOption(("-W", "--term-width"), "columns (80)", _whole_number, 80, "N"),
    AgentOption(("-H", "--term-height"), "rows (1000)", _whole_number, 1000, "N"),
    AgentOption(
        ("--ready-regex",), "it is ready when its screen matches this", metavar="PATTERN", is_agentapis=False
    ),
    AgentOption(
        ("--ready-timeout",),
        "or when its screen has not changed for S seconds (custom agents: 10)",
        positive,
        None,
        "S",
        is_agentapis=False,
    ),
    AgentOption(
        ("--emulator",),
        "the terminal emulator: pyghostty or bittty (the first that is installed)",
        metavar="NAME",
        choices=("pyghostty", "bittty"),
        is_agentapis=False,
    ),
    AgentOption(("-s", "--state-file"), "keeps the conversation from one start to the next", metavar="FILE"),
    _switch("--load-state", about="--load-state=false starts a new conversation", default=None),
    _switch("--save-state", about="--save-state=false leaves the file as it is", default=None),
    AgentOption(("--pid-file",), "holds the process id; a second server does not start", metavar="FILE"),
    AgentOption(
        ("-a", "--allowed-hosts"),
        "accept requests for these host names, * for any; repeatable (those of this machine)",
        _with_commas,
        ("localhost", "127.0.0.1", "[::1]"),
        "NAME,…",
    ),
    AgentOption(
        ("-o", "--allowed-origins"),
        "accept requests of pages from there, * for any; repeatable (ports 3284, 3000, 3001 of localhost)",
        _with_commas,
        ("http://localhost:3284", "http://localhost:3000", "http://localhost:3001"),
        "URL,…",
    ),
    AgentOption(("-c", "--chat-base-path"), "where a proxy has the page (/chat)", str, "/chat", "PATH"),
    _switch("--allow-unauthenticated", about="other machines need no token", is_agentapis=False),
    _switch("-P", "--print-openapi", about="print agentapi's OpenAPI document and exit"),
    _switch("--exit", about="check the options and exit", is_hidden=True),
)

PORT = AgentOption(("-p", "--port"), "", port, 3284)


class AgentPlan(AgentSpec, frozen=True, kw_only=True):
    """The agent to start and how to serve it, checked as far as possible without side effects."""

    port: int
    state_file: Path | None
    load_state: bool
    save_state: bool
    pid_file: Path | None
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    chat_base_path: str
    allow_unauthenticated: bool
    print_openapi: bool
    exit: bool


def add_agent_options(parser: Parser) -> None:
    group = parser.add_argument_group(
        "for another vendor's agent, whose command comes after --",
        "Those that agentapi has can also be set as AGENTAPI_TERM_WIDTH and so on; a flag wins.",
    )
    for one in OPTIONS:
        group.add_argument(
            *one.flags,
            type=one.read,
            choices=one.choices,
            metavar=one.metavar,
            action="append" if one.is_list else "store",
            help=argparse.SUPPRESS if one.is_hidden else one.about,
        )


def with_plain_switches(arguments: Sequence[str]) -> list[str]:
    """A switch takes its value only after `=`, as in `--load-state=false`: the next word may be the agent."""
    switches = {flag: one.flags[-1] for one in OPTIONS if one.read is _truth for flag in one.flags}
    return [f"{switches[word]}=true" if word in switches else word for word in arguments]


def given_agent_options(options: ServeOptions) -> list[str]:
    """Flags that make no sense without an agent."""
    return [one.flags[-1] for one in OPTIONS if getattr(options, one.name) is not None]


def agent_plan(options: ServeOptions, command: Sequence[str], variables: Mapping[str, str]) -> AgentPlan:
    """Raises `UsageError` for invalid values and combinations."""
    wanted = {one.name: _value(one, options, variables) for one in (*OPTIONS, PORT)}
    _check_type(wanted["type"])
    check_size(wanted["term_width"], wanted["term_height"])
    for switch in ("load_state", "save_state"):
        if wanted[switch] and not wanted["state_file"]:
            raise UsageError(f"--{switch.replace('_', '-')} requires --state-file to be set")
    transport = _transport(wanted, options)
    if transport != "pty" and wanted["state_file"]:
        raise UsageError("ACP mode doesn't support state persistence: leave out --state-file")
    if transport != "pty" and wanted["print_openapi"]:
        raise UsageError("--print-openapi takes no transport: the document is the same for all")
    return AgentPlan(
        command=tuple(command),
        cwd=working_directory(options.cwd),
        agent_type=wanted["type"],
        transport=transport,
        port=wanted["port"],
        columns=wanted["term_width"],
        rows=wanted["term_height"],
        initial_prompt=wanted["initial_prompt"],
        ready_regex=wanted["ready_regex"],
        ready_after=wanted["ready_timeout"],
        emulator=wanted["emulator"],
        state_file=_file(wanted["state_file"]),
        load_state=wanted["load_state"] is not False,
        save_state=wanted["save_state"] is not False,
        pid_file=_file(wanted["pid_file"]),
        allowed_hosts=tuple(wanted["allowed_hosts"]),
        allowed_origins=tuple(wanted["allowed_origins"]),
        chat_base_path=wanted["chat_base_path"],
        allow_unauthenticated=wanted["allow_unauthenticated"],
        print_openapi=wanted["print_openapi"],
        exit=wanted["exit"],
    )


def _value(option: AgentOption, options: ServeOptions, variables: Mapping[str, str]) -> Any:
    value = getattr(options, option.name)
    if value is not None:
        return [item for part in value for item in part] if option.is_list else value
    text = variables.get(option.variable, "") if option.variable else ""
    if not text:
        return option.default
    try:
        return text.split() if option.is_list else option.read(text)
    except argparse.ArgumentTypeError as problem:
        raise ConfigurationError(f"{option.variable}: {problem}") from None


def _check_type(named: str) -> None:
    try:
        detect((), named)
    except UsageError as error:
        raise UsageError(f"{error.message}; the types are: {', '.join(AGENT_TYPES)}") from None


def _transport(wanted: Mapping[str, Any], options: ServeOptions) -> Transport:
    if not wanted["experimental_acp"]:
        transport: Transport = wanted["transport"]
        return transport
    if options.transport not in (None, "acp"):
        raise UsageError("--experimental-acp means --transport acp: use only one of them")
    return "acp"


def _file(named: str) -> Path | None:
    return Path(named).absolute() if named else None
