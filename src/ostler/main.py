"""The `ostler` command: the table of its subcommands, and errors as exit codes.

Every subcommand is imported only when it runs, so that `ostler --help` and `ostler -p` start fast.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from importlib import import_module
from itertools import pairwise

from ostler.core.lazy import lazy_module, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from ostler.app import options
    from ostler.models import credentials
    from ostler.schema import errors, text
else:
    credentials = lazy_module("ostler.models.credentials")
    errors = lazy_module("ostler.schema.errors")
    options = lazy_module("ostler.app.options")
    text = lazy_module("ostler.schema.text")

COMMANDS = {
    "agents": ("ostler.cli.resources:agents_command", "list the subagents that the model can delegate to"),
    "answer": ("ostler.cli.control:answer_command", "answer a question of a run, and continue the run"),
    "attach": (
        "ostler.tui.attach.command:attach_command",
        "open a session of a server, or its agent's screen",
    ),
    "audit": ("ostler.cli.history:audit_command", "show the decisions in a session, with their reasons"),
    "cancel": ("ostler.cli.control:cancel_command", "cancel a run, or one of its calls"),
    "context": (
        "ostler.app.reports:context_command",
        "show what the model received in a step, and by which rule",
    ),
    "cost": ("ostler.app.reports:cost_command", "show tokens and dollars by day, model, session or run"),
    "demo": (
        "ostler.cli.demo:demo_command",
        "watch a scripted agent work, and survive kill -9: no key, no network",
    ),
    "doctor": ("ostler.app.doctor:doctor_command", "check keys, models and tools, and what to fix"),
    "ext": (
        "ostler.cli.extensions:ext_command",
        "list, install, update, remove, check and create extensions",
    ),
    "follow": ("ostler.cli.runs:follow_command", "watch a run of another process"),
    "key": ("ostler.app.provider_keys:key_command", "store, list, remove and test API keys of providers"),
    "models": ("ostler.cli.models:models_command", "list models: context, modalities, prices, aliases"),
    "pause": ("ostler.cli.control:pause_command", "pause a run before its next step"),
    "permissions": (
        "ostler.cli.permissions:permissions_command",
        "list, add, revoke and test permission rules",
    ),
    "prompts": (
        "ostler.cli.resources:prompts_command",
        "list and show prompt templates, which `-p /NAME` runs",
    ),
    "release": (
        "ostler.cli.control:release_command",
        "run or drop the prompts that are held in a session",
    ),
    "replay": (
        "ostler.cli.history:replay_command",
        "run a recorded session again, and find the first difference",
    ),
    "resume": (
        "ostler.cli.control:resume_command",
        "continue a run that was paused, answered or interrupted",
    ),
    "runs": ("ostler.cli.runs:runs_command", "list runs: their status, and what they wait for"),
    "serve": (
        "ostler.server.command:serve_command",
        "serve sessions, or another vendor's agent, over HTTP and on a web page",
    ),
    "sessions": (
        "ostler.cli.sessions:sessions_command",
        "list, show, search, branch, copy, check and delete sessions",
    ),
    "skills": ("ostler.cli.resources:skills_command", "list the skills that the model or you can use"),
    "steer": ("ostler.cli.control:steer_command", "send a message to a run between two steps"),
    "token": ("ostler.server.command:token_command", "list, create and revoke tokens of the server"),
    "trust": (
        "ostler.cli.permissions:trust_command",
        "trust a project's ostler.toml with the settings that need your consent",
    ),
}

_UNLISTED = {
    "server": "ostler.server.command:server_command",
    "demo-part": "ostler.cli.demo:demo_part_command",
}


def main() -> None:
    """Entry point of the `ostler` script. Exits without tearing the interpreter down: everything that must be
    durable is stored by then."""
    gc.disable()  # imports make no garbage; `enable_gc` turns it on again for what runs longer
    _fill_closed_descriptors()
    if sys.stdout is None:
        print("ostler: standard output is closed; redirect it to a file or to /dev/null", file=sys.stderr)
        os._exit(2)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # for terminals without Unicode
    code = run([os.fsencode(argument).decode(errors="replace") for argument in sys.argv[1:]])
    _flush(sys.stderr)
    os._exit(code)


def _import_msgspec() -> None:
    """Imports msgspec without typing_extensions, which it tries first and which takes 5 ms to load."""
    if "typing_extensions" not in sys.modules:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # an import raises ImportError
        import_module("msgspec")
        del sys.modules["typing_extensions"]


def _flush(stream: TextIO | None) -> None:
    if stream is not None and not stream.closed:  # an extension may have done either
        stream.flush()


def _fill_closed_descriptors() -> None:
    """Opens /dev/null for closed ones, so that no file that is opened later becomes standard output."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            os.set_inheritable(descriptor, True)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8")  # noqa: SIM115  # `print` would choose standard output instead


def run(arguments: list[str]) -> int:
    """Runs a command line and returns its exit code."""
    try:
        try:
            return _run_command(arguments)
        finally:
            _flush(sys.stdout)  # also after `--help`, which raises SystemExit
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has closed it, as `| head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        return _explain(error, arguments)


def _run_command(arguments: list[str]) -> int:
    name = arguments[0] if arguments else ""
    if name not in COMMANDS and name not in _UNLISTED:
        return _run_prompt(arguments)
    code: int = load(_UNLISTED.get(name) or COMMANDS[name][0])(arguments[1:])
    return code


def _run_prompt(arguments: list[str]) -> int:
    parser = options.print_parser(COMMANDS)
    is_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    if not arguments and not is_terminal:
        parser.print_help()
        return 2
    # In a terminal any words are a prompt, but a single word that is nearly a command is most likely a typo.
    is_prompt = bool({"-p", "--print"} & {*arguments}) or (is_terminal and len(arguments) > 1)
    if arguments and not arguments[0].startswith("-") and not is_prompt:
        _check_typo(parser, arguments[0])
    parsed = options.parse_words(parser, arguments, options.RunOptions())
    _import_msgspec()
    if not parsed.print and not parsed.json and is_terminal:
        _refuse_late_command(parser, parsed.words, arguments)
        start = load("ostler.tui.main:run_tui")
    elif parsed.print:
        start = load("ostler.cli.prompt:run_prompt")
    else:
        parser.error(
            "give a prompt or a command: `ostler -p PROMPT…` runs one prompt and prints the answer; "
            f"the commands are: {', '.join(COMMANDS)}"
        )
    code: int = start(parsed)
    return code


def _refuse_late_command(parser: options.Parser, words: list[str], arguments: list[str]) -> None:
    """Refuses a command behind options: it would be sent to the model as a prompt."""
    before_end = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if words and words[0] in COMMANDS and words[0] in before_end:
        parser.error(
            f"{words[0]} is a command: put options after it, as in `ostler {words[0]} …`; "
            f"`ostler … -- {words[0]} …` sends it as a prompt"
        )


def _check_typo(parser: options.Parser, word: str) -> None:
    """Refuses a word that is nearly a command."""
    from difflib import get_close_matches

    if near := get_close_matches(word, COMMANDS, 1):
        parser.error(f"there is no command {word!r}: did you mean `ostler {near[0]}`?")


def _explain(error: Exception, arguments: list[str]) -> int:
    """Prints an expected error as one line, and any other with its traceback. Returns the exit code."""
    keys = [value for name, value in pairwise(arguments) if name == "--api-key"]
    if isinstance(error, errors.OstlerError):
        print(f"ostler: {credentials.redact_keys(text.one_line(error.message), keys)}", file=sys.stderr)
        return error.exit_code
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        print(f"ostler: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    import traceback

    lines = "".join(traceback.format_exception(error))
    print(credentials.redact_keys(lines, keys), end="", file=sys.stderr)
    print("ostler: this is a bug in ostler; please report the lines above", file=sys.stderr)
    return 1
