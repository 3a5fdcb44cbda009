"""Verdicts on shell commands: plain ones part by part, all others as one text."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.permissions.judge import Judge, Judgement
from ostler.permissions.rules import PROFILES, Profile, Rule, Verdict, parse_rule


def rules(allow: str = "", ask: str = "", deny: str = "") -> list[Rule]:
    """`allow="bash(make); edit(src/**)"`"""
    texts = {"allow": allow, "ask": ask, "deny": deny}
    return [
        parse_rule(text.strip(), effect)  # type: ignore[arg-type]
        for effect, several in texts.items()
        for text in several.split("; ")
        if text.strip()
    ]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    subprocess.run(["git", "init", "-q", folder], check=True, capture_output=True)
    for name in ("src", "src/deep", "bare"):
        (folder / name).mkdir()
    (folder / "bare" / "HEAD").touch()
    (folder / "away").symlink_to("/")
    (folder / "src" / "up").symlink_to(folder / "bare")
    return folder


def bash(here: Path, command: str, profile: Profile = "ask", **texts: str) -> Judgement:
    return Judge(profile, rules(**texts), here).judge("bash", "execute", {"command": command})


HARMLESS = """
ls
ls -la src
ls -1 --color=never src/*
cat a.txt | head -n 5 | wc -l
head -5 a.txt
tail -n +3 a.txt
pwd && whoami
echo a 'b c' "d" --anything
grep -rn pattern src
grep -n "def \\|class " src/a.py
grep -rn --include="*.py" -e foo .
rg -n --hidden 'a b' src
rg --files -g '*.py'
find . -name '*.py' -type f -mtime -1
find . \\( -name a -o -name b \\) -not -path './c/*' -print
find src -maxdepth 2 -perm -u+x -size +10k
sort -u -k2 a.txt | uniq -c
sort -t, -k 2,2nr a.txt
cut -d: -f1 a.txt
tr a-z A-Z
sed -n '10,20p' src/a.py
sed -n '1p;$p' src/a.py
diff -u a b
cmp -s a b
comm -12 a b
stat -c %s a
du -sh .
df -h
file -b a.txt
date +%s
date -u
date --date=yesterday '+%Y %m'
seq 1 10
sleep 1
jq '.a | keys' a.json
jq -r '.[] | .name' a.json
printf '%s\\n' a b
printf '%5.2f %d%%\\n' 1.5 2
md5sum a
tree -L 2 -I node_modules
basename /a/b .txt
dirname a/b
realpath a
readlink -f a
which python3; command -v node; type ls
test -f a.txt && cat a.txt
test a = b || echo no
id -un
uname -a
nproc
true
false || :
ls --help
git status
git status --short && git diff --stat HEAD~1
git --no-pager log --oneline -5 -- src
git log -n 3 --format='%h %s' --author=ada
git show HEAD:src/a.py
git show HEAD^
git blame -L 1,5 a.py
git branch -a
git branch --show-current
git tag -l
git remote -v
git stash list
git worktree list
git rev-parse --abbrev-ref HEAD
git ls-files -m
git grep -n pattern src
git --version
cd src && git log
cd src && ls | head
ls 2>/dev/null || true
cat < a.txt
echo a 2>&1 >/dev/null
ls;
ls\t-l
ls src\\ b
"""

FAMILIES = {
    "expansions": """
x=${y:-<(touch p)}
x=${y:=<(touch p)}
x=${y:+<(touch p)}
x=${y:?<(touch p)}
x=${y#<(touch p)}
x=${y%<(touch p)}
x=${y/a/<(touch p)}
x=${y-$(touch p)}
echo ${y:-<(touch p)}
echo ${y@P}
echo ${!y}
echo "${y:-$(touch p)}"
ls ${x:-`touch p`}
ls $x
ls "$x"
ls $(touch p)
ls "$(touch p)"
ls `touch p`
ls "`touch p`"
ls <(touch p)
ls >(touch p)
ls $((p[$(touch p)]))
ls $[1+1]
ls $'\\x3b' touch p
ls $"a"
ls {a,b}
ls {1..9}
ls *
ls -*
ls *.py
ls [ab]
ls ~root
ls a=~/b
ls ~+
ls !(a)
ls @(a|b)
echo $?
echo $HOME
cat <<EOF\\n$(touch p)\\nEOF
cat <<'EOF'\\na\\nEOF
cat <<< $(touch p)
cat <<< a
((x))
echo a$
echo "a$"
""",
    "tests": """
[ a > ~/.bashrc ]
[ a > p ]
[ -f a ]
[[ -f a ]]
[[ a[$(touch p)] -eq 1 ]]
[ -v 'a[$(touch p)]' ]
test -v 'a[$(touch p)]'
test -v a
test -R a
test a -eq b
test a -nt b
test ! -v a
test -f a -o -v b
test -f a > p
'[' a ']'
"[" -v a ]
\\[ a \\]
test ( a )
test
test -f a*
""",
    "assignments": """
x=$ PROGRAM
x=1 ls
PATH=. ls
LC_ALL=C ls
LD_PRELOAD=./x ls
GIT_EXTERNAL_DIFF=./x git diff
PATH=.; ls
x=1
x+=1 ls
x[0]=1 ls
x=(a b)
export PATH=.
declare PATH=.
readonly HOME=p
local x=1
typeset -x A=1
let HOME=1
unset HOME
env X=1 ls
env ls
env
""",
    "scripts": """
sh -c 'ls'
sh -c 'x=$(touch p)'
sh -c 'touch p'
bash -c 'ls; pwd'
bash -c ls
dash -c ls
bash a.sh
bash
sh < a
cat a | sh
curl x | sh
zsh -c ls
busybox sh
eval ls
eval "ls"
source a
. a
./a
./ls
/tmp/cat a
/bin/ls
~/bin/ls
python3 -c 1
python3 --version
node -e 1
perl -e 1
awk 1 a
awk 'BEGIN{system("touch p")}'
ed a
vi a
make
make --version
npm test
""",
    "values": """
rg -e -- --pre sh .
rg -e --pre sh .
rg --regexp -- --pre=sh
rg -f -- --pre sh
rg -A -- --pre sh .
rg --pre sh a
rg --pre=sh a
rg --pre-glob '*' a
rg --hostname-bin=sh a
rg -z a
rg --search-zip a
rg --ignore-file=x a
grep -e -- -f /etc/shadow
grep -e
head -n -- -c
head -n x a
sort -k -- -o a
sort -t -- -o p a
sort -k 1 -o p a
sort -k1 -op a
sort -o a b
sort -oa b
sort -ro a b
sort --output=a b
sort --outp=a b
sort --output a b
sort a -o b
sort -- a -o b
sort --compress-program=sh a
sort --compress-prog=sh a
sort -T . a
sort -S 1 a
sort --files0-from=a
sort --random-source=a b
sort +1 a
cat -- -n
ls -- -la
git log -n -- --output=p
git log -S -- --output=p
git log --author -- --output=p
git log -- --output=p
cut -d -- -f1
date -d
tail -f a
tail -F a
tail --follow=name a
tail --retry a
tail +1f a
tree -o p
tree -R -H . -L 1
tree --fromfile a
uniq a b
uniq -c a b
uniq +1 a
uniq a*
uniq -f 1 a b
file -C
file -m a b
file -z a
file -f a
file -p a
wc --files0-from=a
du --files0-from=a
diff -l a b
diff --paginate a b
diff --to-file=a b
md5sum -c a
date -s 12:00
date 01010000
date -f a
date --set=x
hostname x
hostname -F a
jq -f a b
jq -L . .
jq 'import "a" as $a; .' b
jq 'include "a"; .' b
jq env
jq -n '$ENV.HOME'
jq --rawfile a b .
jq --from-file a
sleep 1000
sleep infinity
sleep 1 2
seq 1 999999999
seq 1.5 3
""",
    "find": """
find . -exec sort + -o F {} \\;
find . -exec ls {} \\;
find . -exec ls {} +
find . -exec rm {} \\;
find . -execdir ls {} +
find . -ok rm {} \\;
find . -okdir rm {} \\;
find . -delete
find . -fprint p
find . -fprint0 p
find . -fprintf p %p
find . -fls p
find . -files0-from a
find . -name -delete
find . -name -exec -delete
find . -newer -delete
find . -regextype -delete
find . -name
find . -name a*
find . -size -delete
find . -maxdepth x
find . $x
find . \\( -delete \\)
find . -type f -o -delete
find . -newermt x
find . -D exec
find . -O3
xargs cat < a
ls | xargs cat
ls | xargs -I{} sh -c 'cat {}'
ls | parallel cat
""",
    "variables": """
printf %n HOME
printf '%s%n' a HOME
printf '%5n' HOME
printf '%1$n' HOME
printf '%ln' HOME
printf -v HOME a
printf -vHOME a
printf -- -v HOME
printf '%(%s)T'
printf '%b' 'a\\c'
printf '%q' a
printf '%*d' 1 2
printf a* b
printf
{HOME}<a ls
ls {HOME}<a
ls {HOME}>p
read HOME
read HOME < a
read -r HOME < a; cat ~/x
mapfile HOME < a
readarray HOME < a
getopts a HOME
wait -p HOME
cd -P . && ls
cd - && ls
cd
cd ~
cd / && ls
cd away && git status
cd bare && git log
cd ..; ls
cd src; ls
cd src || ls
cd src | ls
cd src && cd .. && ls a
cd src && ls a; ls b
pushd src
popd
set -- -o p
shift
shopt -s extglob
umask 0
ulimit -n 1
hash -p ./x ls
enable -f ./x ls
alias ls='touch p'
alias ls=p\\nls
trap 'touch p' EXIT
bind x
complete -C p ls
""",
    "execution": """
exec -a p touch
exec ls
exec -a ls touch p
exec 3> p
command ls
command -p ls
command -V ls
command -v -p ls
builtin cd x
nohup ls
nice ls
time ls
timeout 5 ls
stdbuf -oL ls
setsid ls
flock a ls
strace ls
unshare ls
script -c ls
su -c ls
sudo ls
doas ls
ssh host ls
watch ls
chroot . ls
ionice ls
taskset 1 ls
coproc ls
! ls
(ls)
{ ls; }
if ls; then ls; fi
while ls; do ls; done
for i in a; do ls; done
case a in a) ls;; esac
select i in a; do ls; done
f() { touch p; }; f
function f { ls; }
ls() { touch p; }; ls
""",
    "bombs and background": """
:(){ :|:& };:
bomb() { bomb | bomb & }; bomb
ls &
ls & touch p
ls &
ls |& cat
ls &> p
ls &>> p
ls >& p
ls >| p
ls <> p
ls 12> p
ls>p
ls 2>p a
ls > p a
> p
>p ls
ls > /dev/stderr
ls > /dev/fd/2
ls > /proc/self/fd/1
cat a 2< b > /dev/stderr
cat < /dev/tcp/h/80
cat /dev/fd/3
cat /proc/self/environ
cat /dev/stdin
echo a > f
echo a >> src/f
ls 2> f
ls # a
ls #
# a
ls\\\\\\nrm a
ls 'a
ls "a
ls && && ls
ls &&
ls ;; ls
; ls
ls \u00a0a
ls\u00a0a
ls\u2003a
ls \x1b[2K
ls \\r
ls \u200b
ls é
ls '\u202e'
""",
    "git": """
git push
git commit -m x
git -c core.pager=./x log
git -c core.fsmonitor=./x status
git -C bare log
git -C . log
git --git-dir=x log
git --exec-path=. log
git --config-env=a=b log
git -p log
git log --output=x
git log --outp=x
git log --show-signature
git log --format=%G
git log --pretty='a%GK'
git log --ext-diff -p
git diff --ext-diff
git diff --textconv
git diff --no-index a b
git diff -O x
git diff --submodule=diff
git branch new
git branch -D main
git branch -m a b
git branch --edit-description
git tag v1
git tag -d v1
git stash
git stash pop
git stash show -p
git grep -O./x y
git grep --open-files-in-pager=./x y
git grep -nO y
git remote add a b
git remote show origin
git remote update
git fetch
git fetch --upload-pack=./x
git ls-remote .
git archive HEAD
git bisect run ./x
git difftool
git help log
git status --help
git config -l
git config x y
git worktree add x
git cat-file --textconv HEAD:a
git cat-file --batch
git rev-parse --parseopt
git blame --contents=x a
git shortlog --output=x
git x
git
git --no-pager
git log a*b --output=x
""",
}


def lines(text: str) -> list[str]:
    """The commands of a list, one in each line, with `\\n` and `\\r` for line ends."""
    return [line.replace("\\n", "\n").replace("\\r", "\r") for line in text.strip("\n").split("\n")]


def unescaped(text: str) -> list[str]:
    return text.strip("\n").split("\n")


HOSTILE = [(family, command) for family, text in FAMILIES.items() for command in lines(text)]


@pytest.mark.parametrize("command", unescaped(HARMLESS))
def test_harmless_commands_run_without_a_question(here: Path, command: str) -> None:
    judged = bash(here, command)
    assert judged.verdict == "allow", (judged.reason, [one.cause for one in judged.findings])
    assert judged.is_harmless
    assert bash(here, command, "edit").is_harmless
    assert bash(here, command, "read-only").verdict == "refuse", "which refuses all commands"
    assert not bash(here, command, "full").is_harmless, "which allows it whatever it is"


@pytest.mark.parametrize(("family", "command"), HOSTILE)
def test_all_other_commands_are_asked_about(here: Path, family: str, command: str) -> None:
    judged = bash(here, command)
    assert judged.verdict == "ask", family
    assert judged.reason
    assert not judged.is_harmless
    assert not bash(here, command, "edit").is_harmless
    assert bash(here, command, "read-only").verdict == "refuse"
    assert bash(here, command, "full").verdict == "allow"


def test_the_lists_of_commands_are_long() -> None:
    assert len(HOSTILE) > 350
    assert len(unescaped(HARMLESS)) > 70


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        ("ls && sort -o a b", "the option -o of sort is not listed"),
        ("make all", "the program make is not listed"),
        ("rg -e -- --pre sh .", "the value -- of -e begins with a dash"),
        ("find . -exec ls {} +", ""),
        ("find . -delete", "-delete of find is not listed"),
        ("git push", "git push is not listed"),
        ("ls $(rm a)", "$ expands to something that is known only at run time"),
        ("printf %n HOME", "this format is not listed: %n"),
        ("alias x=y; ls", "alias may change what the other words mean"),
        ("cd src; ls a", "it is uncertain which folder it runs in"),
    ],
)
def test_the_cause_of_a_question_is_named(here: Path, command: str, cause: str) -> None:
    judged = bash(here, command)
    assert judged.verdict == "ask"
    if cause:
        assert cause in [one.cause for one in judged.findings]


@pytest.mark.parametrize(
    "command",
    [
        "rm a",
        "ls; rm a",
        "ls && rm a",
        "ls | rm a",
        "ls || rm a",
        "ls\nrm a",
        "'rm' a",
        'r"m" a',
        "/bin/rm a",
        "rm a > b",
    ],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_plain_command_that_is_denied_is_refused(here: Path, command: str, profile: Profile) -> None:
    assert bash(here, command, profile, deny="bash(rm)").verdict == "refuse"
    assert bash(here, command, profile, deny="bash(rm)", allow="bash").verdict == "refuse"


@pytest.mark.parametrize(
    "command",
    [
        *(
            "ls $(rm a)",
            "echo `rm a`",
            "x=$(rm a)",
            "(ls; rm a)",
            "{ rm a; }",
            "if ls; then rm a; fi",
            "rm a &",
            "X=1 rm a",
        ),
        *(
            "f() { rm a; }; f",
            "cat <<EOF\n$(rm a)\nEOF",
            "r'm' $x",
            "r\\m $x",
            "$x; rm",
            "rm *",
            "rm ~root/a",
            "ls # rm",
        ),
        *(
            "timeout 5 rm a",
            "sudo rm a",
            "env rm a",
            "nice rm a",
            "nohup rm a",
            "xargs rm",
            "bash -c 'rm a'",
            "eval 'rm a'",
        ),
        *(
            "flock a rm b",
            "strace rm a",
            "unshare rm a",
            "script -c 'rm a'",
            "su -c 'rm a'",
            "busybox rm a",
            "ssh h rm a",
        ),
        *(
            "find . -exec rm {} \\;",
            "git -c alias.x='!rm a' x",
            "python3 -c 'import os'",
            "perl -e 1",
            "exec rm a",
            ". a",
        ),
        *(
            "/usr/bin/timeout 5 x",
            "watch x",
            "setsid x",
            "awk 1",
            "npx x",
            "doas x",
            "for i in *; do timeout 1 $i; done",
        ),
    ],
)
@pytest.mark.parametrize("profile", ("ask", "edit", "full"))
def test_what_may_hide_a_denied_command_is_asked_about(here: Path, command: str, profile: Profile) -> None:
    assert bash(here, command, profile, deny="bash(rm)").verdict == "ask"
    assert bash(here, command, profile, deny="bash(rm)", allow="bash").verdict == "ask"


def test_everything_else_is_decided_by_the_profile_while_a_deny_rule_exists(here: Path) -> None:
    for command in (
        "echo $x",
        "for i in a; do form $i; done",
        "make",
        "python3 a.py",
        "git commit -m 'x $y'",
        "a && b &",
    ):
        assert bash(here, command, "full", deny="bash(rm)").verdict == "allow", command
        assert bash(here, command, "ask", deny="bash(rm)").verdict == "ask", command


def test_files_that_are_denied_are_looked_for_in_commands_that_are_not_plain(here: Path) -> None:
    for command in ("cat $(echo .env)", "x=.env; cat $x", "cat ./'.env' $y", "echo a > .env &"):
        assert bash(here, command, "full", deny="read(.env)").verdict == "ask", command
        assert bash(here, command, "full", deny="edit(.env)").verdict == "ask", command
    assert bash(here, "echo $x", "full", deny="read(.env)").verdict == "allow"
    assert bash(here, "cat ~/.ssh/id", "full", deny="read(~/.ssh/**)").verdict == "refuse", "it is plain"


@pytest.mark.parametrize(
    ("command", "texts", "verdict"),
    [
        ("make test", {"allow": "bash(make)"}, "allow"),
        ("make test && make install", {"allow": "bash(make)"}, "allow"),
        ("make test && rm x", {"allow": "bash(make)"}, "ask"),
        ("make test | tee log", {"allow": "bash(make)"}, "ask"),
        ("make test | grep x", {"allow": "bash(make)"}, "allow"),
        ("make 'a b'", {"allow": "bash(make)"}, "allow"),
        ("make a*", {"allow": "bash(make)"}, "allow"),
        ("make a*", {"allow": "bash(=make a*)"}, "allow"),
        ("make 'a*'", {"allow": "bash(=make 'a[*]')"}, "allow"),
        ("make a*", {"allow": "bash(=make 'a[*]')"}, "ask"),
        ("make $(rm x)", {"allow": "bash(make)"}, "ask"),
        ("make $x", {"allow": "bash(make)"}, "ask"),
        ("make &", {"allow": "bash(make)"}, "ask"),
        ("(make)", {"allow": "bash(make)"}, "ask"),
        ("make $x", {"allow": "bash(=make $x)"}, "allow"),
        ("make $x ", {"allow": "bash(=make $x)"}, "allow"),
        ("make $x; rm a", {"allow": "bash(=make $x)"}, "ask"),
        ("make $x", {"allow": "bash=(make $x)"}, "allow"),
        ("make  $x", {"allow": "bash=(make $x)"}, "ask"),
        ("make a*", {"allow": "bash=(make a*)"}, "allow"),
        ("make abc", {"allow": "bash=(make a*)"}, "ask"),
        ("make test", {"allow": "bash+(make test)"}, "allow"),
        ("make test all", {"allow": "bash+(make test)"}, "allow"),
        ("make test SHELL=./x", {"allow": "bash+(make test)"}, "ask"),
        ("make test -f x", {"allow": "bash+(make test)"}, "ask"),
        ("make test a*", {"allow": "bash+(make test)"}, "ask"),
        ("git fetch --upload-pack=./x", {"allow": "bash+(git fetch)"}, "ask"),
        ("git fetch origin", {"allow": "bash+(git fetch)"}, "allow"),
        ("make > log", {"allow": "bash(make)"}, "ask"),
        ("make > log", {"allow": "bash(make); edit(*.txt)"}, "ask"),
        ("make > log", {"allow": "bash(make); write(log)"}, "allow"),
        ("make > src/../../log", {"allow": "bash(make); edit(src/**)"}, "ask"),
        ("cd src && make > log", {"allow": "bash(make); edit(src/**)"}, "allow"),
        ("cd src; make > log", {"allow": "bash(make); edit(src/**)"}, "ask"),
        ("cd src/up/.. && make > log", {"allow": "bash(make); edit(src/**)"}, "ask"),
        ("cd /tmp && make", {"allow": "bash(make)"}, "ask"),
        ("X=1 make", {"allow": "bash(make)"}, "ask"),
        ("X=1 make", {"allow": "bash(X=1 make)"}, "ask"),
        ("X=1 make", {"allow": "bash(=X=1 make)"}, "allow"),
        ("sudo make", {"allow": "bash(make)"}, "ask"),
        ("sudo make", {"allow": "bash(sudo make)"}, "allow"),
        ("sudo make", {"allow": "bash(sudo)", "deny": "bash(rm)"}, "ask"),
        ("timeout 5 make", {"allow": "bash(make)"}, "ask"),
        ("timeout 5 make", {"allow": "bash(timeout 5 make)"}, "allow"),
        ("bash -c 'make; ls'", {"allow": "bash(make)"}, "ask"),
        ("bash x.sh", {"allow": "bash(bash x.sh)"}, "allow"),
        ("source x && make", {"allow": "bash(source x); bash(make)"}, "allow"),
        ("source x && make && ls", {"allow": "bash(source x); bash(make)"}, "ask"),
        ("git push -f", {"allow": "bash(git)", "deny": "bash(git push)"}, "refuse"),
        ("git -C . push", {"allow": "bash(git)", "deny": "bash(git push)"}, "ask"),
        ("git $x", {"allow": "bash(git)", "deny": "bash(git push)"}, "ask"),
        ("git fetch", {"allow": "bash(git)", "deny": "bash(git push)"}, "allow"),
        ("git status", {"ask": "bash(git)"}, "ask"),
        ("git status", {"ask": "bash(git)", "allow": "bash(git status)"}, "ask"),
        ("git $x", {"ask": "bash(git)", "allow": "bash"}, "ask"),
        ("gitx $x", {"ask": "bash(git)", "allow": "bash"}, "allow"),
        ("ls", {"deny": "bash"}, "refuse"),
        ("ls", {"deny": "*"}, "refuse"),
        ("ls", {"deny": "execute"}, "refuse"),
        ("", {"deny": "bash"}, "refuse"),
        ("", {"ask": "bash"}, "ask"),
        ("", {}, "allow"),
        ("anything $x", {"allow": "bash"}, "allow"),
        ("anything $x > f", {"allow": "bash"}, "allow"),
        ("anything $x", {"allow": "bash", "deny": "bash(rm)"}, "allow"),
        ("rm $x", {"allow": "bash", "deny": "bash(=rm $x)"}, "refuse"),
        ("echo x > .env", {"allow": "bash", "deny": "edit(.env)"}, "refuse"),
        ("cat .env", {"deny": "read(.env)"}, "refuse"),
        ("cat .env", {"deny": "read(.env)", "allow": "bash(cat)"}, "refuse"),
        ("cat < .env", {"deny": "read(.env)"}, "refuse"),
        ("grep x src/../.env", {"deny": "read(.env)"}, "refuse"),
        ("grep -f .env x", {"deny": "read(.env)"}, "refuse"),
        ("grep --file=.env x", {"deny": "read(.env)"}, "refuse"),
        ("grep .env x", {"deny": "read(.env)"}, "allow"),
        ("cat .e*", {"deny": "read(.env)"}, "ask"),
        ("cat $x", {"deny": "read(.env)"}, "ask"),
        ("cd src && cat ../.env", {"deny": "read(./.env)"}, "refuse"),
        ("echo .env", {"deny": "read(.env)"}, "allow"),
        ("test -f x", {"deny": "bash(test)"}, "refuse"),
    ],
)
def test_rules_judge_each_part(here: Path, command: str, texts: dict[str, str], verdict: Verdict) -> None:
    assert bash(here, command, **texts).verdict == verdict


def test_rules_widen_and_narrow_every_profile(here: Path) -> None:
    assert bash(here, "make", "read-only", allow="bash(make)").verdict == "allow"
    assert bash(here, "make | head", "read-only", allow="bash(make)").verdict == "refuse"
    assert bash(here, "make $x", "read-only", allow="bash").verdict == "allow"
    assert bash(here, "make", "read-only", ask="bash(make)").verdict == "ask"
    assert bash(here, "make; rm x", "read-only", ask="bash(make)").verdict == "refuse"
    assert bash(here, "make", "full", ask="bash(make)").verdict == "ask"
    assert bash(here, "make '", "full", deny="bash(make)").verdict == "ask", "it may hide what is denied"


def test_a_rule_for_a_listed_program_allows_its_listed_options_only(here: Path) -> None:
    def verdict(command: str, rule: str, **texts: str) -> Verdict:
        return bash(here, command, "read-only", allow=rule, **texts).verdict

    assert verdict("ls -la src", "bash~(ls)") == "allow"
    assert verdict("sort a", "bash~(sort)") == "allow"
    assert verdict("sort -o b a", "bash~(sort)") == "refuse"
    assert verdict("git log -3", "bash~(git log)") == "allow"
    assert verdict("git log --output=x", "bash~(git log)") == "refuse"
    assert verdict("git push", "bash~(git log)") == "refuse"
    assert verdict("ls; make", "bash~(ls)") == "refuse"
    assert verdict("cat .env", "bash~(cat)", deny="read(.env)") == "refuse"
    assert not bash(here, "ls", "read-only", allow="bash~(ls)").is_harmless, "a rule allows it"


def test_a_command_that_is_allowed_by_a_rule_or_writes_is_not_called_harmless(here: Path) -> None:
    assert bash(here, "ls | cat").is_harmless
    assert not bash(here, "ls | cat", allow="bash(cat)").is_harmless
    assert not bash(here, "ls", allow="bash").is_harmless
    written = bash(here, "ls > src/a", "edit")
    assert written.verdict == "allow" and not written.is_harmless
    assert bash(here, "").is_harmless


def test_other_tools_that_run_commands_are_asked_about(here: Path) -> None:
    judged = Judge("edit", (), here).judge("remote_shell", "execute", {"command": "ls"})
    assert judged.verdict == "ask"


def test_a_refusal_names_the_rule_and_a_question_the_part(here: Path) -> None:
    refused = bash(here, "ls && git push origin", deny="bash(git push)")
    assert refused.reason == "the rule deny bash(git push) forbids this: git push origin; work without it"
    judgement = bash(here, "ls && make && ls")
    assert [finding.part for finding in judgement.findings] == ["make"]
    assert not judgement.is_whole
    judgement = bash(here, "ls $(make)")
    assert [finding.part for finding in judgement.findings] == ["$(make)"]
    assert not judgement.is_whole


def test_a_program_that_the_project_brings_along_is_not_harmless(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shims = here / "node_modules" / ".bin"
    shims.mkdir(parents=True)
    (shims / "ls").write_text("#!/bin/sh\n")
    (shims / "ls").chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}:/usr/bin:/bin")
    judged = bash(here, "ls")
    assert judged.verdict == "ask" and "is not a program of the system" in judged.findings[0].cause
    assert bash(here, "cat a").is_harmless
    assert bash(here, "ls", allow="bash~(ls)").verdict == "allow", "a person may say so"
    for path in ("", ".", "bin", "/usr/bin:.:"):
        monkeypatch.setenv("PATH", f"{path}:/usr/bin" if path != "/usr/bin:.:" else path)
        assert bash(here, "ls").is_harmless == (path == "/usr/bin:.:"), path
    home = tmp_path / "home"
    (home / "shims").mkdir(parents=True)
    (home / "shims" / "jq").write_text("#!/bin/sh\n")
    (home / "shims" / "jq").chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home}/shims:/usr/bin:/bin")
    assert bash(here, "jq . a").verdict == "ask", "version managers look up in the project what to run"


def test_a_pattern_for_files_stands_for_the_files_that_are_there(here: Path, tmp_path: Path) -> None:
    (here / "linked").symlink_to("/etc/hostname")
    assert bash(here, "cat link*").is_harmless == bash(here, "cat linked").is_harmless
    assert bash(here, "cat link*", deny="read(/etc/**)").verdict == "refuse"
    assert bash(here, "ls a*/*/*/*").verdict == "ask", "that may be very many"


def test_cd_is_followed_only_where_all_depends_on_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (
        "cd src && ls",
        "cd src && ls | cat && pwd",
        "cd ./src",
        f"cd {here}/src && ls",
        "cd src/deep/.. && ls",
    ):
        assert bash(here, command).is_harmless, command
    monkeypatch.setenv("CDPATH", "/")
    assert bash(here, "cd src && ls").verdict == "ask"


UNKNOWN = st.sampled_from(
    [
        "rm a",
        "./x",
        "$y",
        "python3 -c 1",
        "git push",
        "sudo ls",
        "PATH=. ls",
        "sort -o a b",
        "eval $z",
        "a 'b",
    ]
)
KNOWN = st.sampled_from(["ls", "git status", "make all", "cat a | head", "echo x", "test -f a", "true"])
SHAPES = st.sampled_from(
    [
        "{known} && {unknown}",
        "{unknown}; {known}",
        "{known} | {unknown}",
        "{known} || {unknown} &",
        "{known} $({unknown})",
        '{known} "`{unknown}`"',
        "{known} <({unknown})",
        "( {known}; {unknown} )",
        "if {known}; then {unknown}; fi",
        "for i in a; do {known}; {unknown}; done",
        "f() {{ {unknown}; }}; {known}; f",
        "timeout 5 bash -c '{known}; {unknown}'",
        "{known}\n{unknown}",
        "{known} # x\n{unknown}",
        "{known} <<EOF\n$({unknown})\nEOF",
        "x=$({unknown}) {known}",
        "{{ {known}; {unknown}; }} 2>&1",
        "! {unknown}",
    ]
)


@settings(max_examples=200)
@given(st.lists(SHAPES, min_size=1, max_size=3), KNOWN, UNKNOWN)
def test_a_known_command_does_not_allow_unknown_parts(shapes: list[str], known: str, unknown: str) -> None:
    command = unknown
    for shape in shapes:
        command = shape.format(known=known, unknown=command)
    judge = Judge("ask", rules(allow="bash(make); edit(**)"), Path.cwd())
    assert judge.judge("bash", "execute", {"command": command}).verdict == "ask"


def test_what_a_tilde_stands_for_must_not_change(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here))
    assert bash(here, "rm ~/a", allow="bash(rm)").verdict == "allow"
    assert bash(here, "cat ~/a", deny="read(./a)").verdict == "refuse"
    assert bash(here, "read HOME; rm ~/a", allow="bash(rm); bash(read)").verdict == "ask"
    monkeypatch.delenv("HOME")
    assert bash(here, "rm ~/a", allow="bash(rm)").verdict == "ask"
