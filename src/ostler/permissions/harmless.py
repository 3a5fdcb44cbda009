"""Harmless commands: the listed programs, with the listed options only. They write nothing and run nothing.

Each line is taken from the program's manual. `-x` is an option, `-x=NUM` one with a value (attached, or the
next word), `-x[NUM]` and `--name[=WORD]` one whose value may be attached, `-NUM` a number. A value or an
operand FILE is read, so it is judged like a call of `read`. Every word that begins with a dash must be a listed
option, wherever it stands: so it does not matter which word a program takes for the value of another one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import msgspec

_SUMS = "-b -t -z --binary --text --tag --zero | FILE..."

_GREP = (
    "-a -b -c -E -F -G -P -h -H -i -I -l -L -n -o -q -r -R -s -T -U -v -w -x -y -z -Z -NUM -A=NUM -B=NUM -C=NUM "
    "-m=NUM -e=TEXT -f=FILE --after-context=NUM --basic-regexp --before-context=NUM --binary-files=TEXT "
    "--byte-offset --color[=TEXT] --colour[=TEXT] --context=NUM --count --dereference-recursive --exclude=TEXT "
    "--exclude-dir=TEXT --extended-regexp --file=FILE --files-with-matches --files-without-match "
    "--fixed-strings --ignore-case --include=TEXT --initial-tab --invert-match --line-buffered --line-number "
    "--line-regexp --max-count=NUM --no-filename --no-messages --null --null-data --only-matching "
    "--perl-regexp --quiet --recursive --regexp=TEXT --silent --text --with-filename --word-regexp "
    "| PATTERN FILE..."
)

PROGRAMS: dict[str, str] = {
    ":": "| ANY...",
    "basename": "-a -s=TEXT -z --multiple --suffix=TEXT --zero | TEXT...",
    "cat": "-A -b -e -E -n -s -t -T -u -v --number --number-nonblank --show-all --show-ends --show-nonprinting "
    "--show-tabs --squeeze-blank | FILE...",
    "cmp": "-b -l -s -i=NUM -n=NUM --bytes=NUM --ignore-initial=NUM --print-bytes --quiet --silent --verbose "
    "| FILE...",
    "comm": "-1 -2 -3 -i -z --check-order --nocheck-order --output-delimiter=TEXT --total --zero-terminated "
    "| FILE...",
    "command": "-v | TEXT",
    "cut": "-b=TEXT -c=TEXT -d=TEXT -f=TEXT -n -s -z --bytes=TEXT --characters=TEXT --complement "
    "--delimiter=TEXT --fields=TEXT --only-delimited --output-delimiter=TEXT --zero-terminated | FILE...",
    "date": "-u -R -I[TEXT] --date=TEXT --iso-8601[=TEXT] --rfc-3339=TEXT --rfc-email --universal --utc | +FORMAT",
    "df": "-a -h -H -i -k -l -P -T --all --human-readable --inodes --local --portability --print-type --si "
    "--total | FILE...",
    "diff": "-a -b -B -c -C=NUM -d -E -e -i -I=TEXT -L=TEXT -n -N -p -q -r -s -t -T -u -U=NUM -w -W=NUM -x=TEXT -y -Z "
    "--brief --color[=TEXT] --context[=NUM] --exclude=TEXT --expand-tabs --ignore-all-space "
    "--ignore-blank-lines --ignore-case --ignore-space-change --ignore-trailing-space --label=TEXT "
    "--left-column --minimal --new-file --no-dereference --normal --recursive --report-identical-files "
    "--show-c-function --side-by-side --strip-trailing-cr --suppress-common-lines --text --unified[=NUM] "
    "--width=NUM | FILE...",
    "dirname": "-z --zero | TEXT...",
    "du": "-0 -a -b -c -d=NUM -D -h -H -k -l -L -m -P -s -S -x --all --apparent-size --block-size=TEXT --bytes "
    "--count-links --dereference --exclude=TEXT --human-readable --inodes --max-depth=NUM --null "
    "--one-file-system --separate-dirs --si --summarize --time[=TEXT] --total | FILE...",
    "echo": "| ANY...",
    "egrep": _GREP,
    "expand": "-i -t=TEXT --initial --tabs=TEXT | FILE...",
    "false": "| ANY...",
    "fgrep": _GREP,
    "file": "-0 -b -h -i -k -L -N --brief --dereference --extension --keep-going --mime --mime-encoding --mime-type "
    "--no-dereference --no-pad --print0 | FILE...",
    "find": "-H -L -P -a -and -o -or -not -true -false -daystart -depth -empty -executable -follow -ls -mount "
    "-noleaf -print -print0 -prune -quit -readable -writable -xdev -name=TEXT -iname=TEXT -path=TEXT "
    "-ipath=TEXT -wholename=TEXT -regex=TEXT -iregex=TEXT -regextype=TEXT -lname=TEXT -ilname=TEXT "
    "-type=TEXT -xtype=TEXT -fstype=TEXT -user=TEXT -group=TEXT -printf=TEXT -perm=TEXT -size=NUM -mtime=NUM "
    "-mmin=NUM -atime=NUM -amin=NUM -ctime=NUM -cmin=NUM -used=NUM -uid=NUM -gid=NUM -inum=NUM -links=NUM "
    "-maxdepth=NUM -mindepth=NUM -newer=FILE -anewer=FILE -cnewer=FILE -samefile=FILE | FILE...",
    "fold": "-b -s -w=NUM --bytes --spaces --width=NUM | FILE...",
    "grep": _GREP,
    "head": "-c=NUM -n=NUM -q -v -z -NUM --bytes=NUM --lines=NUM --quiet --silent --verbose --zero-terminated "
    "| FILE...",
    "hostname": "-s |",
    "id": "-g -G -n -r -u -z --group --groups --name --real --user --zero | TEXT...",
    "join": "-1=NUM -2=NUM -a=NUM -e=TEXT -i -j=NUM -o=TEXT -t=TEXT -v=NUM -z --check-order --header --ignore-case "
    "--nocheck-order --zero-terminated | FILE...",
    "jq": "-a -c -C -e -j -M -n -r -R -s -S --ascii-output --color-output --compact-output --exit-status --indent=NUM "
    "--join-output --monochrome-output --null-input --raw-input --raw-output --slurp --sort-keys --stream "
    "--tab | FILTER FILE...",
    "ls": "-1 -a -A -b -B -c -C -d -f -F -g -G -h -H -i -k -l -L -m -n -N -o -p -q -Q -r -R -s -S -t -u -U -v -w=NUM -x -X "
    "-Z --all --almost-all --author --block-size=TEXT --classify[=TEXT] --color[=TEXT] --dereference "
    "--directory --escape --file-type --format=TEXT --full-time --group-directories-first --hide=TEXT "
    "--human-readable --hyperlink[=TEXT] --ignore=TEXT --ignore-backups --indicator-style=TEXT --inode "
    "--literal --no-group --numeric-uid-gid --quote-name --quoting-style=TEXT --recursive --reverse "
    "--show-control-chars --si --size --sort=TEXT --time=TEXT --time-style=TEXT --width=NUM --zero | FILE...",
    "md5sum": _SUMS,
    "nl": "-b=TEXT -d=TEXT -f=TEXT -h=TEXT -i=NUM -l=NUM -n=TEXT -p -s=TEXT -v=NUM -w=NUM --body-numbering=TEXT "
    "--number-format=TEXT --number-separator=TEXT --number-width=NUM --starting-line-number=NUM | FILE...",
    "nproc": "--all --ignore=NUM |",
    "od": "-a -A=TEXT -b -c -d -f -i -j=NUM -l -N=NUM -o -s -S=NUM -t=TEXT -v -w[NUM] -x --address-radix=TEXT "
    "--endian=TEXT --format=TEXT --output-duplicates --read-bytes=NUM --skip-bytes=NUM --strings[=NUM] "
    "--width[=NUM] | FILE...",
    "paste": "-d=TEXT -s -z --delimiters=TEXT --serial --zero-terminated | FILE...",
    "printf": "| FORMAT TEXT...",
    "pwd": "-L -P |",
    "readlink": "-e -f -m -n -q -s -v -z --canonicalize --canonicalize-existing --canonicalize-missing --no-newline "
    "--quiet --silent --verbose --zero | FILE...",
    "realpath": "-e -L -m -P -q -s -z --canonicalize-existing --canonicalize-missing --logical --no-symlinks --physical "
    "--quiet --relative-base=FILE --relative-to=FILE --strip --zero | FILE...",
    "rev": "| FILE...",
    "rg": "-a -b -c -F -H -i -I -l -L -n -N -o -p -P -q -s -S -u -U -v -w -x -0 -. -A=NUM -B=NUM -C=NUM -d=NUM -e=TEXT -f=FILE "
    "-g=TEXT -j=NUM -m=NUM -M=NUM -r=TEXT -t=TEXT -T=TEXT --after-context=NUM --before-context=NUM "
    "--byte-offset --case-sensitive --color=TEXT --column --context=NUM --count --count-matches "
    "--crlf --debug --engine=TEXT --file=FILE --files --files-with-matches --files-without-match "
    "--fixed-strings --follow --glob=TEXT --glob-case-insensitive --heading --hidden --iglob=TEXT "
    "--ignore-case --include-zero --invert-match --json --line-buffered --line-number --line-regexp "
    "--max-columns=NUM --max-count=NUM --max-depth=NUM --max-filesize=NUM --multiline --multiline-dotall "
    "--no-column --no-config --no-filename --no-heading --no-ignore --no-ignore-parent --no-ignore-vcs "
    "--no-line-number --no-messages --null --null-data --one-file-system --only-matching --passthru --pcre2 "
    "--pretty --quiet --regexp=TEXT --replace=TEXT --smart-case --sort=TEXT --sortr=TEXT --stats --text "
    "--threads=NUM --trim --type=TEXT --type-list --type-not=TEXT --unrestricted --vimgrep --with-filename "
    "--word-regexp | PATTERN FILE...",
    "sed": "-n -E -r | RANGE FILE...",
    "seq": "-w -s=TEXT --equal-width --separator=TEXT | NUMBER...",
    "sha1sum": _SUMS,
    "sha256sum": _SUMS,
    "sha512sum": _SUMS,
    "sleep": "| SECONDS",
    "sort": "-b -c -C -d -f -g -h -i -k=TEXT -m -M -n -r -R -s -t=TEXT -u -V -z --check[=TEXT] --debug "
    "--dictionary-order --field-separator=TEXT --general-numeric-sort --human-numeric-sort --ignore-case "
    "--ignore-leading-blanks --ignore-nonprinting --key=TEXT --merge --month-sort --numeric-sort "
    "--random-sort --reverse --sort=TEXT --stable --unique --version-sort --zero-terminated | FILE...",
    "stat": "-c=TEXT -f -L -t --dereference --file-system --format=TEXT --printf=TEXT --terse | FILE...",
    "tac": "-b -r -s=TEXT --before --regex --separator=TEXT | FILE...",
    "tail": "-c=NUM -n=NUM -q -v -z -NUM --bytes=NUM --lines=NUM --quiet --silent --verbose --zero-terminated "
    "| FILE...",
    "test": "| TEST",
    "tr": "-c -C -d -s -t --complement --delete --squeeze-repeats --truncate-set1 | TEXT...",
    "tree": "-a -A -C -d -D -f -F -g -h -i -I=TEXT -l -L=NUM -n -N -p -P=TEXT -q -Q -r -s -S -t -u -U -v -x -X -J --dirsfirst "
    "--du --filelimit=NUM --gitignore --ignore-case --inodes --matchdirs --noreport --prune --si --sort=TEXT "
    "--timefmt=TEXT | FILE...",
    "true": "| ANY...",
    "tsort": "| FILE...",
    "type": "| TEXT...",
    "uname": "-a -i -m -n -o -p -r -s -v --all --kernel-name --kernel-release --kernel-version --machine --nodename "
    "--operating-system --processor |",
    "unexpand": "-a -t=TEXT --all --first-only --tabs=TEXT | FILE...",
    "uniq": "-c -d -D -f=NUM -i -s=NUM -u -w=NUM -z --all-repeated[=TEXT] --check-chars=NUM --count --group[=TEXT] "
    "--ignore-case --repeated --skip-chars=NUM --skip-fields=NUM --unique --zero-terminated | FILE",
    "uptime": "-p -s --pretty --since |",
    "wc": "-c -l -L -m -w --bytes --chars --lines --max-line-length --words | FILE...",
    "which": "-a | TEXT...",
    "whoami": "|",
}
"""Options and operands. FILE is one file at most, FILE... any number; TEXT is not read."""

_DIFF = (
    "-a -b -p -R -s -u -w -W -z -C[NUM] -G=TEXT -M[NUM] -S=TEXT -U=NUM --abbrev[=NUM] --check --color[=TEXT] "
    "--color-words[=TEXT] --compact-summary --diff-algorithm=TEXT --diff-filter=TEXT --dirstat[=TEXT] "
    "--exit-code --find-copies[=TEXT] --find-renames[=TEXT] --full-index --function-context --histogram "
    "--ignore-all-space --ignore-blank-lines --ignore-space-at-eol --ignore-space-change "
    "--inter-hunk-context=NUM --minimal --name-only --name-status --no-color --no-ext-diff --no-patch "
    "--no-prefix --no-renames --no-textconv --numstat --patch --patch-with-stat --patience --pickaxe-all "
    "--pickaxe-regex --quiet --raw --relative[=TEXT] --shortstat --stat[=TEXT] --summary --text --unified=NUM "
    "--word-diff[=TEXT] --word-diff-regex=TEXT "
)
_LOG = _DIFF + (
    "-c -E -F -g -i -L=TEXT -m -n=NUM -NUM --abbrev-commit --after=TEXT --all --all-match --ancestry-path "
    "--author=TEXT --author-date-order --before=TEXT --boundary --branches[=TEXT] --cc --cherry --cherry-mark "
    "--cherry-pick --committer=TEXT --date=TEXT --date-order --decorate[=TEXT] --first-parent --follow "
    "--format=FORMAT --full-history --graph --grep=TEXT --invert-grep --left-only --left-right "
    "--max-count=NUM --merges --no-abbrev-commit --no-decorate --no-merges --oneline --pretty[=FORMAT] "
    "--remotes[=TEXT] --reverse --right-only --simplify-by-decoration --since=TEXT --skip=NUM --source "
    "--tags[=TEXT] --topo-order --until=TEXT --walk-reflogs | FILE..."
)

GIT: dict[str, str] = {
    "blame": "-b -c -C[NUM] -e -f -l -L=TEXT -M[NUM] -n -p -s -t -w --abbrev=NUM --date=TEXT --line-porcelain "
    "--porcelain --root --show-email --show-name --show-number --since=TEXT | FILE...",
    "branch": "-a -r -v --all --color[=TEXT] --list --no-color --remotes --show-current --sort=TEXT --verbose |",
    "cat-file": "-e -p -s -t | FILE...",
    "describe": "--abbrev=NUM --all --always --candidates=NUM --contains --exact-match --exclude=TEXT --first-parent "
    "--long --match=TEXT --tags | FILE...",
    "diff": _DIFF + "--cached --merge-base --staged | FILE...",
    "grep": "-a -A=NUM -B=NUM -c -C=NUM -e=TEXT -E -F -G -h -H -i -I -l -L -n -o -P -q -v -w -W -z --all-match --and --break "
    "--cached --color[=TEXT] --column --count --exclude-standard --extended-regexp --files-with-matches "
    "--files-without-match --fixed-strings --heading --ignore-case --invert-match --line-number "
    "--max-depth=NUM --name-only --no-color --not --null --only-matching --or --perl-regexp --quiet "
    "--show-function --text --untracked --word-regexp | PATTERN FILE...",
    "log": _LOG,
    "ls-files": "-c -d -f -i -k -m -o -s -t -u -v -x=TEXT -z --abbrev[=NUM] --cached --deduplicate --deleted --directory "
    "--error-unmatch --exclude=TEXT --exclude-standard --full-name --ignored --killed --modified "
    "--no-empty-directory --others --stage --unmerged | FILE...",
    "ls-tree": "-d -l -r -t -z --abbrev[=NUM] --full-name --full-tree --long --name-only --name-status --object-only "
    "| FILE...",
    "merge-base": "-a --all --fork-point --independent --is-ancestor --octopus | FILE...",
    "remote": "-v --verbose |",
    "rev-list": "-n=NUM -NUM --all --author=TEXT --before=TEXT --branches[=TEXT] --count --first-parent --grep=TEXT "
    "--left-right --max-count=NUM --merges --no-merges --reverse --since=TEXT --skip=NUM --tags[=TEXT] "
    "--until=TEXT | FILE...",
    "rev-parse": "-q --abbrev-ref[=TEXT] --absolute-git-dir --all --branches[=TEXT] --git-common-dir --git-dir "
    "--is-bare-repository --is-inside-git-dir --is-inside-work-tree --quiet --short[=NUM] --show-cdup "
    "--show-prefix --show-toplevel --symbolic --symbolic-full-name --tags[=TEXT] --verify | FILE...",
    "shortlog": "-c -e -n -s --all --committer --email --no-merges --numbered --since=TEXT --summary --until=TEXT "
    "| FILE...",
    "show": _LOG,
    "stash list": "|",
    "status": "-b -s -u[TEXT] -v -z --ahead-behind --branch --find-renames[=TEXT] --ignored[=TEXT] --long "
    "--no-ahead-behind --no-renames --porcelain[=TEXT] --renames --short --show-stash "
    "--untracked-files[=TEXT] --verbose | FILE...",
    "tag": "-l -n[NUM] --color[=TEXT] --list --sort=TEXT |",
    "worktree list": "-v -z --porcelain --verbose |",
}
"""The subcommands of git, in the repository of the working directory only."""

_IN_THE_SHELL = frozenset(": command echo false printf pwd test true type".split())
_GIT_FIRST = ("--no-pager", "--no-optional-locks")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?[A-Za-z]{0,4}")
_PRINTF = re.compile(r"(?:[^%]|%%|%[-+ #0]?\d{0,4}(?:\.\d{1,4})?[sdicuxXofFeEgG])*")
_SED = re.compile(r"(?:\d+|\$)(?:,(?:\d+|\$))?p(?:;(?:\d+|\$)(?:,(?:\d+|\$))?p)*")
_TESTED = frozenset("-e -f -d -s -r -w -x -L -h -z -n".split())
_JQ = re.compile(r"\b(?:import|include|env|ENV|modulemeta|get_search_list)\b")
_FIND_VALUE = re.compile(r"-[0-7]{1,4}|-[ugoa]*\+?=?[rwxst]+")


class Option(msgspec.Struct, frozen=True):
    """One option of a program."""

    value: str = ""
    """What its value is; empty if it has none."""
    optional: bool = False


class Program(msgspec.Struct, frozen=True):
    options: dict[str, Option]
    operands: str
    has_numbers: bool = False


class Harmless(msgspec.Struct, frozen=True):
    """A harmless command, and the words that name what it reads."""

    name: str
    """The program, for git with its subcommand."""
    paths: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()


class NotHarmless(msgspec.Struct, frozen=True):
    """Why a command is not harmless."""

    cause: str


@cache
def program_of(line: str) -> Program:
    """Parses a line of the tables."""
    listed, _, operands = line.partition("|")
    options: dict[str, Option] = {}
    has_numbers = False
    for word in listed.split():
        if word == "-NUM":
            has_numbers = True
        elif match := re.fullmatch(r"(-[^=\[]*)\[=?(\w+)\]", word):
            options[match[1]] = Option(match[2], optional=True)
        else:
            name, _, value = word.partition("=")
            options[name] = Option(value)
    return Program(options, operands.strip(), has_numbers)


def check_harmless(words: Sequence[str], globs: frozenset[int] = frozenset()) -> Harmless | NotHarmless:
    """Whether a command with these words writes nothing and runs nothing, whatever the files contain."""
    name, first = words[0], 1
    if name == "git":
        while words[first : first + 1] and words[first] in _GIT_FIRST:
            first += 1
        name, line = _git_line(words[first:])
        if not line:
            return NotHarmless(f"{name} is not listed")
        first += name.count(" ")
        if set(range(first)) & globs:
            return NotHarmless("git's subcommand is a pattern")
    elif name in PROGRAMS:
        line = PROGRAMS[name]
    else:
        return NotHarmless(f"the program {name} is not listed")
    if tuple(words[1:]) in (("--help",), ("--version",)) and name not in _IN_THE_SHELL:
        return Harmless(name)
    if name == "find":
        return _Find(words, globs).check()
    if name == "test":
        problem = "a pattern for files is no test" if globs else _test(words[1:])
        return NotHarmless(problem) if problem else Harmless(name)
    if name == "command" and words[1:2] != ("-v",):
        return NotHarmless("command runs the program that it names")
    return _Arguments(name, program_of(line), words, first, globs).check()


def _git_line(words: Sequence[str]) -> tuple[str, str]:
    """The subcommand and its line; an empty line if it is not listed."""
    for length in (2, 1):
        name = " ".join(words[:length])
        if len(words) >= length and name in GIT:
            return f"git {name}", GIT[name]
    if list(words) == ["--version"]:
        return "git --version", "|"
    return f"git {words[0]}" if words else "git", ""


def shadow_of(name: str, cwd: Path) -> str:
    """Why the name may not be the system's program; empty if it is, or if there is no such program.

    A folder of the project or of the user may hold another program of that name, or one that looks up in the
    project's files what to run, as version managers do.
    """
    name = name.partition(" ")[0]
    if name in _IN_THE_SHELL:
        return ""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if not folder.startswith("/"):
            return f"{name} may be found in {folder or 'the working directory'}, which PATH names"
        path = f"{folder}/{name}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            home = os.environ.get("HOME", "").rstrip("/")
            for private in filter(None, (str(cwd).rstrip("/") or "/", home)):
                if path.startswith(f"{private.rstrip('/')}/"):
                    return f"{path} is not a program of the system"
            return ""
    return ""


class _Arguments:
    """Reads the words of one command as its program would."""

    def __init__(
        self, name: str, program: Program, words: Sequence[str], first: int, globs: frozenset[int]
    ) -> None:
        self._name = name
        self._program = program
        self._words = words
        self._next = first
        self._globs = globs
        self._given: set[str] = set()
        self._paths: list[str] = []
        self._glob_paths: list[str] = []

    def check(self) -> Harmless | NotHarmless:
        if self._program.operands == "ANY...":
            self._glob_paths += [self._words[number] for number in sorted(self._globs)]
            return Harmless(self._name, (), tuple(self._glob_paths))
        operands: list[int] = []
        is_last = False
        while self._next < len(self._words):
            position, word = self._next, self._words[self._next]
            self._next += 1
            if word == "--":
                is_last = True
            elif word.startswith("-") and word != "-":
                if is_last or (problem := self._option(word)):
                    return NotHarmless(problem if not is_last else f"{word} begins with a dash; write ./{word}")
            else:
                operands.append(position)
        problem = self._operands(operands)
        if problem:
            return NotHarmless(problem)
        return Harmless(self._name, tuple(self._paths), tuple(self._glob_paths))

    def _option(self, word: str) -> str:
        """Why the option is not accepted; empty if it is."""
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            option = self._program.options.get(name)
            if option is None or (equals and not option.value):
                return self._unlisted(name)
            self._given.add(name)
            if not option.value or (option.optional and not equals):
                return ""
            return self._value(name, option, value) if equals else self._separate_value(name, option)
        if self._program.has_numbers and re.fullmatch(r"-\d+", word):
            return ""
        for position, letter in enumerate(word[1:], 1):
            option = self._program.options.get(f"-{letter}")
            if option is None:
                return self._unlisted(f"-{letter}")
            self._given.add(f"-{letter}")
            if not option.value:
                continue
            value = word[position + 1 :]
            if value:
                return self._value(f"-{letter}", option, value)
            return "" if option.optional else self._separate_value(f"-{letter}", option)
        return ""

    def _unlisted(self, option: str) -> str:
        return f"the option {option} of {self._name} is not listed"

    def _separate_value(self, name: str, option: Option) -> str:
        if self._next >= len(self._words):
            return f"the option {name} of {self._name} has no value"
        value = self._words[self._next]
        if self._next in self._globs:
            return f"the value of {name} is a pattern for files"
        self._next += 1
        if value.startswith("-") and not (option.value == "NUM" and _NUMBER.fullmatch(value)):
            return f"the value {value} of {name} begins with a dash"
        return self._value(name, option, value)

    def _value(self, name: str, option: Option, value: str) -> str:
        if option.value == "NUM" and not _NUMBER.fullmatch(value):
            return f"the value {value} of {name} is not a number"
        if option.value == "FORMAT" and "%G" in value:
            return "%G runs the program that checks signatures"
        if option.value == "FILE":
            self._paths.append(value)
        return ""

    def _operands(self, positions: list[int]) -> str:
        kind = self._program.operands
        words = [self._words[position] for position in positions]
        plus = next((word for word in words if word.startswith("+")), None)
        if plus is not None and kind not in ("+FORMAT", "TEXT...", "FORMAT TEXT..."):
            return f"{plus} begins with a plus sign"
        if kind in ("FILE...", "TEXT..."):
            return self._reads(positions, kind)
        first, _, others = kind.partition(" ")
        if others and not (first == "PATTERN" and self._given & _PATTERN_OPTIONS):
            if not positions:
                return f"{self._name} has no {first}"
            if positions[0] in self._globs:
                return f"{words[0]} is a pattern for files"
            if problem := _FIRST_OPERAND.get(first, _anything)(words[0]):
                return problem
            return self._reads(positions[1:], others)
        if others:
            return self._reads(positions, others)
        if set(positions) & self._globs:
            return f"{self._name} takes no pattern for files"
        if kind == "FILE":
            self._paths += words
        return _SHAPES[kind](words) if kind in _SHAPES else f"{self._name} takes no operands" if words else ""

    def _reads(self, positions: list[int], kind: str) -> str:
        for position in positions:
            word = self._words[position]
            if position in self._globs:
                self._glob_paths.append(word)
            elif kind == "FILE..." and word != "-":
                self._paths.append(word)
        return ""


_PATTERN_OPTIONS = frozenset({"-e", "-f", "--regexp", "--file", "--files", "--type-list"})


def _anything(word: str) -> str:
    return ""


def _accepts(pattern: re.Pattern[str], problem: str) -> Callable[[str], str]:
    return lambda word: "" if pattern.fullmatch(word) else f"{problem}: {word}"


_FIRST_OPERAND: dict[str, Callable[[str], str]] = {
    "FORMAT": _accepts(_PRINTF, "this format is not listed"),
    "RANGE": _accepts(_SED, "sed may only print lines by their numbers"),
    "FILTER": lambda word: f"the filter uses {match[0]}" if (match := _JQ.search(word)) else "",
}


def _at_most_one(words: list[str]) -> str:
    return f"only one operand is listed, not {words[1]}" if len(words) > 1 else ""


def _test(words: Sequence[str]) -> str:
    is_unary = len(words) == 2 and words[0] in _TESTED
    is_comparison = len(words) == 3 and words[1] in ("=", "!=")
    return "" if is_unary or is_comparison else "this test is not listed"


def _numbers(words: list[str]) -> str:
    is_short = 0 < len(words) <= 3 and all(re.fullmatch(r"\d{1,7}", word) for word in words)
    return "" if is_short else "only one to three whole numbers of up to seven digits are listed"


def _seconds(words: list[str]) -> str:
    is_short = len(words) == 1 and re.fullmatch(r"\d{1,2}(?:\.\d{1,3})?s?", words[0])
    return "" if is_short else "only one time of up to 99 seconds is listed"


def _date_format(words: list[str]) -> str:
    return _at_most_one(words) or ("" if not words or words[0].startswith("+") else f"{words[0]} sets the date")


_SHAPES: dict[str, Callable[[list[str]], str]] = {
    "FILE": _at_most_one,
    "TEXT": _at_most_one,
    "NUMBER...": _numbers,
    "SECONDS": _seconds,
    "+FORMAT": _date_format,
}


class _Find:
    """`find` has tests and actions instead of options, each a word of its own."""

    def __init__(self, words: Sequence[str], globs: frozenset[int]) -> None:
        self._words = words
        self._globs = globs

    def check(self) -> Harmless | NotHarmless:
        options = program_of(PROGRAMS["find"]).options
        paths: list[str] = []
        position, has_test = 1, False
        while position < len(self._words):
            word = self._words[position]
            if position in self._globs and has_test:
                return NotHarmless(f"{word} is a pattern for files")
            if word in ("(", ")", "!", ","):
                has_test = True
            elif not word.startswith("-"):
                if position not in self._globs:
                    paths.append(word)
            elif (option := options.get(word)) is None:
                return NotHarmless(f"{word} of find is not listed")
            else:
                has_test = has_test or word not in ("-H", "-L", "-P")
                if option.value:
                    position += 1
                    if problem := self._value(word, option, position):
                        return NotHarmless(problem)
                    if option.value == "FILE":
                        paths.append(self._words[position])
            position += 1
        return Harmless("find", tuple(paths), tuple(self._words[one] for one in sorted(self._globs)))

    def _value(self, name: str, option: Option, position: int) -> str:
        if position >= len(self._words):
            return f"{name} of find has no value"
        value = self._words[position]
        if position in self._globs:
            return f"the value of {name} is a pattern for files"
        if value.startswith("-") and not _NUMBER.fullmatch(value) and not _FIND_VALUE.fullmatch(value):
            return f"the value {value} of {name} begins with a dash"
        if option.value == "NUM" and not _NUMBER.fullmatch(value):
            return f"the value {value} of {name} is not a number"
        return ""
