"""The rules that a question offers: those that prevent the same question, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostler.permissions.judge import Judge, Judgement
from ostler.permissions.offers import Asked, Offers, offers_for
from ostler.permissions.rules import Profile, parse_rule
from tests.permissions.test_command_judge import rules


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    return tmp_path


def judged(here: Path, command: str, profile: Profile = "ask", **texts: str) -> Judgement:
    return Judge(profile, rules(**texts), here).judge("bash", "execute", {"command": command})


def offered(judgement: Judgement, here: Path, project: Path | None = None, tool: str = "bash") -> Offers:
    asked = [Asked(one.subject, bool(one.part), one.access) for one in judgement.findings]
    return offers_for(tool, asked, here, project or here)


@pytest.mark.parametrize(
    ("command", "session", "wider"),
    [
        ("git push origin main", ["bash(=git push origin main)"], ["bash+(git push origin main)"]),
        ("make test", ["bash(=make test)"], ["bash+(make test)"]),
        ("rm -rf build", ["bash(=rm -rf build)"], ["bash+(rm -rf build)"]),
        ("rm 'a b' '*'", ["bash(=rm 'a b' '[*]')"], ["bash+(rm 'a b' '*')"]),
        ("make a && rm x", ["bash(=make a)", "bash(=rm x)"], ["bash+(make a)", "bash+(rm x)"]),
        ("make a && sudo x", ["bash(=make a)", "bash(=sudo x)"], ["bash+(make a)", "bash(=sudo x)"]),
        ("sort -o a b", ["bash(=sort -o a b)"], ["bash+(sort -o a b)"]),
        ("npm run build", ["bash(=npm run build)"], None),
        ("npm install x", ["bash(=npm install x)"], None),
        ("uv run pytest", ["bash(=uv run pytest)"], None),
        ("docker exec a b", ["bash(=docker exec a b)"], None),
        ("cargo install x", ["bash(=cargo install x)"], None),
        ("npm test", ["bash(=npm test)"], ["bash+(npm test)"]),
        ("sudo make", ["bash(=sudo make)"], None),
        ("timeout 5 make", ["bash(=timeout 5 make)"], None),
        ("ssh host ls", ["bash(=ssh host ls)"], None),
        ("bash x.sh", ["bash(=bash x.sh)"], None),
        ("python3 x.py", ["bash(=python3 x.py)"], None),
        ("python3.12 x.py", ["bash(=python3.12 x.py)"], None),
        ("git -c a=b log", ["bash(=git -c a=b log)"], None),
        ("rm $x", ["bash=(rm $x)"], None),
        ("make && $x", ["bash=(make && $x)"], None),
        ("X=1 ./run a", ["bash=(X=1 ./run a)"], None),
        ("rm a*", ["bash=(rm a*)"], None),
        ("make && rm a*", ["bash=(make && rm a*)"], None),
        ("a &\nb $x", None, None),
    ],
)
def test_a_question_offers_what_a_person_would_expect(
    here: Path, command: str, session: list[str] | None, wider: list[str] | None
) -> None:
    offers = offered(judged(here, command), here)
    assert offers.rules.get("session") == (tuple(session) if session else None)
    assert offers.wider.get("session") == (tuple(wider) if wider else None)
    for texts in (*offers.rules.values(), *offers.wider.values()):
        remembered = [parse_rule(text, "allow") for text in texts]
        again = Judge("ask", remembered, here)
        assert again.judge("bash", "execute", {"command": command}).verdict == "allow"
        assert again.judge("bash", "execute", {"command": f"{command}; rm other"}).verdict == "ask"
        assert again.judge("bash", "execute", {"command": f"{command} --upload-pack=x"}).verdict == "ask"
        assert again.judge("bash", "execute", {"command": f"{command} SHELL=x"}).verdict == "ask"


def test_a_listed_program_is_offered_with_all_its_listed_options(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f".:{Path('/usr/bin')}")
    offers = offered(judged(here, "ls -la src"), here)
    assert offers == Offers(dict.fromkeys(("session", "project", "user"), ("bash~(ls)",)))
    remembered = [parse_rule("bash~(ls)", "allow")]
    assert Judge("ask", remembered, here).judge("bash", "execute", {"command": "ls -R /"}).verdict == "allow"
    offers = offered(judged(here, "git log -3"), here)
    assert offers.rules["user"] == ("bash~(git log)",)


def test_redirections_are_offered_as_changes_of_files(here: Path) -> None:
    real = here.resolve()
    offers = offered(judged(here, "ls > out.txt"), here)
    assert offers.rules["session"] == ("edit(./out.txt)",)
    assert offers.rules["user"] == (f"edit({real}/out.txt)",)
    offers = offered(judged(here, "ls > src/out.txt"), here)
    assert offers.rules["session"] == ("edit(src/out.txt)",)
    assert not offers.wider


def test_a_call_that_a_rule_asks_about_cannot_be_remembered(here: Path) -> None:
    assert offered(judged(here, "make", ask="bash(make)"), here) == Offers()
    assert offered(judged(here, "make $x", ask="bash(make)"), here) == Offers()
    assert offered(judged(here, "sudo x", deny="bash(rm)"), here) == Offers()


def test_each_scope_has_its_own_form_of_a_path(here: Path) -> None:
    call = Judge("ask", [], here / "src").judge("write", "edit", {"path": "deep/a.py"})
    real = here.resolve()
    assert offered(call, here / "src", here, "write").rules == {
        "session": ("edit(deep/**)",),
        "project": ("edit(src/deep/**)",),
        "user": (f"edit({real}/src/deep/**)",),
    }
    outside = Judge("edit", [], here / "src").judge("write", "edit", {"path": "../b.py"})
    assert offered(outside, here / "src", here, "write").rules == {
        "session": (f"edit({real}/b.py)",),
        "project": ("edit(./b.py)",),
        "user": (f"edit({real}/b.py)",),
    }
