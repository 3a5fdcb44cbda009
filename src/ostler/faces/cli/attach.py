"""`ostler attach`: a session of a server in this terminal."""

from __future__ import annotations

import os

from ostler.faces.cli.arguments import Parser

DEFAULT = "localhost:3284"


def attach_command(arguments: list[str]) -> int:
    options = _attach_parser().parse_args(arguments)
    from ostler.faces.attach.addresses import address_of
    from ostler.faces.attach.opening import attach

    address = address_of(options.named or options.url)
    return attach(address, options.token or os.environ.get("OSTLER_TOKEN", ""), options)


def _attach_parser() -> Parser:
    parser = Parser(
        prog="ostler attach",
        description="Opens what a server has in this terminal: the live screen of a terminal agent, which "
        "keys go through to, or the conversation of a session.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "url", metavar="URL", nargs="?", default=DEFAULT, help=f"of a server, or of a session ({DEFAULT})"
    )
    parser.add_argument("-u", "--url", dest="named", metavar="URL", help="the same")
    parser.add_argument("--session", metavar="ID", help="its id; a unique beginning will do (the newest)")
    parser.add_argument("--token", help="of the server; better set OSTLER_TOKEN: others can see arguments")
    parser.add_argument(
        "--detach-key", metavar="KEY", default="ctrl+]", help="leaves the agent to itself (ctrl+])"
    )
    parser.add_argument("--read-only", action="store_true", help="no key goes through")
    return parser
