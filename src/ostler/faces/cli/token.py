"""`ostler token`: who may use the server. A token is shown once, when it is made."""

from __future__ import annotations

import argparse
from datetime import datetime

import msgspec

from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.columns import aligned
from ostler.faces.cli.saying import say
from ostler.faces.web.tokens import Token, TokenBook


def token_command(arguments: list[str]) -> int:
    options = _token_parser().parse_args(arguments)
    book = TokenBook()
    match options.command:
        case "new":
            _make(book, options)
        case "revoke":
            revoked = book.revoke(options.name)
            if options.json:
                _print_json(revoked)
            say(f"the token {revoked.name} was revoked; who logged in with it is logged out")
        case _:
            _list(book, as_json=options.json)
    return 0


def _token_parser() -> Parser:
    as_json = Parser(add_help=False)
    as_json.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="as one JSON object a line"
    )
    parser = Parser(
        prog="ostler token",
        description="Lists, makes and revokes the tokens of `ostler serve`.",
        parents=[as_json],
    )
    parser.set_defaults(json=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("list", help="the tokens that there are (default)", parents=[as_json])
    new = commands.add_parser("new", help="make one, and print it", parents=[as_json])
    new.add_argument("name", metavar="NAME", help="what it is for")
    new.add_argument(
        "--scope", choices=("observe", "all"), default="all", help="observe: only look (default: all)"
    )
    revoke = commands.add_parser("revoke", help="take one back", parents=[as_json])
    revoke.add_argument("name", metavar="NAME", help="its name, or its id")
    return parser


def _make(book: TokenBook, options: argparse.Namespace) -> None:
    token = book.new(options.name, options.scope)
    if options.json:
        made = next(one for one in book.all() if one.name == options.name)
        _print_json(made, {"token": token})
    else:
        print(token)
    say(f"this token is shown only now; `ostler token revoke {options.name}` takes it back")


def _print_json(token: Token, beside: dict[str, str] | None = None) -> None:
    shown = {name: value for name, value in msgspec.structs.asdict(token).items() if name != "sha256"}
    print(msgspec.json.encode(shown | (beside or {})).decode())


def _list(book: TokenBook, *, as_json: bool) -> None:
    tokens = book.all()
    if as_json:
        for one in tokens:
            _print_json(one)
        return
    if not tokens:
        say("there is no token yet: `ostler serve` makes the first one, `ostler token new NAME` any other")
        return
    rows = [
        (one.name, one.scope, datetime.fromtimestamp(one.created_ms / 1000).isoformat(" ", "minutes"), one.id)
        for one in tokens
    ]
    for line in aligned(rows):
        print(line)
