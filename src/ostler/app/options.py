"""Command-line options that several commands share, and `RunOptions`, which holds their values.

argparse changed its help layout in Python 3.13 and its colours in 3.14. `HelpFormatter` prints the same text
on every version, so that the generated documentation matches what users see.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import suppress

from ostler import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, NoReturn, TypeVar

    Options = TypeVar("Options", bound="RunOptions")


class RunOptions:
    """The options of every command that runs a session. A command with options of its own subclasses it and
    gives an instance to argparse, which sets the attributes."""

    words: list[str]
    print: bool = False
    json: bool = False
    no_expand: bool = False
    plain: bool = False
    session: str | None = None
    continue_: bool = False
    no_session: bool = False
    schema: str | None = None

    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    reasoning: str | None = None
    system: str | None = None
    append_system: list[str] | None = None
    instructions: bool | None = None
    context: list[dict[str, Any]] | None = None

    cwd: str | None = None
    tools: str | None = None
    no_tools: bool = False
    permissions: str | None = None
    yes: bool = False
    on_question: str | None = None
    extension: list[str] | None = None
    no_extensions: bool = False
    trust: bool = False

    max_steps: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    max_children: int | None = None
    max_depth: int | None = None


class HelpFormatter(argparse.HelpFormatter):
    """Options as `-s, --long VALUE`, help texts in one column, and a usage that breaks between options."""

    def __init__(self, prog: str) -> None:
        # With a width argparse does not import shutil; it makes a formatter for every option that is added.
        super().__init__(prog, width=_terminal_width() - 2)

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if action.help is argparse.SUPPRESS:
            return
        # Before 3.13 the names of subcommands were measured without their indentation.
        for command in self._iter_indented_subactions(action):
            length = len(self._format_action_invocation(command)) + self._current_indent
            self._action_max_length = max(self._action_max_length, length)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return self._with_value(", ".join(action.option_strings), action)

    def _format_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None,
    ) -> str:
        if usage is not None:
            return super()._format_usage(usage, actions, groups, prefix)
        prefix = "usage: " if prefix is None else prefix
        options, positionals = self._usage_parts(actions, groups)
        width = self._width - self._current_indent
        in_one_line = " ".join([prefix + self._prog, *options, *positionals])
        if len(in_one_line) <= width:
            return f"{in_one_line}\n\n"
        indent = len(prefix) + len(self._prog) + 1
        if indent > 0.75 * width:  # a narrow terminal: the program has a line of its own
            indent = len(prefix)
            lines = [prefix + self._prog, *_wrapped(options, indent, width)]
        else:
            first, *others = _wrapped(options or positionals, indent, width)
            lines = [f"{prefix}{self._prog} {first[indent:]}", *others]
            positionals = positionals if options else []
        return "\n".join([*lines, *_wrapped(positionals, indent, width)]) + "\n\n"

    def _usage_parts(
        self, actions: Iterable[argparse.Action], groups: Iterable[argparse._MutuallyExclusiveGroup]
    ) -> tuple[list[str], list[str]]:
        """The parts of the usage: options, and positionals. Mutually exclusive arguments are one part, among
        the options if one of them is an option."""
        visible = [action for action in actions if action.help is not argparse.SUPPRESS]
        visible.sort(key=lambda action: not action.option_strings)
        group_of = {action: group for group in groups for action in group._group_actions}
        options: list[str] = []
        positionals: list[str] = []
        for action in visible:
            parts = options if action.option_strings else positionals
            group = group_of.get(action)
            if group is None:
                part = self._usage_of(action)
                parts.append(f"[{part}]" if action.option_strings and not action.required else part)
                continue
            members = [member for member in visible if group_of.get(member) is group]
            if action is members[0]:
                choices = " | ".join(map(self._usage_in_group, members))
                parts.append(f"({choices})" if group.required else f"[{choices}]")
        return options, positionals

    def _usage_of(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return self._format_args(action, self._get_default_metavar_for_positional(action))
        if action.nargs == 0:
            return action.format_usage()
        return self._with_value(action.option_strings[0], action)

    def _usage_in_group(self, action: argparse.Action) -> str:
        part = self._usage_of(action)
        is_in_brackets = not action.option_strings and part.startswith("[") and part.endswith("]")
        return part[1:-1] if is_in_brackets else part

    def _with_value(self, option: str, action: argparse.Action) -> str:
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{option} {value}".rstrip()  # a switch that --name=false turns off has a value without a name


class RawHelpFormatter(HelpFormatter, argparse.RawDescriptionHelpFormatter):
    """The same, with the lines of description and epilogue as they are written."""


def _terminal_width() -> int:
    """As `shutil.get_terminal_size` finds it."""
    with suppress(ValueError):
        if (columns := int(os.environ.get("COLUMNS", "0"))) > 0:
            return columns
    with suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    return 80


def _wrapped(parts: list[str], indent: int, width: int) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 1 + len(part) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(" " * indent + part)
    return lines


_EXAMPLES = """\
examples:
  ostler -p "what does this project do?"
  git diff | ostler -p review this change
  ostler -p --yes --json "fix the failing test" > run.jsonl
  ostler -p --continue "and now the documentation"
  ostler demo

exit codes: 0 done, 1 failed, 2 usage, 3 no model, 4 a call was refused, 5 limit, 6 waiting for an answer,
130 cancelled, 143 terminated"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and whose help is the same on every version of Python."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", HelpFormatter)
        if sys.version_info >= (3, 14):
            options["color"] = False
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"(--[\w-]+)=\S+", r"\1=…", message)  # a mistyped --api-key is followed by a key
        self.exit(2, f"{self.prog.split()[0]}: {message}; see `{self.prog} --help`\n")


def print_parser(commands: Mapping[str, tuple[str, str]]) -> Parser:
    listing = "\n".join(f"  {name:<11} {about}" for name, (_, about) in commands.items())
    parser = Parser(
        prog="ostler",
        usage="ostler [OPTIONS] [PROMPT…]     chat in the terminal\n"
        "       ostler -p [OPTIONS] PROMPT…   print one answer, for scripts and pipes\n"
        "       ostler COMMAND …",
        description="A coding agent. Every run is an event log that you can follow, resume and replay.",
        epilog=f"commands:\n{listing}\n\n{_EXAMPLES}",
        formatter_class=RawHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("words", nargs="*", metavar="PROMPT", help="the prompt; piped input is appended")
    add("-p", "--print", action="store_true", help="run the prompt and print the answer")
    add("--json", action="store_true", help="print every event, one JSON object per line")
    add("--no-expand", action="store_true", help="send the prompt verbatim: expand no /template and no @file")
    add("--plain", action="store_true", help="in a terminal: plain lines for screen readers")
    add("--version", action="version", version=f"ostler {__version__}")
    add_model_options(parser)("--schema", metavar="FILE", help="a JSON Schema that the answer must match")
    add_work_options(parser)
    add = parser.add_argument_group("session").add_argument
    add("--session", metavar="ID", help="continue this session (a unique prefix is enough)")
    newest = "continue the newest session of this directory"
    add("--continue", dest="continue_", action="store_true", help=newest)
    add("--no-session", action="store_true", help="do not store the session")
    return parser


def continue_parser(command: str, about: str) -> Parser:
    """The parser of a command that continues a session, with the options of `-p` that apply."""
    parser = Parser(prog=f"ostler {command}", description=about, allow_abbrev=False)
    add_session(parser)
    add_json(parser, "print every event, as `-p --json` does")
    add_model_options(parser)
    add_work_options(parser)
    return parser


def add_session(parser: Parser) -> None:
    parser.add_argument("id", metavar="SESSION", help="the session's id; a unique prefix is enough")


def add_json(parser: Parser, about: str = "print one JSON object per line") -> None:
    parser.add_argument("--json", action="store_true", help=about)


def command_adder(parser: Parser, parser_class: type[Parser] = Parser) -> Callable[..., Parser]:
    """A function that adds a subcommand: its name, what it does, and the `command` that runs it."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=parser_class)

    def add(name: str, about: str, command: Callable[..., object]) -> Parser:
        one: Parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        one.set_defaults(command=command)
        return one

    return add


def default_to_list(arguments: list[str]) -> list[str]:
    """The arguments of a command whose default subcommand is `list`."""
    has_command = arguments and (not arguments[0].startswith("-") or arguments[0] in ("-h", "--help"))
    return arguments if has_command else ["list", *arguments]


def add_model_options(parser: Parser) -> Callable[..., argparse.Action]:
    """Adds the options of the group `model`; returns the function that adds another to the group."""
    add = parser.add_argument_group("model").add_argument
    add("--model", metavar="PROVIDER/ID", help="such as anthropic/…, openai/…, ollama/… or demo")
    add("--base-url", metavar="URL", help="a server that speaks the provider's protocol")
    add("--api-key", metavar="KEY", help="safer in an environment variable: other users can see arguments")
    levels = ("off", "minimal", "low", "medium", "high")
    add("--reasoning", choices=levels, help="how much the model reasons")
    add("--system", metavar="TEXT", help="replace the system prompt")
    add("--append-system", metavar="TEXT", action="append", help="append to the system prompt; repeatable")
    add("--no-instructions", dest="instructions", action="store_const", const=False, help="ignore AGENTS.md")
    about = "a rule of [context], such as window.tokens=20000; repeatable"
    add("--context", metavar="KEY=VALUE", type=context_rule, action="append", help=about)
    return add


def add_work_options(parser: Parser) -> None:
    add = parser.add_argument_group("work").add_argument
    add("--cwd", metavar="DIR", help="the working directory (default: this one, or the session's)")
    add("--tools", metavar="NAME,…", help="offer only these tools")
    add("--no-tools", action="store_true", help="offer no tools")
    about = "what runs without asking (default: read-only; ask in the terminal and on the server)"
    add("--permissions", choices=("read-only", "ask", "edit", "full"), help=about)
    add("--yes", action="store_true", help="the same as --permissions full")
    about = "if a call needs your approval: refuse it (default), or wait and exit with 6; the server waits"
    add("--on-question", choices=("refuse", "wait"), help=about)
    add = parser.add_argument_group("extensions").add_argument
    add("-e", "--extension", metavar="PATH", action="append", help="load this extension, too; repeatable")
    add("--no-extensions", action="store_true", help="load only the extensions named with -e")
    add("--trust", action="store_true", help="run the project's extensions without a review")
    add = parser.add_argument_group("limits of a run and its subagents together").add_argument
    add("--max-steps", metavar="N", type=at_least_one, help="end the run after N steps")
    add("--max-tokens", metavar="N", type=at_least_one, help="end the run after N tokens")
    add("--max-cost", metavar="DOLLARS", type=positive, help="end the run after this many dollars")
    add("--max-seconds", metavar="S", type=positive, help="end the run after S seconds")
    add("--max-children", metavar="N", type=at_least_zero, help="start at most N subagents")
    add("--max-depth", metavar="N", type=at_least_zero, help="nest subagents at most N deep (default: 3)")


def parse_words(parser: Parser, arguments: list[str], options: Options) -> Options:
    """Parses options before, between and after the words; everything after `--` is a word."""
    # Split here: argparse, when it parses intermixed, takes options out of what follows `--` too.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser.parse_intermixed_args(arguments[:end], options)
    options.words += arguments[end + 1 :]
    return options


def context_rule(text: str) -> dict[str, object]:
    """Parses KEY=VALUE; the value is TOML, or else a plain string."""
    import json
    import tomllib

    key, equals, value = text.partition("=")
    for literal in (value, json.dumps(value.strip())):
        try:
            rule = tomllib.loads(f"{key} = {literal}")
        except tomllib.TOMLDecodeError:
            continue
        if equals and all(isinstance(group, dict) for group in rule.values()):
            return rule
    raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, such as window.tokens=20000")


def at_least_one(text: str) -> int:
    return _whole_number(text, 1)


def at_least_zero(text: str) -> int:
    return _whole_number(text, 0)


def _whole_number(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)


def positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number
