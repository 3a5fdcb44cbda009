"""`ostler token`: who may use the server. A token is shown once, when it is made."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.columns import aligned
from ostler.faces.cli.saying import say
from ostler.faces.web.tokens import TokenBook


def run(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    book = TokenBook()
    match options.command:
        case "new":
            print(book.new(options.name, options.scope))
            say(f"this token is shown only now; `ostler token revoke {options.name}` takes it back")
        case "revoke":
            book.revoke(options.name)
            say(f"the token {options.name} was revoked; who logged in with it is logged out")
        case _:
            _list(book, as_json=options.command == "list" and options.json)
    return 0


def _parser() -> Parser:
    parser = Parser(prog="ostler token", description="Lists, makes and revokes the tokens of `ostler serve`.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    listing = commands.add_parser("list", help="the tokens that there are (default)")
    listing.add_argument("--json", action="store_true", help="as one JSON object a line")
    new = commands.add_parser("new", help="make one, and print it")
    new.add_argument("name", metavar="NAME", help="what it is for")
    new.add_argument(
        "--scope", choices=("observe", "all"), default="all", help="observe: only look (default: all)"
    )
    revoke = commands.add_parser("revoke", help="take one back")
    revoke.add_argument("name", metavar="NAME", help="its name, or its id")
    return parser


def _list(book: TokenBook, *, as_json: bool) -> None:
    tokens = book.all()
    if as_json:
        for one in tokens:
            shown = {name: value for name, value in msgspec.structs.asdict(one).items() if name != "sha256"}
            print(msgspec.json.encode(shown).decode())
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
