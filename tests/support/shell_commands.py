"""Shell commands from a grammar with hostile constructs.

A listed program gets listed options and operands, and then, most of the time, something is inserted that
should make a person look at it.
"""

from __future__ import annotations

from random import Random

from ostler.permissions.harmless import Option, program_of
from ostler.permissions.harmless_programs import GIT, PROGRAMS

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

    def _option(self, name: str, option: Option, *, is_find: bool) -> str:
        random = self._random
        value, optional = option.value, option.optional
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
