"""`ostler serve`, `ostler server` (agentapi's command line) and `ostler token`."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from ostler.app.console import aligned, print_stderr
from ostler.app.options import (
    Parser,
    RawHelpFormatter,
    RunOptions,
    add_model_options,
    add_work_options,
    parse_words,
)
from ostler.core.lazy import lazy_module, load
from ostler.permissions.rules import PROFILES, Profile
from ostler.schema.errors import ConfigurationError, how_to_install
from ostler.server.agentapi.options import (
    PORT,
    add_agent_options,
    agent_plan,
    given_agent_options,
    port,
    with_plain_switches,
)
from ostler.server.tokens import ABOUT_SCOPES, TOKEN_DAYS, Login, Token, TokenScope, TokenStore

if TYPE_CHECKING:
    from ostler.server import app as server_app
    from ostler.server import openapi as openapi_document
    from ostler.server import operations
else:
    openapi_document = lazy_module("ostler.server.openapi")
    operations = lazy_module("ostler.server.operations")
    server_app = lazy_module("ostler.server.app")

DEFAULT_PORT = 8420


class ServeOptions(RunOptions):
    """The options of `ostler serve`. argparse also sets those of an agent: `agentapi.options.OPTIONS`."""

    host: str
    port: int | None = None
    behind_proxy: list[str]
    allow_host: list[str]
    allow_origin: list[str]
    max_permissions: Profile | None = None
    openapi: bool = False
    transport: str | None = None


_USAGE = """\
ostler serve [OPTIONS]                         serve the sessions of this machine
       ostler serve [OPTIONS] -- AGENT [ARGUMENTS…]   serve another vendor's agent, as agentapi does"""


def serve_command(arguments: list[str], *, agent_needs_dashes: bool = True) -> int:
    """Without dashes, words that are not options are the agent's command, as in agentapi."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = _serve_parser()
    options = parse_words(parser, [*with_plain_switches(arguments[:end]), *arguments[end:]], ServeOptions())
    command = options.words
    if agent_needs_dashes and len(command) > len(arguments[end + 1 :]):
        parser.error(f"put -- before the agent's command: `ostler serve … -- {command[0]} …`")
    if not command and end < len(arguments):
        parser.error("there is no command: give the agent's program after --")
    _require_extra()
    if command:
        return _serve_agent(parser, options, command, arguments[:end])
    return _serve_sessions(parser, options)


def _serve_agent(parser: Parser, options: ServeOptions, command: list[str], typed: list[str]) -> int:
    if name := _first_own_option(options):
        flag = next((word.partition("=")[0] for word in typed if name.replace("_", "-") in word), f"--{name}")
        parser.error(f"{flag} is not for agents; options of the agent itself go after --")
    plan = agent_plan(options, command, os.environ)
    code: int = load("ostler.server.agentapi.serve:serve_agent")(plan, options)
    return code


def _serve_sessions(parser: Parser, options: ServeOptions) -> int:
    if flags := given_agent_options(options):
        parser.error(
            f"{flags[0]} is for an agent: give its command after --, as in `ostler serve … -- claude`"
        )
    if options.openapi:
        document = openapi_document.openapi(server_app.OPERATIONS, server_app.PREFIX)
        sys.stdout.buffer.write(operations.encode(document) + b"\n")
        return 0
    number = DEFAULT_PORT if options.port is None else options.port
    code: int = load("ostler.server.main:serve")(options, number)
    return code


def _require_extra() -> None:
    try:
        import starlette
        import uvicorn
    except ImportError:
        raise ConfigurationError(f"serving needs starlette and uvicorn: {how_to_install('server')}") from None
    del starlette, uvicorn


def _serve_parser() -> Parser:
    parser = Parser(
        prog="ostler serve",
        usage=_USAGE,
        description="Serves the sessions of this machine over HTTP: an API, event streams and a web page.\n"
        "With an agent's command after --, serves that agent through agentapi's API and Ostler's own.",
        formatter_class=RawHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "-p",
        "--port",
        type=port,
        help=f"0 picks a free port (default: {DEFAULT_PORT}; with an agent {PORT.default})",
    )
    parser.add_argument(
        "--behind-proxy",
        metavar="ADDRESS",
        type=_network,
        action="append",
        default=[],
        help="a proxy or network whose X-Forwarded-For and X-Forwarded-Proto headers are trusted; repeatable",
    )
    add_agent_options(parser)
    _add_own_options(parser)
    return parser


def _add_own_options(parser: Parser) -> None:
    own = parser.add_argument_group("only without an agent: these and all that follow, except --cwd")
    for flag, metavar, about in (
        ("--allow-host", "NAME", "accept requests for this host name; repeatable"),
        ("--allow-origin", "URL", "allow requests from pages of this origin; repeatable"),
    ):
        own.add_argument(flag, metavar=metavar, action="append", default=[], help=about)
    own.add_argument(
        "--max-permissions",
        choices=PROFILES,
        help="the highest permission profile that can be chosen on the page or over the API; more needs a "
        "token with the scope admin (default: that of --permissions, at least edit)",
    )
    own.add_argument("--openapi", action="store_true", help="print the OpenAPI document and exit")
    add_model_options(parser)
    add_work_options(parser)


def _first_own_option(options: ServeOptions) -> str:
    """The first option that does not apply with an agent."""
    own = Parser(add_help=False)
    _add_own_options(own)
    defaults = vars(own.parse_args([]))
    changed = (name for name in defaults if name != "cwd" and getattr(options, name) != defaults[name])
    return next(changed, "")


def _network(text: str) -> str:
    from ipaddress import ip_network

    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        problem = f"{text!r} is not an address like 127.0.0.1 or 10.0.0.0/8"
        raise argparse.ArgumentTypeError(problem) from None


def server_command(arguments: list[str]) -> int:
    return serve_command(arguments, agent_needs_dashes=False)


def token_command(arguments: list[str]) -> int:
    options = _token_parser().parse_args(arguments)
    book = TokenStore()
    match options.command:
        case "new":
            _make(book, options)
        case "link":
            print(f"{options.url.rstrip('/')}/#token={book.link_code(options.scope)}")
            print_stderr("the link works once, for ten minutes")
        case "revoke":
            revoked = book.revoke(options.name)
            if options.json:
                _print_json(revoked)
            what = "login" if isinstance(revoked, Login) else "token"
            print_stderr(f"revoked the {what} {revoked.name}; logins with it have ended")
        case _:
            _list(book, as_json=options.json)
    return 0


def _token_parser() -> Parser:
    as_json = Parser(add_help=False)
    as_json.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object per line"
    )
    parser = Parser(
        prog="ostler token",
        description="Lists, creates and revokes tokens of `ostler serve`.",
        parents=[as_json],
    )
    parser.set_defaults(json=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("list", help="list tokens (the default)", parents=[as_json])
    new = commands.add_parser("new", help="create a token and print it", parents=[as_json])
    new.add_argument("name", metavar="NAME", help="what it is for")
    _add_scope(new, "all")
    new.add_argument(
        "--expires",
        metavar="DAYS",
        type=_days,
        default=TOKEN_DAYS,
        help=f"days until it expires, or never (default: {TOKEN_DAYS})",
    )
    link = commands.add_parser("link", help="print a link that logs in a browser, once")
    link.add_argument(
        "url", metavar="URL", nargs="?", default=f"http://127.0.0.1:{DEFAULT_PORT}/", help=_LINK_URL
    )
    _add_scope(link, "admin")
    revoke = commands.add_parser("revoke", help="revoke a token", parents=[as_json])
    revoke.add_argument("name", metavar="NAME", help="its name or id; also the id of a login")
    return parser


_LINK_URL = f"the address of the server, as browsers see it (default: http://127.0.0.1:{DEFAULT_PORT}/)"


def _add_scope(parser: argparse.ArgumentParser, default: TokenScope) -> None:
    about = "; ".join(f"{scope}: {text}" for scope, text in ABOUT_SCOPES.items()).replace("`", "")
    parser.add_argument(
        "--scope", choices=tuple(ABOUT_SCOPES), default=default, help=f"{about} (default: {default})"
    )


def _days(text: str) -> float:
    if text == "never":
        return 0
    try:
        days = float(text)
    except ValueError:
        days = 0
    if not 0 < days < 36_500:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of days nor never")
    return days


def _make(book: TokenStore, options: argparse.Namespace) -> None:
    token = book.new(options.name, options.scope, options.expires)
    if options.json:
        new = next(one for one in book.all() if one.name == options.name)
        _print_json(new, token=token)
    else:
        print(token)
    print_stderr(f"this token is shown only once; `ostler token revoke {options.name}` revokes it")


def _print_json(record: Token | Login, **more: str) -> None:
    fields = {name: value for name, value in msgspec.structs.asdict(record).items() if "sha256" not in name}
    print(msgspec.json.encode(fields | more).decode())


def _list(book: TokenStore, *, as_json: bool) -> None:
    records: list[Token | Login] = [*book.all(), *book.logins()]
    if as_json:
        for one in records:
            _print_json(one)
        return
    if not records:
        print_stderr(
            "there are no tokens yet: `ostler serve` creates the first one, `ostler token new NAME` others"
        )
        return
    for line in aligned([_row(one) for one in records]):
        print(line)


def _row(record: Token | Login) -> tuple[str, ...]:
    """Of a login the name is that of its token, and its origin is listed."""
    name = f"{record.name}, at {record.origin}" if isinstance(record, Login) else record.name
    used = f"used {_minute(record.used_ms)}" if record.used_ms else "never used"
    expires = f"expires {_minute(record.expires_ms)}" if record.expires_ms else "never expires"
    return name, record.scope, f"created {_minute(record.created_ms)}", used, expires, record.id


def _minute(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000).isoformat(" ", "minutes")
