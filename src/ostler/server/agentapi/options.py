"""What `ostler serve … -- AGENT` can be told: by flags, by agentapi's variables, or not at all."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.app.options import Parser, positive
from ostler.app.settings import working_directory
from ostler.drivers.agent_spec import AGENT_TYPES, detect
from ostler.drivers.screen import check_size
from ostler.schema.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from ostler.drivers.agent_spec import Transport
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


class AgentOption(msgspec.Struct, frozen=True, kw_only=True):
    """One that counts only with an agent."""

    flags: tuple[str, ...]
    about: str
    read: Callable[[str], Any] = str
    default: Any = ""
    metavar: str = ""
    choices: tuple[str, ...] | None = None
    is_agentapis: bool = True
    """Then a variable says it, too."""
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

    @property
    def is_switch(self) -> bool:
        return self.read is _truth


OPTIONS = (
    AgentOption(
        flags=("-t", "--type"), metavar="NAME", about=f"how its screen is read: {', '.join(AGENT_TYPES)}"
    ),
    AgentOption(
        flags=("--transport",),
        metavar="NAME",
        default="pty",
        choices=TRANSPORTS,
        is_agentapis=False,
        about="how it is spoken to: pty, its screen and keyboard (default); acp; stream-json",
    ),
    AgentOption(
        flags=("--experimental-acp",), read=_truth, default=False, about="the same as --transport acp"
    ),
    AgentOption(
        flags=("-I", "--initial-prompt"),
        metavar="TEXT",
        about="said once it is ready; - reads standard input, which is also read when something is piped in",
    ),
    AgentOption(
        flags=("-W", "--term-width"), metavar="N", read=_whole_number, default=80, about="columns (80)"
    ),
    AgentOption(
        flags=("-H", "--term-height"), metavar="N", read=_whole_number, default=1000, about="rows (1000)"
    ),
    AgentOption(
        flags=("--ready-regex",),
        metavar="PATTERN",
        is_agentapis=False,
        about="it is ready when its screen has this",
    ),
    AgentOption(
        flags=("--ready-timeout",),
        metavar="S",
        read=positive,
        default=None,
        is_agentapis=False,
        about="or when its screen has not changed for S seconds (custom agents: 10)",
    ),
    AgentOption(
        flags=("--emulator",),
        metavar="NAME",
        choices=("pyghostty", "bittty"),
        is_agentapis=False,
        about="of the terminal: pyghostty or bittty (the first that is installed)",
    ),
    AgentOption(
        flags=("-s", "--state-file"),
        metavar="FILE",
        about="keeps the conversation from one start to the next",
    ),
    AgentOption(
        flags=("--load-state",),
        read=_truth,
        default=None,
        about="--load-state=false begins anew all the same",
    ),
    AgentOption(
        flags=("--save-state",),
        read=_truth,
        default=None,
        about="--save-state=false leaves the file as it is",
    ),
    AgentOption(
        flags=("--pid-file",), metavar="FILE", about="names the process; a second one does not start"
    ),
    AgentOption(
        flags=("-a", "--allowed-hosts"),
        metavar="NAME,…",
        read=_with_commas,
        default=("localhost", "127.0.0.1", "[::1]"),
        about="names it may be asked for by, * for any; may be repeated (those of this machine)",
    ),
    AgentOption(
        flags=("-o", "--allowed-origins"),
        metavar="URL,…",
        read=_with_commas,
        default=("http://localhost:3284", "http://localhost:3000", "http://localhost:3001"),
        about="pages from there may ask, * for any; may be repeated (ports 3284, 3000, 3001 of localhost)",
    ),
    AgentOption(
        flags=("-c", "--chat-base-path"),
        metavar="PATH",
        default="/chat",
        about="where a proxy has the page (/chat)",
    ),
    AgentOption(
        flags=("--allow-unauthenticated",),
        read=_truth,
        default=False,
        is_agentapis=False,
        about="other machines may ask without a token",
    ),
    AgentOption(
        flags=("-P", "--print-openapi"),
        read=_truth,
        default=False,
        about="print agentapi's document, and end",
    ),
    AgentOption(
        flags=("--exit",), read=_truth, default=False, about="check the options, and end", is_hidden=True
    ),
)

PORT = AgentOption(flags=("-p", "--port"), read=port, default=3284, about="")


class AgentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What was wanted, checked as far as it can be without touching anything."""

    command: tuple[str, ...]
    cwd: Path
    agent_type: str
    transport: Transport
    port: int
    columns: int
    rows: int
    initial_prompt: str
    ready_regex: str
    ready_timeout: float | None
    emulator: str
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
        "an agent of another vendor, whose command is behind --",
        "Those that agentapi has can be set as AGENTAPI_TERM_WIDTH and so on; what is said here wins.",
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
    """A switch has its value behind `=`, as `--load-state=false`, or none: what follows may be the agent."""
    switches = {flag: one.flags[-1] for one in OPTIONS if one.is_switch for flag in one.flags}
    return [f"{switches[word]}=true" if word in switches else word for word in arguments]


def given_agent_options(options: ServeOptions) -> list[str]:
    """Flags that make no sense without an agent."""
    return [one.flags[-1] for one in OPTIONS if getattr(options, one.name) is not None]


def agent_plan(options: ServeOptions, command: Sequence[str], variables: Mapping[str, str]) -> AgentPlan:
    """Raises `UsageError` for whatever cannot be."""
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
        raise UsageError("--print-openapi goes without a transport: the document is the same for all")
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
        ready_timeout=wanted["ready_timeout"],
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
    given = getattr(options, option.name)
    if given is not None:
        return [item for part in given for item in part] if option.is_list else given
    said = variables.get(option.variable, "") if option.variable else ""
    if not said:
        return option.default
    try:
        return said.split() if option.is_list else option.read(said)
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
        raise UsageError("--experimental-acp means --transport acp: say only one of them")
    return "acp"


def _file(named: str) -> Path | None:
    return Path(named).absolute() if named else None
