"""Commands that only look, whatever their arguments: a short list, and in doubt a command is not on it.

What counts are the options: many programs that read have one that writes or runs something. Where a program
has such options, only those named here are let through, spelled in full.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ostler.tools.shell_words import word_set

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
    "rev-parse": (
        re.compile(
            r"--(show-toplevel|abbrev-ref|short|verify|git-dir|is-inside-work-tree|show-prefix|symbolic-full-name)"
        ),
        True,
    ),
    "rev-list": (re.compile(r"--(count|all|left-right|no-merges|max-count=\d+)|-n|-\d+"), True),
    "merge-base": (re.compile(r"--all|--is-ancestor|--fork-point"), True),
    "cat-file": (re.compile(r"-[tspe]"), True),
    "branch": (re.compile(r"-[arv]+|--(list|all|remotes|show-current|verbose)"), False),
    "tag": (re.compile(r"-[ln]+|--list"), False),
    "remote": (re.compile(r"-v|--verbose"), False),
}
"""The options that a command of git may have, and whether it may have other words, too."""


def is_harmless(words: Words) -> bool:
    """Whether the command only looks."""
    name, rest = words[0], words[1:]
    if name in ANY_ARGUMENTS:
        return True
    if name not in _CHECKED or None in rest:
        return False
    return _CHECKED[name]([word for word in rest if word is not None])


def may_read(words: Words) -> Words:
    """The words of a harmless command that may name files."""
    return () if words[0] in _WITHOUT_FILES else words[1:]


_WITHOUT_FILES = word_set(": echo false nproc printf pwd seq sleep true type uname uptime which whoami")


def is_git(words: Words) -> bool:
    return words[0] == "git"


def _only(options: re.Pattern[str], *, most: int | None = None) -> Callable[[list[str]], bool]:
    def check(words: list[str]) -> bool:
        named, others = _split(words)
        return all(options.fullmatch(word) for word in named) and (most is None or len(others) <= most)

    return check


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Options, and the other words. All behind `--` are of the others."""
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
    """What stands behind `-exec` is judged as a command of its own."""
    rest = list(words)
    while "-exec" in rest:
        start = rest.index("-exec")
        ends = [position for position in range(start, len(rest)) if rest[position] in (";", "+")]
        if not ends:
            return False
        del rest[start : ends[0] + 1]
    tests = [word for word in rest if word.startswith(("-", "(", ")", "!", ","))]
    return all(word in _FIND or re.fullmatch(r"-\d+[a-zA-Z]?", word) for word in tests)


def _printf(words: list[str]) -> bool:
    return bool(words) and not words[0].startswith("-")


def _sed(words: list[str]) -> bool:
    return (
        len(words) >= 2 and words[0] == "-n" and bool(_SED_SCRIPT.fullmatch(words[1])) and _plain(words[2:])
    )


def _plain(words: list[str]) -> bool:
    return not any(word.startswith("-") for word in words)


def _version(words: list[str]) -> bool:
    return words == ["--version"]


def _hostname(words: list[str]) -> bool:
    return not words


def _command(words: list[str]) -> bool:
    return len(words) == 2 and words[0] in ("-v", "-V") and _plain(words[1:])


def _test(words: list[str]) -> bool:
    return "-v" not in words and "-R" not in words


def _date(words: list[str]) -> bool:
    return all(_DATE.fullmatch(word) for word in words)


_CHECKED: dict[str, Callable[[list[str]], bool]] = {
    **dict.fromkeys(VERSIONS, _version),
    "command": _command,
    "date": _date,
    "file": _only(_FILE),
    "find": _find,
    "git": _git,
    "hostname": _hostname,
    "printf": _printf,
    "rg": _only(_RIPGREP),
    "sed": _sed,
    "sort": _only(_SORT),
    "test": _test,
    "tree": _only(_TREE),
    "uniq": _only(_UNIQ, most=1),
}

LOOKING = (ANY_ARGUMENTS | _CHECKED.keys()) - VERSIONS | {"git"}
"""All that may be harmless, those that are only with some options included."""
