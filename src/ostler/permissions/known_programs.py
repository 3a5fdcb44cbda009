"""Tables: programs that only read, and programs that run another one (`sudo`, `xargs`, `bash -c`).

A program is listed as read-only only without doubt. Many programs that read have an option that writes or
runs something; for those, only the options listed here are accepted, spelled in full.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import takewhile

import msgspec

from ostler.permissions.shell_words import Command, is_plain_name, word_set

Words = Sequence[str | None]

ANY_ARGUMENTS = word_set(
    "basename cat cmp comm cut df diff dirname du echo egrep expand false fgrep fold grep head id join jq "
    "ls md5sum nl nproc od paste pwd readlink realpath rev seq sha1sum sha256sum sha512sum sleep stat tac "
    "tail tr true tsort type uname unexpand uptime wc which whoami :"
)
"""None of these has an option that writes a file or runs a program."""

_FIND = word_set(
    "-H -L -P -a -and -o -or -not ! ( ) , -name -iname -path -ipath -wholename -regex -iregex -type -size "
    "-mtime -mmin -newer -atime -amin -ctime -cmin -empty -maxdepth -mindepth -depth -prune -print "
    "-print0 -ls -perm -user -group -links -inum -xdev -mount -follow -readable -writable -executable "
    "-true -false -quit -printf -daystart"
)

_SORT = re.compile(r"-[bdfghiMnRrVuzcCsm]+|-[kt].+|-k|-t")
_UNIQ = re.compile(r"-[cdDiuz]+|-[fsw]\d+|--count|--repeated|--unique")
_TREE = re.compile(r"-[adfshpugDFQil]+|-L|-I|-P|--dirsfirst|--gitignore|--noreport|--du")

_RIPGREP = re.compile(
    r"-[nNiIlLcovwxFSsPUuHabeABCgtTmMd.0]+\d*|-[gtTABCmM].+|--(files|hidden|no-ignore|count|line-number"
    r"|no-line-number|ignore-case|smart-case|word-regexp|fixed-strings|files-with-matches|only-matching|json"
    r"|no-heading|heading|stats|multiline|invert-match|sort|glob|type|type-not|context|max-count|max-depth"
    r"|color|column|trim)(=.*)?"
)

_FILE = re.compile(r"-[biLhkN0]+|--mime-type|--mime|--brief|--mime-encoding")
_DATE = re.compile(r"\+.*|-u|-R|-I\w*|--utc|--iso-8601(=\w+)?|--rfc-3339=\w+")
_SED_SCRIPT = re.compile(r"(?:\d+|\$)(?:,(?:\d+|\$))?p(?:;(?:\d+|\$)(?:,(?:\d+|\$))?p)*")

VERSIONS = word_set(
    "python python3 node npm pnpm yarn deno bun cargo rustc go java javac git gcc clang make cmake pip "
    "pip3 uv ruby perl php docker"
)

_GIT_SHOWS = re.compile(
    r"-\d+|-[pusnwbaqzRim]+\d*|-[SGLUM].*|-C\d*|--(stat|shortstat|numstat|dirstat|summary|name-only|name-status"
    r"|oneline|graph|all|branches|tags|remotes|cached|staged|color|no-color|decorate|no-decorate|pretty|format"
    r"|abbrev|abbrev-commit|no-abbrev-commit|author|committer|since|until|after|before|grep|no-merges|merges"
    r"|reverse|first-parent|follow|word-diff|unified|porcelain|short|long|branch|show-stash|untracked-files"
    r"|ignored|max-count|skip|date|patch|no-patch|raw|minimal|patience|histogram|diff-filter|find-renames"
    r"|ignore-all-space|ignore-space-change|ignore-blank-lines|check|exit-code|quiet|relative|topo-order"
    r"|date-order|left-right|cherry-pick|full-index|text|no-ext-diff|no-textconv|no-renames)(=.*)?"
)

_GIT_REV_PARSE = re.compile(
    r"--(show-toplevel|abbrev-ref|short|verify|git-dir|is-inside-work-tree|show-prefix|symbolic-full-name)"
)

_GIT: dict[str, tuple[re.Pattern[str], bool]] = {
    "status": (_GIT_SHOWS, True),
    "diff": (_GIT_SHOWS, True),
    "log": (_GIT_SHOWS, True),
    "show": (_GIT_SHOWS, True),
    "shortlog": (re.compile(r"-[sne]+|--all|--no-merges"), True),
    "blame": (re.compile(r"-[wlsetfncp]+|-L.*"), True),
    "ls-files": (
        re.compile(r"-[cdmosuztv]+|--(others|cached|modified|deleted|exclude-standard|stage)"),
        True,
    ),
    "ls-tree": (re.compile(r"-[drtlz]+|--name-only|--full-tree"), True),
    "describe": (re.compile(r"--(tags|always|all|long|abbrev=\d+)"), True),
    "rev-parse": (_GIT_REV_PARSE, True),
    "rev-list": (re.compile(r"--(count|all|left-right|no-merges|max-count=\d+)|-n|-\d+"), True),
    "merge-base": (re.compile(r"--all|--is-ancestor|--fork-point"), True),
    "cat-file": (re.compile(r"-[tspe]"), True),
    "branch": (re.compile(r"-[arv]+|--(list|all|remotes|show-current|verbose)"), False),
    "tag": (re.compile(r"-[ln]+|--list"), False),
    "remote": (re.compile(r"-v|--verbose"), False),
}
"""The options that a git command may have, and whether it may have other words too."""


def is_read_only(words: Words) -> bool:
    """Whether the command only reads."""
    name, rest = words[0], words[1:]
    if name in ANY_ARGUMENTS:
        return True
    if name not in _CHECKED or None in rest:
        return False
    return _CHECKED[name]([word for word in rest if word is not None])


def may_read(words: Words) -> Words:
    """The words of a read-only command that may name files."""
    return () if words[0] in _WITHOUT_FILES else words[1:]


_WITHOUT_FILES = word_set(": echo false nproc printf pwd seq sleep true type uname uptime which whoami")


def _only(options: re.Pattern[str], *, most: int | None = None) -> Callable[[list[str]], bool]:
    def check(words: list[str]) -> bool:
        named, others = _split(words)
        return all(options.fullmatch(word) for word in named) and (most is None or len(others) <= most)

    return check


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The options, and the other words; all words after `--` are others."""
    end = words.index("--") if "--" in words else len(words)
    options = [word for word in words[:end] if word.startswith("-") and word != "-"]
    return options, [word for word in words[:end] if word not in options] + words[end + 1 :]


def _git(words: list[str]) -> bool:
    if words[:1] == ["--no-pager"]:
        words = words[1:]
    if words[:2] == ["stash", "list"] or words[:2] == ["worktree", "list"] or words == ["--version"]:
        return len(words) <= 2
    if not words or words[0] not in _GIT:
        return False
    allowed, may_have_others = _GIT[words[0]]
    options, others = _split(words[1:])
    return all(allowed.fullmatch(option) for option in options) and (may_have_others or not others)


def _find(words: list[str]) -> bool:
    """The command after `-exec` is judged separately."""
    words = list(words)
    while "-exec" in words:
        start = words.index("-exec")
        ends = [position for position in range(start, len(words)) if words[position] in (";", "+")]
        if not ends:
            return False
        del words[start : ends[0] + 1]
    tests = [word for word in words if word.startswith(("-", "(", ")", "!", ","))]
    return all(word in _FIND or re.fullmatch(r"-\d+[a-zA-Z]?", word) for word in tests)


def _sed(words: list[str]) -> bool:
    is_print = len(words) >= 2 and words[0] == "-n" and _SED_SCRIPT.fullmatch(words[1]) is not None
    return is_print and not any(word.startswith("-") for word in words[2:])


_CHECKED: dict[str, Callable[[list[str]], bool]] = {
    **dict.fromkeys(VERSIONS, lambda words: words == ["--version"]),
    "command": lambda words: len(words) == 2 and words[0] in ("-v", "-V") and not words[1].startswith("-"),
    "date": lambda words: all(_DATE.fullmatch(word) for word in words),
    "file": _only(_FILE),
    "find": _find,
    "git": _git,
    "hostname": lambda words: not words,
    "printf": lambda words: bool(words) and not words[0].startswith("-"),
    "rg": _only(_RIPGREP),
    "sed": _sed,
    "sort": _only(_SORT),
    "test": lambda words: "-v" not in words and "-R" not in words,
    "tree": _only(_TREE),
    "uniq": _only(_UNIQ, most=1),
}

READ_ONLY = (ANY_ARGUMENTS | _CHECKED.keys()) - VERSIONS | {"git"}
"""Programs that may only read, some of them only with certain options."""


class Unwrapped(msgspec.Struct, frozen=True):
    commands: tuple[Command, ...] = ()
    scripts: tuple[str, ...] = ()
    problem: str = ""
    stands_in: bool = False
    """The inner command must be allowed instead: the wrapper itself does nothing."""


class _Options(msgspec.Struct, frozen=True):
    """Options that may precede the command that a program runs."""

    alone: str = ""
    """A regular expression."""
    with_value: tuple[str, ...] = ()
    operands: int = 0
    """The number of words between the options and the command."""


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
_UNKNOWN_INNER = "the program that it runs is known only at run time"


def unwrapped(command: Command) -> Unwrapped:
    """The commands and scripts that a command would run; empty for one that does its work itself."""
    first = command.words[0]
    assert first is not None
    name = first.rpartition("/")[2]
    inner = _unwrapped(name, command)
    # A program of that name in another folder is another program.
    is_usual = first in (name, f"/bin/{name}", f"/usr/bin/{name}")
    return inner if is_usual else msgspec.structs.replace(inner, stands_in=False)


def _unwrapped(name: str, command: Command) -> Unwrapped:
    if name == "command" and command.words[1:2] in (("-v",), ("-V",)):
        return Unwrapped()
    if name in _TRANSPARENT:
        return _behind_options(name, command, _TRANSPARENT[name])
    if name in _PRIVILEGED:
        inner = _behind_options(name, command, _PRIVILEGED[name])
        commands = tuple(msgspec.structs.replace(one, only_restricts=True) for one in inner.commands)
        return Unwrapped(commands, problem=inner.problem)
    if name in _SHELLS:
        return _with_its_variables(_shell(command.words[1:]), command)
    if name in _OTHER_SHELLS:
        return Unwrapped(problem="its language is not supported")
    if name == "eval":
        return _with_its_variables(_script(command.words[1:]), command)
    if name == "trap" and len(command.words) > 2 and command.words[1] != "-":
        return _script(command.words[1:2])
    if name == "find":
        return Unwrapped(_exec_commands(command))
    return Unwrapped()


def _with_its_variables(inner: Unwrapped, command: Command) -> Unwrapped:
    """A script whose variables are set cannot be allowed part by part: all that it runs inherits them."""
    return msgspec.structs.replace(inner, stands_in=inner.stands_in and not command.assignments)


def _behind_options(name: str, command: Command, options: _Options) -> Unwrapped:
    words = command.words
    position = 1
    assignments = [*command.assignments]
    while position < len(words):
        word = words[position]
        if word is None:
            return Unwrapped(problem=_UNKNOWN_INNER)
        if name in ("env", *_PRIVILEGED) and (assigned := re.fullmatch(r"(?s)(\w+)=.*", word)):
            if not is_plain_name(assigned[1]):
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
    first, inner = words[position], words[position:]
    if first is not None and not re.fullmatch(r"[\w./+@%-]+", first):
        return Unwrapped(problem=_UNKNOWN_INNER)
    if name == "xargs" and any(
        (word or "").startswith(("-I", "-i", "--replace")) for word in words[1:position]
    ):
        program = first if first and re.fullmatch(r"[\w./-]+", first) else None
        inner = (program, *[None] * len(inner))
    elif name == "xargs":
        inner = (*inner, None)
    run = Command(inner, command.source, tuple(assignments), command.only_restricts)
    return Unwrapped((run,), stands_in=name in _TRANSPARENT)


def _shell(words: Words) -> Unwrapped:
    position = 0
    while position < len(words):
        word = words[position]
        if word is None or word.startswith("--"):
            return Unwrapped(problem=_UNKNOWN_INNER)
        if not word.startswith(("-", "+")):
            return Unwrapped()  # a file with a script, which is not read here
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", word):
            return _script_behind(words[position + 1 :])
        if not re.fullmatch(r"[-+][euxlvnfi]+|[-+][oO]", word):
            return Unwrapped(problem=_UNKNOWN_INNER)
        position += 2 if word[1:] in ("o", "O") else 1
    return Unwrapped(problem="it runs what it reads from its input")


def _script_behind(words: Words) -> Unwrapped:
    """The first word that is not an option is the script; the others are its arguments."""
    for position, word in enumerate(words):
        if word is None:
            break
        if not word.startswith(("-", "+")):
            return _script(words[position : position + 1])
        if not re.fullmatch(r"[-+][euxlvf]+", word):
            break
    return Unwrapped(problem=_UNKNOWN_INNER)


def _script(words: Sequence[str | None]) -> Unwrapped:
    literal = [word for word in words if word is not None]
    if len(literal) < len(words):
        return Unwrapped(problem=_UNKNOWN_INNER)
    return Unwrapped(scripts=(" ".join(literal),), stands_in=True)


def _exec_commands(command: Command) -> tuple[Command, ...]:
    """The command after each `-exec` of find; a word with `{}` in it is unknown."""
    commands = []
    for position, word in enumerate(command.words):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            words = takewhile(lambda one: one not in (";", "+"), command.words[position + 1 :])
            inner = tuple(None if one is None or "{}" in one else one for one in words)
            if inner:
                commands.append(msgspec.structs.replace(command, words=inner))
    return tuple(commands)
