"""The command line. Arguments are parsed before anything heavy is imported."""

from __future__ import annotations

import errno
import gc
import os
import sys
from importlib import import_module
from itertools import pairwise

COMMANDS = {
    "cost": ("ostler.faces.cli.cost", "what models used, by day, model, session or run"),
    "demo": ("ostler.faces.cli.demo", "watch a scripted agent work: no key, no network"),
    "doctor": ("ostler.faces.cli.doctor", "what could answer, what was found, and what to do"),
    "key": ("ostler.faces.cli.key", "keep, list, remove and try the keys of providers"),
    "models": ("ostler.faces.cli.models", "list models: context, modalities, prices, aliases"),
    "permissions": ("ostler.faces.cli.permissions", "list, give, take back and try what may run"),
    "replay": ("ostler.faces.cli.replay", "run a recorded session again, and find the first difference"),
    "sessions": ("ostler.faces.cli.sessions", "list, show, search, branch, copy, check and delete sessions"),
    "trust": ("ostler.faces.cli.trust", "let a project's ostler.toml decide what needs your consent"),
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
    sys.stderr.flush()
    os._exit(code)


def _fill_closed_descriptors() -> None:
    """A file or connection that is opened later must not become somebody's standard output."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
            os.set_inheritable(descriptor, True)
    if sys.stderr is None:
        sys.stderr = open(2, "w")  # noqa: SIM115  # `print` would choose standard output instead


def run(arguments: list[str]) -> int:
    """Runs a command line and returns its exit code."""
    try:
        if arguments and arguments[0] in COMMANDS:
            command = import_module(COMMANDS[arguments[0]][0])
            code: int = command.run(arguments[1:])
        else:
            code = _run_prompt(arguments)
        sys.stdout.flush()
        return code
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


def _run_prompt(arguments: list[str]) -> int:
    from ostler.faces.cli.arguments import print_parser

    parser = print_parser(COMMANDS)
    if not arguments:
        parser.print_help()
        return 2
    # Split here: argparse, when it parses intermixed, takes options out of what follows `--` too.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_intermixed_args(arguments[:end])
    options.words += arguments[end + 1 :]
    if not options.print:
        parser.error("say what to do: `ostler -p PROMPT…` runs one prompt and prints the answer")
    from ostler.faces.cli.prompt import run_prompt

    return run_prompt(options)


def _explain(error: Exception, arguments: list[str]) -> int:
    """One clear line for every mistake that is foreseen. Anything else is ours, and shows where."""
    from ostler.models.keys import without_keys
    from ostler.vocabulary.errors import OstlerError

    typed = [value for name, value in pairwise(arguments) if name == "--api-key"]
    if isinstance(error, OstlerError):
        print(f"ostler: {without_keys(' '.join(error.message.split()), typed)}", file=sys.stderr)
        return error.exit_code
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        print(f"ostler: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    import traceback

    print(without_keys("".join(traceback.format_exception(error)), typed), end="", file=sys.stderr)
    print("ostler: this is a mistake in ostler itself; please report the lines above", file=sys.stderr)
    return 1
