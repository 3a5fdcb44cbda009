"""`ostler serve`: sessions over HTTP, live streams and a web page; with an agent behind `--`, that agent."""

from __future__ import annotations

import argparse
import os
import sys

from ostler.faces.cli.arguments import Parser, add_model_options, add_work_options, parse_words
from ostler.faces.cli.help_format import RawHelpFormatter
from ostler.vocabulary.errors import ConfigurationError
from ostler.vocabulary.extras import how_to_install

DEFAULT_PORT = 8420

_USAGE = """\
ostler serve [OPTIONS]                         the sessions of this machine
       ostler serve [OPTIONS] -- AGENT [ARGUMENTS…]   another vendor's agent, as agentapi serves it"""


def serve_command(arguments: list[str], *, agent_needs_dashes: bool = True) -> int:
    """Without dashes, words that are no options are the agent's command: as agentapi has it."""
    from ostler.faces.cli.agent_options import with_plain_switches

    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = _serve_parser()
    options = parse_words(parser, [*with_plain_switches(arguments[:end]), *arguments[end:]])
    command: list[str] = options.words
    if agent_needs_dashes and len(command) > len(arguments[end + 1 :]):
        parser.error(f"put -- before the agent's command: `ostler serve … -- {command[0]} …`")
    if not command and end < len(arguments):
        parser.error("no command was given: name the agent's program behind --")
    _require_extra()
    if command:
        return _serve_agent(parser, options, command, arguments[:end])
    return _serve_sessions(parser, options)


def _serve_agent(parser: Parser, options: argparse.Namespace, command: list[str], typed: list[str]) -> int:
    from ostler.faces.cli.agent_options import agent_plan

    if name := _given_of_own(options):
        flag = next((word.partition("=")[0] for word in typed if name.replace("_", "-") in word), f"--{name}")
        parser.error(f"{flag} is for sessions without an agent; options of the agent's own stand behind --")
    plan = agent_plan(options, command, os.environ)
    from ostler.faces.web.agent_serving import serve_agent

    return serve_agent(plan, options)


def _serve_sessions(parser: Parser, options: argparse.Namespace) -> int:
    from ostler.faces.cli.agent_options import given_agent_options

    if flags := given_agent_options(options):
        parser.error(f"{flags[0]} is for an agent: name its command behind --, as `ostler serve … -- claude`")
    if options.openapi:
        from ostler.faces.web.app import OPERATIONS, PREFIX
        from ostler.faces.web.openapi import openapi
        from ostler.faces.web.operations import encode

        sys.stdout.buffer.write(encode(openapi(OPERATIONS, PREFIX)) + b"\n")
        return 0
    from ostler.faces.web.serving import serve

    options.port = DEFAULT_PORT if options.port is None else options.port
    return serve(options)


def _require_extra() -> None:
    try:
        import starlette
        import uvicorn
    except ImportError:
        raise ConfigurationError(f"serving needs starlette and uvicorn: {how_to_install('server')}") from None
    del starlette, uvicorn


def _serve_parser() -> Parser:
    from ostler.faces.cli.agent_options import PORT, add_agent_options, port

    parser = Parser(
        prog="ostler serve",
        usage=_USAGE,
        description="Serves the sessions of this machine over HTTP: an API, live streams and a web page.\n"
        "With an agent behind --, that agent: agentapi's API at the root, the same session in our own.",
        formatter_class=RawHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1)")
    parser.add_argument(
        "-p", "--port", type=port, help=f"0 takes any ({DEFAULT_PORT}; with an agent {PORT.default})"
    )
    parser.add_argument(
        "--behind-proxy",
        metavar="ADDRESS",
        type=_network,
        action="append",
        default=[],
        help="a proxy, or a network of them, whose word on its clients (X-Forwarded-For, -Proto) counts",
    )
    add_agent_options(parser)
    _add_own_options(parser)
    return parser


def _add_own_options(parser: Parser) -> None:
    own = parser.add_argument_group(
        "without an agent, these and all that follow, but --cwd, which is for both"
    )
    own.add_argument(
        "--allow-host", metavar="NAME", action="append", default=[], help="a name it may be asked for by"
    )
    own.add_argument(
        "--allow-origin", metavar="URL", action="append", default=[], help="pages from there may ask"
    )
    own.add_argument("--openapi", action="store_true", help="print the OpenAPI document, and end")
    add_model_options(parser)
    add_work_options(parser)


def _given_of_own(options: argparse.Namespace) -> str:
    """The first that was given of those that make no sense with an agent."""
    own = Parser(add_help=False)
    _add_own_options(own)
    defaults = vars(own.parse_args([]))
    given = (name for name in defaults if name != "cwd" and getattr(options, name) != defaults[name])
    return next(given, "")


def _network(given: str) -> str:
    from ipaddress import ip_network

    try:
        return str(ip_network(given, strict=False))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{given!r} is not an address like 127.0.0.1 or 10.0.0.0/8"
        ) from None
