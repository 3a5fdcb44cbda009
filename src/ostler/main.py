"""The command line. Arguments are parsed before anything heavy is imported."""

from __future__ import annotations

import errno
import gc
import os
import sys
from importlib import import_module
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from ostler.app.options import Parser


COMMANDS = {
    "agents": ("ostler.cli.resources:agents_command", "list the named agents that work can be given to"),
    "answer": ("ostler.cli.control:answer_command", "answer what a run asks, and drive it on"),
    "attach": (
        "ostler.tui.attach.command:attach_command",
        "open a session of a server, or its agent's screen",
    ),
    "audit": ("ostler.cli.history:audit_command", "why a session did what it did"),
    "cancel": ("ostler.cli.control:cancel_command", "end a run, or one of its calls"),
    "context": (
        "ostler.app.reports:context_command",
        "what the model was told in a step, and by which rule",
    ),
    "cost": ("ostler.app.reports:cost_command", "what models used, by day, model, session or run"),
    "demo": (
        "ostler.cli.demo:demo_command",
        "watch a scripted agent work, and survive kill -9: no key, no network",
    ),
    "doctor": ("ostler.app.doctor:doctor_command", "what could answer, what was found, and what to do"),
    "ext": ("ostler.cli.extensions:ext_command", "list, install, update, remove, check and write extensions"),
    "follow": ("ostler.cli.runs:follow_command", "watch a run of another process"),
    "key": ("ostler.app.provider_keys:key_command", "keep, list, remove and try the keys of providers"),
    "models": ("ostler.cli.models:models_command", "list models: context, modalities, prices, aliases"),
    "pause": ("ostler.cli.control:pause_command", "let a run rest before its next step"),
    "permissions": (
        "ostler.cli.permissions:permissions_command",
        "list, give, take back and try what may run",
    ),
    "prompts": (
        "ostler.cli.resources:prompts_command",
        "list and show the prompt templates that `-p /NAME` says",
    ),
    "release": (
        "ostler.cli.control:release_command",
        "run the prompts that wait in a session, or drop them",
    ),
    "replay": (
        "ostler.cli.history:replay_command",
        "run a recorded session again, and find the first difference",
    ),
    "resume": ("ostler.cli.control:resume_command", "drive a run on that was cut, paused or answered"),
    "runs": ("ostler.cli.runs:runs_command", "list runs: who works on them, and what they wait for"),
    "serve": (
        "ostler.server.command:serve_command",
        "sessions, or another vendor's agent, over HTTP and on a web page",
    ),
    "sessions": (
        "ostler.cli.sessions:sessions_command",
        "list, show, search, branch, copy, check and delete sessions",
    ),
    "skills": ("ostler.cli.resources:skills_command", "list the skills that the model or you can use"),
    "steer": ("ostler.cli.control:steer_command", "say something to a run between two steps"),
    "token": ("ostler.server.command:token_command", "list, make and revoke the tokens of the server"),
    "trust": (
        "ostler.cli.permissions:trust_command",
        "let a project's ostler.toml decide what needs your consent",
    ),
}

_UNLISTED = {
    "server": "ostler.server.command:server_command",
    "demo-part": "ostler.cli.demo:demo_part_command",
}


def main() -> None:
    """Entry point of the `ostler` script. Leaves without tearing the interpreter down: everything that
    must be durable is, and nothing is left to do."""
    gc.disable()  # imports make no garbage; what lives longer than a moment turns it on again
    _fill_closed_descriptors()
    if sys.stdout is None:
        print("ostler: standard output is closed; send it to a file, or to /dev/null", file=sys.stderr)
        os._exit(2)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # not every terminal has every character
    code = run([os.fsencode(argument).decode(errors="replace") for argument in sys.argv[1:]])
    _flush(sys.stderr)
    os._exit(code)


def _flush(stream: TextIO | None) -> None:
    if stream is not None and not stream.closed:  # an extension may have done either
        stream.flush()


def _fill_closed_descriptors() -> None:
    """A file or connection that is opened later must not become somebody's standard output."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
            os.set_inheritable(descriptor, True)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8")  # noqa: SIM115  # `print` would choose standard output instead


def run(arguments: list[str]) -> int:
    """Runs a command line and returns its exit code."""
    try:
        try:
            return _run_command(arguments)
        finally:
            _flush(sys.stdout)  # also after `--help`, which ends by an exception
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has left, as `| head` does. There is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        return _explain(error, arguments)


def _run_command(arguments: list[str]) -> int:
    name = arguments[0] if arguments else ""
    if name not in COMMANDS and name not in _UNLISTED:
        return _run_prompt(arguments)
    module, _, function = (_UNLISTED.get(name) or COMMANDS[name][0]).partition(":")
    code: int = getattr(import_module(module), function)(arguments[1:])
    return code


def _run_prompt(arguments: list[str]) -> int:
    from ostler.app.options import parse_words, print_parser

    parser = print_parser(COMMANDS)
    is_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    if not arguments and not is_terminal:
        parser.print_help()
        return 2
    # In a terminal any words are a prompt, but one that is nearly a command is seldom meant as one.
    is_prompt = bool({"-p", "--print"} & {*arguments}) or (is_terminal and len(arguments) > 1)
    if arguments and not arguments[0].startswith("-") and not is_prompt:
        _look_for_command(parser, arguments[0])
    options = parse_words(parser, arguments)
    if not options.print and not options.json and is_terminal:
        _refuse_late_command(parser, options.words, arguments)
        from ostler.tui.main import run_tui

        return run_tui(options)
    if not options.print:
        parser.error(
            "say what to do: `ostler -p PROMPT…` runs one prompt and prints the answer; "
            f"the commands are: {', '.join(COMMANDS)}"
        )
    from ostler.cli.prompt import run_prompt

    return run_prompt(options)


def _refuse_late_command(parser: Parser, words: list[str], arguments: list[str]) -> None:
    """A command behind options would be said to a model."""
    before_end = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if words and words[0] in COMMANDS and words[0] in before_end:
        parser.error(
            f"{words[0]} is a command: options stand behind it, as in `ostler {words[0]} …`; "
            f"`ostler … -- {words[0]} …` is a prompt"
        )


def _look_for_command(parser: Parser, word: str) -> None:
    """Complains about a command that was nearly one of ours."""
    from difflib import get_close_matches

    if near := get_close_matches(word, COMMANDS, 1):
        parser.error(f"there is no command {word!r}: perhaps you mean `ostler {near[0]}`")


def _explain(error: Exception, arguments: list[str]) -> int:
    """One clear line for every mistake that is foreseen. Anything else is ours, and shows where."""
    from ostler.models.credentials import redact_keys
    from ostler.schema.errors import OstlerError
    from ostler.schema.text import one_line

    typed = [value for name, value in pairwise(arguments) if name == "--api-key"]
    if isinstance(error, OstlerError):
        print(f"ostler: {redact_keys(one_line(error.message), typed)}", file=sys.stderr)
        return error.exit_code
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        print(f"ostler: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    import traceback

    print(redact_keys("".join(traceback.format_exception(error)), typed), end="", file=sys.stderr)
    print("ostler: this is a mistake in ostler itself; please report the lines above", file=sys.stderr)
    return 1
