"""What can be said on the command line."""

from __future__ import annotations

import argparse
import re
import sys

from ostler import __version__
from ostler.faces.cli.help_format import HelpFormatter, RawHelpFormatter

TYPE_CHECKING = False  # not from typing, which takes longer to import than all of this to run
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

_EXAMPLES = """\
examples:
  ostler -p "what does this project do?"
  git diff | ostler -p review this change
  ostler -p --yes --json "fix the failing test" > run.jsonl
  ostler -p --continue "and now the documentation"
  ostler demo

exit codes: 0 done, 1 failed, 2 usage, 3 no model, 4 something was refused, 5 limit, 6 waiting for you,
130 cancelled, 143 terminated"""


class Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line, and whose help is the same on every version of Python."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", HelpFormatter)
        if sys.version_info >= (3, 14):
            options["color"] = False
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"(--[\w-]+)=\S+", r"\1=…", message)  # a mistyped --api-key has a key behind it
        self.exit(2, f"{self.prog.split()[0]}: {message}; `{self.prog} --help` shows what there is\n")


def print_parser(commands: Mapping[str, tuple[str, str]]) -> Parser:
    listed = "\n".join(f"  {name:<10} {about}" for name, (_, about) in commands.items())
    parser = Parser(
        prog="ostler",
        usage="ostler [OPTIONS] [PROMPT…]     a conversation in the terminal\n"
        "       ostler -p [OPTIONS] PROMPT…   one answer, for scripts and pipes\n"
        "       ostler COMMAND …",
        description="An agent for your directory: every run is a log you can follow, resume and replay.",
        epilog=f"commands:\n{listed}\n\n{_EXAMPLES}",
        formatter_class=RawHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("words", nargs="*", metavar="PROMPT", help="the prompt; piped input is added to it")
    parser.add_argument("-p", "--print", action="store_true", help="run the prompt and print the answer")
    parser.add_argument(
        "--json", action="store_true", help="print every fact and delta, one JSON object a line"
    )
    parser.add_argument(
        "--no-expand", action="store_true", help="say the prompt as it is: no /template, no @file"
    )
    parser.add_argument(
        "--plain", action="store_true", help="in a terminal: plain lines, which a screen reader can read"
    )
    parser.add_argument("--version", action="version", version=f"ostler {__version__}")
    model = add_model_options(parser)
    model.add_argument("--schema", metavar="FILE", help="a JSON Schema that the answer shall fit")
    add_work_options(parser)
    session = parser.add_argument_group("session")
    session.add_argument("--session", metavar="ID", help="go on in this session (a unique beginning will do)")
    session.add_argument(
        "--continue", dest="continue_", action="store_true", help="the newest of this directory"
    )
    session.add_argument("--no-session", action="store_true", help="keep nothing")
    return parser


def driving_parser(command: str, about: str) -> Parser:
    """The parser of a command that drives a session's run on, with the options of `-p` that then count."""
    parser = Parser(prog=f"ostler {command}", description=about, allow_abbrev=False)
    add_session(parser)
    parser.add_argument("--json", action="store_true", help="print every fact and delta, as `-p --json` does")
    add_model_options(parser)
    add_work_options(parser)
    return parser


def add_session(parser: Parser) -> None:
    parser.add_argument("id", metavar="SESSION", help="its id; a unique beginning will do")


def add_model_options(parser: Parser) -> argparse._ArgumentGroup:
    model = parser.add_argument_group("model")
    model.add_argument(
        "--model", metavar="PROVIDER/ID", help="for example anthropic/…, openai/…, ollama/…, demo"
    )
    model.add_argument("--base-url", metavar="URL", help="another server that speaks the provider's protocol")
    model.add_argument(
        "--api-key", metavar="KEY", help="better set in the environment: others can see arguments"
    )
    model.add_argument("--reasoning", choices=("off", "minimal", "low", "medium", "high"))
    model.add_argument("--system", metavar="TEXT", help="replaces the system prompt")
    model.add_argument(
        "--append-system", metavar="TEXT", action="append", help="added to it; may be repeated"
    )
    model.add_argument(
        "--no-instructions",
        dest="instructions",
        action="store_const",
        const=False,
        help="leave out what AGENTS.md files say",
    )
    model.add_argument(
        "--context",
        metavar="KEY=VALUE",
        type=context_rule,
        action="append",
        help="a rule of [context], as window.tokens=20000; may be repeated",
    )
    return model


def add_work_options(parser: Parser) -> None:
    work = parser.add_argument_group("work")
    work.add_argument("--cwd", metavar="DIR", help="where to work (default: here, or where the run began)")
    work.add_argument("--tools", metavar="NAME,…", help="only these tools")
    work.add_argument("--no-tools", action="store_true", help="none at all")
    work.add_argument(
        "--permissions",
        choices=("read-only", "ask", "edit", "full"),
        help="what may run without asking (default: read-only; ask in the terminal and on the server)",
    )
    work.add_argument("--yes", action="store_true", help="the same as --permissions full")
    work.add_argument(
        "--on-question",
        choices=("refuse", "wait"),
        help="when a person is needed: refuse (default), or stop and wait with exit code 6; the server waits",
    )
    extensions = parser.add_argument_group("extensions")
    extensions.add_argument(
        "-e", "--extension", metavar="PATH", action="append", help="load this one, too; may be repeated"
    )
    extensions.add_argument("--no-extensions", action="store_true", help="none but those named with -e")
    extensions.add_argument(
        "--trust", action="store_true", help="run the project's extensions, without your having looked"
    )
    limits = parser.add_argument_group("limits of a run and its children together")
    limits.add_argument("--max-steps", metavar="N", type=at_least_one, help="end the run after N steps")
    limits.add_argument("--max-tokens", metavar="N", type=at_least_one, help="after N tokens")
    limits.add_argument("--max-cost", metavar="DOLLARS", type=positive, help="after so many dollars")
    limits.add_argument("--max-seconds", metavar="S", type=positive, help="after S seconds")
    limits.add_argument("--max-children", metavar="N", type=at_least_zero, help="at most N subagents")
    limits.add_argument("--max-depth", metavar="N", type=at_least_zero, help="nested so deep (default: 3)")


def parse_words(parser: Parser, arguments: list[str]) -> argparse.Namespace:
    """Options stand before, between and after the words; after `--` everything is a word."""
    # Split here: argparse, when it parses intermixed, takes options out of what follows `--` too.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_intermixed_args(arguments[:end])
    options.words += arguments[end + 1 :]
    return options


def context_rule(text: str) -> dict[str, object]:
    """A value as TOML has it; what is none is a text."""
    import json
    import tomllib

    key, equals, value = text.partition("=")
    for written in (value, json.dumps(value.strip())):
        try:
            rule = tomllib.loads(f"{key} = {written}")
        except tomllib.TOMLDecodeError:
            continue
        if equals and all(isinstance(group, dict) for group in rule.values()):
            return rule
    raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, as window.tokens=20000 is")


def at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def at_least_zero(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number
