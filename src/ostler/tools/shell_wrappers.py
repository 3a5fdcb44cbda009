"""Programs that run another: what `sudo`, `timeout`, `xargs`, `bash -c` and `find -exec` would run."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ostler.tools.shell_parts import Command, is_harmless_name

WrappedWords = tuple[str | None, ...]


class Unwrapped(msgspec.Struct, frozen=True):
    commands: tuple[Command, ...] = ()
    scripts: tuple[str, ...] = ()
    problem: str = ""
    stands_in: bool = False
    """What it runs must be allowed in its place: by itself it does nothing."""


class _Options(msgspec.Struct, frozen=True):
    """Options that may stand before the command that a program runs."""

    alone: str = ""
    """A regular expression."""
    with_value: tuple[str, ...] = ()
    operands: int = 0
    """How many words stand between the options and the command."""


_TRANSPARENT: dict[str, _Options] = {
    "builtin": _Options(),
    "command": _Options("-p"),
    "coproc": _Options(),
    "env": _Options("-|-i|--ignore-environment|-u.+|--unset=.*", ("-u", "--unset")),
    "exec": _Options("-[cl]+", ("-a",)),
    "ionice": _Options(r"-t|-[cn]\d+", ("-c", "-n")),
    "nice": _Options(r"-\d+|-n-?\d+|--adjustment=-?\d+", ("-n",)),
    "nohup": _Options(),
    "setsid": _Options("-[cfw]+|--fork|--wait"),
    "stdbuf": _Options(r"-[ioe][L0-9]\w*|--(input|output|error)=\w+", ("-i", "-o", "-e")),
    "time": _Options("-p"),
    "timeout": _Options(
        r"--preserve-status|--foreground|-v|--verbose|-[ks].+|--kill-after=.*|--signal=.*", ("-k", "-s"), 1
    ),
    "xargs": _Options(
        r"-[0rtx]+|--null|--no-run-if-empty|-[nPLsd].+|--(max-args|max-procs|max-lines|delimiter)=.*"
        r"|-[Ii].+|--replace=.*",
        ("-n", "-P", "-L", "-s", "-d", "-I"),
    ),
}
_PRIVILEGED: dict[str, _Options] = {
    "doas": _Options("-n", ("-u",)),
    "sudo": _Options("-[nEHkSb]+|--non-interactive|--preserve-env|--user=.*", ("-u", "-g", "--user")),
}
_SHELLS = frozenset({"bash", "sh", "dash"})
_OTHER_SHELLS = frozenset({"zsh", "ksh", "fish", "csh", "tcsh"})
_UNKNOWN_INNER = "what it runs is known only when it runs"


def unwrapped(command: Command) -> Unwrapped:
    """What a command would run in its turn; nothing for one that does its work itself."""
    first = command.words[0]
    assert first is not None
    name = first.rpartition("/")[2]
    found = _unwrapped(name, command)
    # A program of that name that lies elsewhere is another program.
    is_known = first in (name, f"/bin/{name}", f"/usr/bin/{name}")
    return found if is_known else msgspec.structs.replace(found, stands_in=False)


def _unwrapped(name: str, command: Command) -> Unwrapped:
    if name == "command" and command.words[1:2] in (("-v",), ("-V",)):
        return Unwrapped()
    if name in _TRANSPARENT:
        return _behind_options(name, command, _TRANSPARENT[name])
    if name in _PRIVILEGED:
        found = _behind_options(name, command, _PRIVILEGED[name])
        inner = tuple(msgspec.structs.replace(one, only_restricts=True) for one in found.commands)
        return Unwrapped(inner, problem=found.problem)
    if name in _SHELLS:
        return _with_its_variables(_shell(command.words[1:]), command)
    if name in _OTHER_SHELLS:
        return Unwrapped(problem="its language is not understood here")
    if name == "eval":
        return _with_its_variables(_script(command.words[1:]), command)
    if name == "trap" and len(command.words) > 2 and command.words[1] != "-":
        return _script(command.words[1:2])
    if name == "find":
        return Unwrapped(_found(command))
    return Unwrapped()


def _with_its_variables(found: Unwrapped, command: Command) -> Unwrapped:
    """Variables that are set for a script reach all that it runs, so it cannot be allowed part by part."""
    return msgspec.structs.replace(found, stands_in=found.stands_in and not command.assignments)


def _behind_options(name: str, command: Command, options: _Options) -> Unwrapped:
    words = command.words
    position = 1
    assignments = [*command.assignments]
    while position < len(words):
        word = words[position]
        if word is None:
            return Unwrapped(problem=_UNKNOWN_INNER)
        if name in ("env", *_PRIVILEGED) and (assigned := re.fullmatch(r"(?s)(\w+)=.*", word)):
            if not is_harmless_name(assigned[1]):
                assignments.append(assigned[0])
        elif word in options.with_value:
            position += 1
        elif word == "--":
            position += 1
            break
        elif not word.startswith("-") and word != "-":
            break
        elif not re.fullmatch(options.alone, word):
            return Unwrapped(problem=f"{name} {word} cannot be judged")
        position += 1
    position += options.operands
    if position >= len(words):
        return Unwrapped()
    replaces = any(
        word is not None and word.startswith(("-I", "-i", "--replace")) for word in words[1:position]
    )
    first = words[position]
    if first is not None and not re.fullmatch(r"[\w./+@%-]+", first):
        return Unwrapped(problem=_UNKNOWN_INNER)
    inner = _as_xargs_runs(words[position:], replaces) if name == "xargs" else words[position:]
    run = Command(inner, command.source, tuple(assignments), command.only_restricts)
    return Unwrapped((run,), stands_in=name in _TRANSPARENT)


def _as_xargs_runs(words: WrappedWords, replaces: bool) -> WrappedWords:
    if replaces:
        return (words[0] if words[0] and re.fullmatch(r"[\w./-]+", words[0]) else None, *[None] * len(words))
    return (*words, None)


def _shell(words: WrappedWords) -> Unwrapped:
    position = 0
    while position < len(words):
        word = words[position]
        if word is None or word.startswith("--"):
            return Unwrapped(problem=_UNKNOWN_INNER)
        if not word.startswith(("-", "+")):
            return Unwrapped()  # a file with a script: what is in it is not looked at
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", word):
            return _script_behind(words[position + 1 :])
        if not re.fullmatch(r"[-+][euxlvnfi]+|[-+][oO]", word):
            return Unwrapped(problem=_UNKNOWN_INNER)
        position += 2 if word[1:] in ("o", "O") else 1
    return Unwrapped(problem="it runs what it reads from its input")


def _script_behind(words: WrappedWords) -> Unwrapped:
    """The first word that is no option; the others are its arguments."""
    for position, word in enumerate(words):
        if word is None:
            break
        if not word.startswith(("-", "+")):
            return _script(words[position : position + 1])
        if not re.fullmatch(r"[-+][euxlvf]+", word):
            break
    return Unwrapped(problem=_UNKNOWN_INNER)


def _script(words: Sequence[str | None]) -> Unwrapped:
    known = [word for word in words if word is not None]
    if len(known) < len(words):
        return Unwrapped(problem=_UNKNOWN_INNER)
    return Unwrapped(scripts=(" ".join(known),), stands_in=True)


def _found(command: Command) -> tuple[Command, ...]:
    """Each command behind an `-exec`. What was found stands in for `{}`."""
    commands = []
    words = command.words
    for position, word in enumerate(words):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            inner: list[str | None] = []
            for one in words[position + 1 :]:
                if one in (";", "+"):
                    break
                inner.append(None if one is None or "{}" in one else one)
            if inner:
                commands.append(
                    Command(tuple(inner), command.source, command.assignments, command.only_restricts)
                )
    return tuple(commands)
