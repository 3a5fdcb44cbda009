"""Commands from a grammar with hostile constructs, and their execution among tripwires.

A listed program gets listed options and operands, and then, most of the time, something is inserted that
should make a person look at it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec

from ostler.permissions.harmless import program_of
from ostler.permissions.harmless_programs import GIT, PROGRAMS
from ostler.permissions.plain_shell import word_set
from tests.support import needed

OPERANDS = (
    *(
        "a",
        "b",
        "p",
        "./a",
        "src/b",
        "c.txt",
        ".",
        "'a b'",
        '"a b"',
        "a\\ b",
        "/dev/null",
        "/etc/hostname",
        "~/x",
        "-",
    ),
    *(
        "a=b",
        "'é'",
        "./a*",
        "a?b",
        "src/*",
        "HEAD",
        "HEAD~1",
        "'HEAD^'",
        "touch",
        "'$x'",
        "'`p`'",
        "'a;p'",
        '"a|p"',
    ),
    *("'a\nb'", "'&'", '"a\\"b"', '"\\$x"', "'~'", "a:b", "a,b", "a+b", "a@b", "a%b", "1", "2", "''", '""'),
)
FILTERS = (
    "'.'",
    "'.a'",
    "'keys'",
    "'.[]|.b'",
    "'env'",
    "'$ENV.HOME'",
    "'import \"p\" as $p; .'",
    "'include \"p\"; .'",
)
FIRST = {
    "FORMAT": ("'%s\\n'", "'%d'", "%s", "'a%%b'", "%n", "'%s%n'", "'%(%s)T'", "'%b'", "-v", "'%5.3s'"),
    "RANGE": ("1,2p", "'3p'", "'$p'", "'1,$p'", "'w p'", "'e touch p'", "'s/a/touch p/e'", "'1e'", "p"),
    "FILTER": FILTERS,
    "PATTERN": ("a", "'a.*b'", '"a\\.b"', "'^a'", "-e", "--", "'-a'"),
}
NUMBERS = ("0", "1", "5", "10", "+3", "-2", "2k")
TEXTS = ("a", "'a b'", "'*.py'", '"%h"', "x,y", "1,2", "'%G?'", "%H", "--", "-o", "p", "never", "f")

TRIPWIRES = sorted(
    word_set(
        "a b c p x y PROGRAM touch sh tee rm mv cp ln dd mkdir chmod install xargs env awk perl python python3 "
        "ruby node ssh less more pager man gpg gpg2 pr gzip gunzip zcat bzip2 xz vi vim ed make sudo su nohup "
        "timeout setsid nice strace flock script unshare busybox time exec coproc if then evil src git-lfs ksh zsh"
    )
)

HOSTILE_ENDS = (
    *(
        "; touch p",
        " && touch p",
        " || touch p",
        " | tee p",
        " & touch p",
        "\ntouch p",
        "\r\ntouch p",
        " |& tee p",
    ),
    *(
        "; p",
        " | x",
        " > p",
        " >> p",
        " >| p",
        " &> p",
        " >& p",
        " &>> p",
        " <> p",
        " 2> p",
        " 12> p",
        ">p",
        "2>p",
        " >p a",
    ),
    *(
        " $(touch p)",
        " `touch p`",
        ' "$(touch p)"',
        ' "`touch p`"',
        " <(touch p)",
        " >(touch p)",
        " ${x:-$(touch p)}",
    ),
    *(
        " ${y:-<(touch p)}",
        " ${y:=$(touch p)}",
        " ${y:+$(touch p)}",
        " ${y:?$(touch p)}",
        " ${y@P}",
        " $((p[$(touch p)]))",
    ),
    *(
        " $'\\x3b'",
        " $x",
        " ${HOME}",
        " ~",
        " ~+",
        " ~p/x",
        " *",
        " -*",
        " [ab]",
        " {a,b}",
        " {1..3}",
        " a{b,c}",
        " !p",
        " !!",
    ),
    *(
        " # a",
        " #",
        " \\",
        "\\\ntouch p",
        " '",
        ' "',
        " \u00a0touch p",
        " \u2028touch p",
        "\x0btouch p",
        " é",
        " )",
        " (",
    ),
    *(
        " <<E\n$(touch p)\nE",
        " <<< $(touch p)",
        " {HOME}<a",
        " {HOME}>p",
        " 2>&1",
        " >&2",
        " 2>&-",
        " > /dev/null",
        " 1>&2-",
    ),
    *(
        " < /dev/null",
        " < a",
        " -- -o p",
        " --",
        " -",
        " -exec touch p ;",
        " -exec touch p \\;",
        " -exec sort + -o p {} \\;",
    ),
    *(
        " -ok touch p \\;",
        " -execdir touch p +",
        " -fprint p",
        " -fls p",
        " -delete",
        " -o p",
        " -op",
        " --output=p",
        " --outp=p",
    ),
    *(
        " --output p",
        " -T . -S 1",
        " --compress-program=touch",
        " --pre touch",
        " --pre=touch",
        " -e -- --pre touch .",
        " -z",
    ),
    *(
        " --hostname-bin=touch",
        " -i",
        " -i.bak",
        " -s 12:00",
        " -C",
        " -m p",
        " -f p",
        " -l",
        " -w",
        " --files0-from=p",
    ),
    *(
        " --ext-diff",
        " --textconv",
        " -O touch",
        " -Otouch",
        " --open-files-in-pager=touch",
        " --no-index /etc/hostname a",
    ),
    *(
        " --show-signature",
        " --format=%G?",
        " --pretty='%G?'",
        " -p",
        " --help",
        " --version",
        " -v HOME",
        " -v",
        " %n HOME",
    ),
    *(
        " -R -H . -o p",
        " --follow",
        " -F",
        " --retry",
        " @p",
        " ^a",
        " =p",
        " %1",
        " \\;",
        " \\(",
        " '!'",
        " ,",
        " +p",
    ),
)
HOSTILE_STARTS = (
    *(
        "x=1 ",
        "PATH=. ",
        "HOME=. ",
        "x=$ ",
        "x=$(touch p) ",
        "x=${y:-<(touch p)} ",
        "x=`touch p`;",
        "! ",
        "time ",
        "exec ",
    ),
    *(
        "exec -a p ",
        "command ",
        "builtin ",
        "eval ",
        "env ",
        "nohup ",
        "sudo ",
        "timeout 1 ",
        "xargs ",
        "nice ",
        "coproc ",
    ),
    *(
        "[ a > p ];",
        "[ a > ~/.bashrc ];",
        "[[ a ]] &&",
        "test -v 'a[$(touch p)]';",
        "if ",
        "while ",
        "for i in a; do ",
    ),
    *(
        "f() { touch p; }; f;",
        "ls() { touch p; };",
        "{ ",
        "(",
        "((",
        "alias ls=touch\n",
        "trap 'touch p' EXIT;",
        ". ./p;",
    ),
    *(
        "source p;",
        "read HOME <a;",
        "export HOME=p;",
        "unset HOME;",
        "printf -v HOME p;",
        "printf %n HOME;",
        "cd ~ &&",
    ),
    *(
        "cd - &&",
        "cd .. &&",
        "cd . &&",
        "cd a;",
        "pushd .;",
        "hash -p /bin/touch ls;",
        "enable -f p p;",
        "set -- -o p;",
    ),
    *(
        "shopt -s expand_aliases\n",
        "umask 0;",
        "declare HOME=p;",
        "let HOME=1;",
        "mapfile HOME <a;",
        "getopts a HOME;",
    ),
    *(
        "\\",
        "'",
        '"',
        "./",
        "~/",
        "/tmp/",
        "$x",
        "#\n",
        ";",
        "&&",
        "|",
        "\n",
        " ",
        "\t",
        "sh -c 'touch p';",
        "bash -c touch\\ p;",
    ),
    *(
        "sh -c 'x=$(touch p)' ;",
        "x=$ PROGRAM;",
        "> p ",
        "2>&1 ",
        "< a ",
        ":(){ :|:& };:\n",
        "{HOME}<a ",
        "a|",
        "p&",
    ),
)
JOINTS = (" | ", " && ", " || ", "; ", "\n", " |\n", " &&\n")


class CommandGrammar:
    """Commands, each of them determined by the seed and the commands before it."""

    def __init__(self, seed: int | str) -> None:
        self._random = Random(seed)
        self._programs = [*PROGRAMS, *(["git"] * 6)]

    def command(self) -> str:
        random = self._random
        text = self._simple()
        while random.random() < 0.3:
            text += random.choice(JOINTS) + self._simple()
        if random.random() < 0.12:
            text = f"cd {random.choice(('.', './', 'a', 'src', '..', '~', '/'))} && {text}"
        for _ in range(random.choice((0, 0, 0, 1, 1, 2))):
            text = self._made_hostile(text)
        return text

    def _made_hostile(self, text: str) -> str:
        random = self._random
        match random.randrange(5):
            case 0:
                return random.choice(HOSTILE_STARTS) + text
            case 1 | 2:
                return text + random.choice(HOSTILE_ENDS)
            case 3:
                place = random.randrange(len(text) + 1)
                return text[:place] + random.choice(HOSTILE_ENDS).strip(" ") + text[place:]
            case _:
                place = random.randrange(len(text))
                other = random.choice(" \t\n;|&<>()$`\\\"'*?[]{}~!#=%^-+,.:@aopex12\r\u00a0é")
                return text[:place] + other + text[place + random.randrange(2) :]

    def _simple(self) -> str:
        random = self._random
        name = random.choice(self._programs)
        line, words = PROGRAMS.get(name, ""), [name]
        if name == "git":
            subcommand = random.choice([*GIT])
            line = GIT[subcommand]
            words += (
                [random.choice(("--no-pager", "-c core.pager=touch", "-C ."))] * (random.random() < 0.1)
            ) + [subcommand]
        program = program_of(line)
        options = list(program.options.items())
        if name == "find":
            words += random.choices((".", "a", "./b"), k=random.randrange(2))
        for _ in range(random.randrange(4) if options else 0):
            words.append(self._option(*random.choice(options), is_find=name == "find"))
        if random.random() < 0.05:
            words.append("--")
        words += self._operands(program.operands) if name != "find" else []
        if random.random() < 0.1:
            words.append(random.choice(("2>&1", "> /dev/null", "2>/dev/null", "< /dev/null", ">&2", "< a")))
        return " ".join(words)

    def _option(self, name: str, option: object, *, is_find: bool) -> str:
        random = self._random
        value: str = getattr(option, "value", "")
        optional: bool = getattr(option, "optional", False)
        if not value or (optional and random.random() < 0.5):
            return name
        texts = NUMBERS if value == "NUM" else OPERANDS if value == "FILE" else TEXTS
        text = random.choice(texts)
        if is_find:
            return f"{name} {text}"
        if name.startswith("--"):
            return f"{name}{'=' if optional or random.random() < 0.6 else ' '}{text}"
        return f"{name}{text}" if optional or random.random() < 0.5 else f"{name} {text}"

    def _operands(self, kind: str) -> list[str]:
        random = self._random
        first, _, others = kind.partition(" ")
        if kind == "SECONDS":
            return [random.choice(("0", "0.01", "00"))]
        if kind == "NUMBER...":
            return random.choices(("1", "3", "7"), k=random.randrange(1, 4))
        if kind == "TEST":
            tests = (
                "-f a",
                "-e ./b",
                "-z ''",
                "a = b",
                "a != 'b c'",
                "-v a",
                "-v 'a[$(touch p)]'",
                "a -eq b",
                "-n",
            )
            return [random.choice(tests)]
        if kind == "+FORMAT":
            return [random.choice(("+%s", "'+%Y %m'", "", "0101", "+%n"))]
        words = [random.choice(FIRST[first])] if first in FIRST else []
        if kind.endswith("...") or others:
            words += random.choices(OPERANDS, k=random.choice((0, 1, 1, 2)))
        elif kind:
            words += random.choices(OPERANDS, k=random.choice((0, 1, 1, 1, 2)))
        return words


class Tripped(msgspec.Struct, frozen=True):
    """A command that ran or wrote something, and how that was noticed."""

    shell: str
    command: str
    notice: str


_DRIVER = """
for c do
    ( eval "$c"
      [ "$HOME" = "$SAFE_HOME" ] && [ "$PATH" = "$SAFE_PATH" ] && [ "$IFS" = "$SAFE_IFS" ] && [ -z "$x$y$p$a$b" ] ||
          echo "a variable changed" >> "$TRIPPED"
    ) < /dev/null > /dev/null 2>&1
done
"""
SHELLS = ("bash", "dash")


class Tripwires:
    """An empty working directory in a repository, a home, and programs that notice when they are run."""

    def __init__(self, root: Path) -> None:
        self.work, self.home = root / "work", root / "home"
        self._root, self._bin = root, root / "bin"
        self._log = root / "tripped"
        for folder in (self.work, self.home, root / "tmp", self._bin):
            folder.mkdir()
        for name in (".bashrc", ".profile", ".gitconfig"):
            (self.home / name).touch()
        (root / "a.txt").write_text("a\n")
        for name in TRIPWIRES:
            path = self._bin / name
            path.write_text(f'#!/bin/sh\necho "ran {name} $*" >> "$TRIPPED"\n')
            path.chmod(0o755)
        self._git("init", "-q")
        self._git("add", "a.txt")
        self._git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "first")
        if os.geteuid() == 0:
            for path in (root, *root.rglob("*")):
                if not path.is_relative_to(self._bin):
                    os.chown(path, 65534, 65534)

    def _git(self, *words: str) -> None:
        environment = {**os.environ, "HOME": str(self.home)}
        subprocess.run(["git", *words], cwd=self._root, check=True, env=environment, capture_output=True)

    def check(self, commands: Sequence[str]) -> list[Tripped]:
        """Runs the commands in each shell; what was noticed, by the command that caused it."""
        tripped: list[Tripped] = []
        for shell in SHELLS:
            if not self._run(shell, commands):
                continue
            for command in commands:
                if notice := self._run(shell, [command]):
                    tripped.append(Tripped(shell, command, notice))
        return tripped

    def _run(self, shell: str, commands: Sequence[str]) -> str:
        before = self._state()
        path = f"{self._bin}:/usr/bin:/bin"
        environment = {
            "HOME": str(self.home),
            "PATH": path,
            "TMPDIR": str(self._root / "tmp"),
            "LC_ALL": "C.UTF-8",
        }
        safe = {
            "SAFE_HOME": str(self.home),
            "SAFE_PATH": path,
            "SAFE_IFS": " \t\n",
            "TRIPPED": str(self._log),
        }
        unprivileged = (
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        )
        subprocess.run(
            [*unprivileged, f"/bin/{shell}", "-c", _DRIVER, shell, *commands],
            cwd=self.work,
            env=environment | safe,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=600,
            check=False,
        )
        notice = self._log.read_text() if self._log.exists() else ""
        self._log.unlink(missing_ok=True)
        after = self._state()
        if before != after:
            changed = sorted(str(path) for path in before.items() ^ after.items())
            notice += f"files changed: {changed[:3]}"
        return notice

    def _state(self) -> dict[str, tuple[int, int, int]]:
        """Size, mode and time of every file. git renews its index, and `sort` and `tac` use temporary files."""
        state = {}
        for folder, _, names in os.walk(self._root):
            if folder.startswith(str(self._bin)):
                continue
            for path in (folder, *(f"{folder}/{name}" for name in names)):
                status = os.lstat(path)
                is_expected = "/.git" in path or path == str(self._root / "tmp")
                state[path] = (
                    (0, 0, 0) if is_expected else (status.st_size, status.st_mode, status.st_mtime_ns)
                )
        return {path: one for path, one in state.items() if not re.search(r"/\.git/index(\.lock)?\Z", path)}


def need_shells() -> None:
    """Skips a test where the programs are missing that it needs to run commands among tripwires."""
    for name in ("bash", "dash", "git", *(["setpriv"] if os.geteuid() == 0 else [])):
        needed.program(name)


@contextmanager
def tripwires() -> Iterator[Tripwires]:
    """In a folder that every user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="tripwires-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        yield Tripwires(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def batches(commands: Sequence[str], size: int = 100) -> Iterator[Sequence[str]]:
    for start in range(0, len(commands), size):
        yield commands[start : start + size]
