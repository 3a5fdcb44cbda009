"""Verdicts on calls: by rules, then by the profile; a command part by part."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.core.tool import ToolKind
from ostler.permissions.judge import Judge, Judgement, suggest_rules
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
    for name in (".git", "src", "bare"):
        (folder / name).mkdir()
    (folder / "bare" / "HEAD").touch()
    (folder / "away").symlink_to("/")
    return folder


def bash(here: Path, command: str, profile: Profile = "ask", **texts: str) -> Judgement:
    return Judge(profile, rules(**texts), here).judge("bash", "execute", {"command": command})


HARMLESS = """
ls -la
cat a.txt | head -n 5 | wc -l
pwd && whoami
echo "$HOME" $? ${x:-y}
grep -rn pattern src
rg -n --hidden 'a b' src
find . -name '*.py' -type f -mtime -1
find . -name '*.py' -exec grep -l x {} +
sort -u -k2 a.txt | uniq -c
sed -n '10,20p' src/a.py
git status
git status --short && git diff --stat HEAD~1
git --no-pager log --oneline -5 -- src
git show HEAD:src/a.py
git branch -a
git rev-parse --abbrev-ref HEAD
cd src && git log
LC_ALL=C ls
timeout 5 cat a.txt
bash -c 'ls; pwd'
xargs cat < list.txt
for f in a b; do echo "$f"; done
if [ -f a.txt ]; then cat a.txt; fi
[[ $x == y ]] || true
x=$(pwd); echo "$x"
ls 2>/dev/null || true
cat <<'EOF'
anything $(here)
EOF
echo a 2>&1
which python3; command -v node
python3 --version
test -f a.txt
diff <(sort a) <(sort b)
env ls
""".strip()

TRICKY = """
make
rm -rf /
git push
git -c core.pager=./x log
git -C bare log
git log --output=x
git log --outp=x
git diff --ext-diff
git branch new
git tag v1
git stash
git grep -O./x y
cd bare && git log
cd away && git status
cd / && ls
cd; ls
find . -delete
find . -exec rm {} +
find . -execdir ls {} +
find . -fprint x
find . $x
sort -o a b
sort --outp=a b
sort -ro a b
sort $x
uniq a b
tree -o x
rg --pre ./x y
rg $x
sed -n 'w x' a
sed -n '1p' -i a
sed 's/a/b/e' a
awk 1
date -s 12:00
hostname x
printf -v PATH x
file -C -m x
PATH=. ls
LD_PRELOAD=./x ls
GIT_EXTERNAL_DIFF=./x git diff
./ls
/tmp/cat a
~/bin/ls
$x
"$(which ls)" a
$(echo ls)
ls; rm a
ls && rm a
ls || rm a
ls | rm a
ls & rm a
ls $(rm a)
ls `rm a`
ls <(rm a)
echo "$(rm a)"
(ls; rm a)
{ ls; rm a; }
if ls; then rm a; fi
while ls; do rm a; done
for f in $(rm a); do ls; done
case a in $(rm a)) ls;; esac
f() { rm a; }; f
ls() { rm a; }; ls
x=$(rm a)
LC_ALL=$(rm a) ls
cat <<EOF
$(rm a)
EOF
cat <<< $(rm a)
sudo ls
doas ls
sudo -u root cat a
env X=1 ls
env -S 'rm a'
nohup rm a
nice rm a
time rm a
timeout 5 rm a
xargs rm
ls | xargs -I{} sh -c 'cat {}'
exec rm a
command rm a
eval "rm a"
eval "$x"
bash -c 'rm a'
bash -c "$x"
bash -c 'ls' ; sh
curl x | sh
echo a > f
echo a >> /etc/passwd
cat < /dev/tcp/host/80
> f
ls > f
export PATH=.
PATH=.; ls
alias ls='rm a'
trap 'rm a' EXIT
source x
. x
hash -p ./x ls
ls\\
rm a
ls 'a
ls && && ls
ls &&
((x))
echo $((x))
echo ${x@P}
[ $x ]
coproc rm a
ls\u00a0a
ls \x1b[2K
""".strip()


def lines(text: str) -> list[str]:
    """The commands of a list; one with a here-document takes the lines up to EOF."""
    commands: list[str] = []
    for line in text.split("\n"):
        is_inside = (
            bool(commands) and "<<EOF" in commands[-1].replace("'", "") and not commands[-1].endswith("\nEOF")
        )
        if is_inside or (commands and commands[-1].endswith("\\")):
            commands[-1] += f"\n{line}"
        else:
            commands.append(line)
    return commands


@pytest.mark.parametrize("command", lines(HARMLESS))
def test_read_only_commands_run_without_a_question(here: Path, command: str) -> None:
    judged = bash(here, command)
    assert judged.verdict == "allow", judged.reason
    assert bash(here, command, "edit").verdict == "allow"
    assert bash(here, command, "read-only").verdict == "refuse", "which refuses all commands"


@pytest.mark.parametrize("command", lines(TRICKY))
def test_all_other_commands_are_asked_about(here: Path, command: str) -> None:
    judged = bash(here, command)
    assert judged.verdict == "ask"
    assert judged.reason
    assert bash(here, command, "read-only").verdict == "refuse"
    assert bash(here, command, "full").verdict == "allow"


def test_the_lists_of_commands_are_long() -> None:
    assert len(lines(TRICKY)) > 100
    assert len(lines(HARMLESS)) > 30


@pytest.mark.parametrize(
    "command", [one for one in lines(TRICKY) if "rm a" in one and not one.startswith("alias")]
)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_command_that_is_denied_inside_of_another_is_not_run(
    here: Path, command: str, profile: Profile
) -> None:
    verdict = bash(here, command, profile, deny="bash(rm)").verdict
    assert verdict in ("refuse", "ask")
    if command in ("ls; rm a", "timeout 5 rm a", "bash -c 'rm a'", "ls $(rm a)"):
        assert verdict == "refuse"


@pytest.mark.parametrize(
    ("command", "texts", "verdict"),
    [
        ("make test", {"allow": "bash(make)"}, "allow"),
        ("make test && make install", {"allow": "bash(make)"}, "allow"),
        ("make test && rm x", {"allow": "bash(make)"}, "ask"),
        ("make test | tee log", {"allow": "bash(make)"}, "ask"),
        ("make test | grep x", {"allow": "bash(make)"}, "allow"),
        ("make $(rm x)", {"allow": "bash(make)"}, "ask"),
        ("make > log", {"allow": "bash(make)"}, "ask"),
        ("make > log", {"allow": "bash(make); edit(*.txt)"}, "ask"),
        ("make > log", {"allow": "bash(make); write(log)"}, "allow"),
        ("make > src/../../log", {"allow": "bash(make); edit(src/**)"}, "ask"),
        ("cd src && make > log", {"allow": "bash(make); edit(src/**)"}, "allow"),
        ("cd src; make > log", {"allow": "bash(make); edit(src/**)"}, "ask"),
        ("cd /tmp && make", {"allow": "bash(make)"}, "ask"),
        ("X=1 make", {"allow": "bash(make)"}, "ask"),
        ("X=1 make", {"allow": "bash(X=1 make)"}, "allow"),
        ("sudo make", {"allow": "bash(make)"}, "ask"),
        ("sudo make", {"allow": "bash(sudo make)"}, "allow"),
        ("sudo make", {"allow": "bash(sudo)", "deny": "bash(make)"}, "refuse"),
        ("timeout 5 make", {"allow": "bash(make)"}, "allow"),
        ("timeout 5 make", {"allow": "bash(timeout)"}, "ask"),
        ("timeout 5 make", {"allow": "bash(make)", "deny": "bash(timeout)"}, "refuse"),
        ("xargs make", {"allow": "bash(make)"}, "allow"),
        ("xargs make", {"allow": "bash(=make)"}, "ask"),
        ("bash -c 'make; ls'", {"allow": "bash(make)"}, "allow"),
        ("bash -c 'make; rm x'", {"allow": "bash(make); bash(bash)"}, "ask"),
        ("bash x.sh", {"allow": "bash(bash x.sh)"}, "allow"),
        ("./timeout 5 make", {"allow": "bash(make)"}, "ask"),
        ("find . -exec make {} +", {"allow": "bash(find)"}, "ask"),
        ("find . -exec make {} +", {"allow": "bash(find); bash(make)"}, "allow"),
        ("git push -f", {"allow": "bash(git)", "deny": "bash(git push)"}, "refuse"),
        ("git -C . push", {"allow": "bash(git)", "deny": "bash(git push)"}, "ask"),
        ("git $x", {"allow": "bash(git)", "deny": "bash(git push)"}, "ask"),
        ("git fetch", {"allow": "bash(git)", "deny": "bash(git push)"}, "allow"),
        ("git status", {"ask": "bash(git)"}, "ask"),
        ("git status", {"ask": "bash(git)", "allow": "bash(git status)"}, "ask"),
        ("ls", {"deny": "bash"}, "refuse"),
        ("ls", {"deny": "*"}, "refuse"),
        ("ls", {"deny": "execute"}, "refuse"),
        ("anything $x", {"allow": "bash"}, "allow"),
        ("anything $x > f", {"allow": "bash"}, "allow"),
        ("anything $x", {"allow": "bash", "deny": "bash(rm)"}, "allow"),
        ("$x", {"allow": "bash", "deny": "bash(rm)"}, "ask"),
        ("/bin/rm x", {"allow": "bash", "deny": "bash(rm)"}, "refuse"),
        ("echo x > .env", {"allow": "bash", "deny": "edit(.env)"}, "refuse"),
        ("cat .env", {"deny": "read(.env)"}, "refuse"),
        ("cat < .env", {"deny": "read(.env)"}, "refuse"),
        ("grep x src/../.env", {"deny": "read(.env)"}, "refuse"),
        ("cat .e*", {"deny": "read(.env)"}, "ask"),
        ("cat $x", {"deny": "read(.env)"}, "ask"),
        ("cd src && cat ../.env", {"deny": "read(./.env)"}, "refuse"),
        ("echo $x", {"deny": "read(.env)"}, "allow"),
        ("[ -f x ]", {"deny": "bash"}, "refuse"),
        ("[ -f x ]", {"ask": "bash"}, "ask"),
    ],
)
def test_rules_judge_each_part(here: Path, command: str, texts: dict[str, str], verdict: Verdict) -> None:
    assert bash(here, command, **texts).verdict == verdict


def test_rules_widen_and_narrow_every_profile(here: Path) -> None:
    assert bash(here, "make", "read-only", allow="bash(make)").verdict == "allow"
    assert bash(here, "make | head", "read-only", allow="bash(make)").verdict == "refuse"
    assert bash(here, "make", "read-only", ask="bash(make)").verdict == "ask"
    assert bash(here, "make; rm x", "read-only", ask="bash(make)").verdict == "refuse"
    assert bash(here, "make", "full", ask="bash(make)").verdict == "ask"
    assert bash(here, "make '", "full", deny="bash(rm)").verdict == "ask", "it may hide what is denied"


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
KNOWN = st.sampled_from(["ls", "git status", "make all", "cat a | head", "echo $x", "[ -f a ]", "true"])
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
        "while {unknown}; do {known}; done",
        "f() {{ {unknown}; }}; {known}; f",
        "timeout 5 bash -c '{known}; {unknown}'",
        "{known}\n{unknown}",
        "{known} # x\n{unknown}",
        "case a in a) {known};; *) {unknown};; esac",
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


@given(st.text(max_size=40))
def test_no_text_makes_the_judge_fail(command: str) -> None:
    judge = Judge("ask", rules(deny="bash(rm); read(.env)"), Path.cwd())
    assert judge.judge("bash", "execute", {"command": command}).verdict in ("allow", "ask", "refuse")


@pytest.mark.parametrize(
    ("tool", "kind", "path", "profile", "texts", "verdict"),
    [
        ("edit", "edit", "src/a", "ask", {}, "ask"),
        ("edit", "edit", "src/a", "edit", {}, "allow"),
        ("write", "edit", "src/../a", "edit", {}, "allow"),
        ("write", "edit", "../a", "edit", {}, "ask"),
        ("write", "edit", "/etc/a", "edit", {}, "ask"),
        ("write", "edit", "away/etc/a", "edit", {}, "ask"),
        ("write", "edit", "/etc/a", "full", {}, "allow"),
        ("write", "edit", "~/a", "edit", {}, "ask"),
        ("write", "edit", ".git/hooks/pre-commit", "edit", {}, "ask"),
        ("write", "edit", "src/a", "read-only", {}, "refuse"),
        ("write", "edit", "src/a", "read-only", {"allow": "edit(src/**)"}, "allow"),
        ("write", "edit", "src/a", "ask", {"allow": "edit(src/**)"}, "allow"),
        ("write", "edit", "src/../a", "ask", {"allow": "edit(src/**)"}, "ask"),
        ("edit", "edit", "src/a", "ask", {"allow": "write(src/**)"}, "ask"),
        ("write", "edit", "src/a", "edit", {"deny": "edit(src)"}, "refuse"),
        ("write", "edit", "src/a", "edit", {"ask": "edit(src/**)"}, "ask"),
        ("read", "read", "/etc/passwd", "read-only", {}, "allow"),
        ("read", "read", ".env", "full", {"deny": "read(.env)"}, "refuse"),
        ("grep", "search", ".env", "full", {"deny": "read(.env)"}, "refuse"),
        ("ls", "read", "src", "full", {"deny": "read(src/**)"}, "refuse"),
        ("read", "read", "blob:out_1", "read-only", {}, "allow"),
    ],
)
def test_paths_are_judged_where_they_lead(
    here: Path,
    tool: str,
    kind: ToolKind,
    path: str,
    profile: Profile,
    texts: dict[str, str],
    verdict: Verdict,
) -> None:
    judged = Judge(profile, rules(**texts), here).judge(tool, kind, {"path": path})
    assert judged.verdict == verdict, judged.reason


def test_a_path_that_leads_nowhere_is_no_failure_of_the_judge(here: Path) -> None:
    (here / "one").symlink_to(here / "two")
    (here / "two").symlink_to(here / "one")
    for path in ("one", "x" * 5000, "a\0b", "~nobody-has-this-name/a", ""):
        judged = Judge("edit", [], here).judge("write", "edit", {"path": path})
        assert judged.verdict in ("refuse", "allow"), "which the tool itself will explain"


def test_a_call_that_no_pattern_can_match_is_asked_about_if_a_rule_restricts_it(here: Path) -> None:
    def verdict(**texts: str) -> Verdict:
        return Judge("full", rules(**texts), here).judge("weather", "other", {"city": "Oslo"}).verdict

    assert verdict(deny="weather(Oslo)") == "ask"
    assert verdict(deny="weather") == "refuse"
    assert verdict(deny="other") == "refuse"
    assert verdict(deny="calendar") == "allow"
    assert Judge("ask", rules(allow="weather(Oslo)"), here).judge("weather", "other", {}).verdict == "ask"
    assert Judge("ask", rules(allow="weather"), here).judge("weather", "other", {}).verdict == "allow"


def test_the_network_is_judged_by_domain(here: Path) -> None:
    judge = Judge("ask", rules(allow="fetch(example.com)", deny="fetch(evil.example.com)"), here)
    for url, verdict in (
        ("https://example.com/a", "allow"),
        ("https://docs.example.com", "allow"),
        ("https://evil.example.com", "refuse"),
        ("https://example.com@evil.org", "ask"),
        ("https://other.org", "ask"),
        ("nonsense", "ask"),
    ):
        assert judge.judge("fetch", "fetch", {"url": url}).verdict == verdict, url


def test_a_refusal_names_the_rule_and_a_question_the_part(here: Path) -> None:
    refused = bash(here, "ls && git push origin", deny="bash(git push)")
    assert refused.reason == "the rule deny bash(git push) forbids this: git push origin; work without it"
    judgement = bash(here, "ls && make && ls")
    assert [finding.part for finding in judgement.findings] == ["make"]
    assert not judgement.is_whole


@pytest.mark.parametrize(
    ("command", "session", "user"),
    [
        ("git push origin main", ["bash(git push)"], None),
        ("npm run build -- -x", ["bash(npm run build)"], None),
        ("rm -rf build", ["bash(=rm -rf build)"], None),
        ("rm 'a b' '*'", ["bash(=rm 'a b' '[*]')"], None),
        ("make a && rm x", ["bash(make a)", "bash(=rm x)"], None),
        ("ls > out.txt", ["edit(./out.txt)"], ["edit({here}/out.txt)"]),
        ("ls > src/out.txt", ["edit(src/out.txt)"], ["edit({here}/src/out.txt)"]),
        ("X=1 ./run a", ["bash(=X=1 ./run a)"], None),
        ("git commit -m $x", ["bash(git commit)"], None),
        ("rm $x", None, None),
        ("make && $x", None, None),
    ],
)
def test_a_remembered_rule_prevents_the_same_question(
    here: Path, command: str, session: list[str] | None, user: list[str] | None
) -> None:
    judged = bash(here, command)
    offered = suggest_rules("bash", judged, here, here)
    assert offered.get("session") == (tuple(session) if session else None)
    if session is None:
        return
    real = str(here.resolve())
    assert list(offered["user"]) == ([one.format(here=real) for one in user] if user else session)
    for texts in offered.values():
        remembered = [parse_rule(text, "allow") for text in texts]
        assert (
            Judge("ask", remembered, here).judge("bash", "execute", {"command": command}).verdict == "allow"
        )
        wider = {"command": f"{command}; rm other"}
        assert Judge("ask", remembered, here).judge("bash", "execute", wider).verdict == "ask"


def test_a_call_that_a_rule_asks_about_cannot_be_remembered(here: Path) -> None:
    judged = bash(here, "make", ask="bash(make)")
    assert suggest_rules("bash", judged, here, here) == {}


def test_each_scope_has_its_own_form_of_a_path(here: Path) -> None:
    judged = Judge("ask", [], here / "src").judge("write", "edit", {"path": "deep/a.py"})
    real = here.resolve()
    assert suggest_rules("write", judged, here / "src", here) == {
        "session": ("edit(deep/**)",),
        "project": ("edit(src/deep/**)",),
        "user": (f"edit({real}/src/deep/**)",),
    }
    outside = Judge("edit", [], here / "src").judge("write", "edit", {"path": "../b.py"})
    assert suggest_rules("write", outside, here / "src", here) == {
        "session": (f"edit({real}/b.py)",),
        "project": ("edit(./b.py)",),
        "user": (f"edit({real}/b.py)",),
    }


def test_without_a_home_folder_a_tilde_is_unknown(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(user: int) -> None:
        raise KeyError(user)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert bash(here, "rm ~/a", deny="bash(rm -r)", allow="bash(rm a)").verdict == "ask"
    assert bash(here, "rm a", deny="bash(rm -r)", allow="bash(rm a)").verdict == "allow"
