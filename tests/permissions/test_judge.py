"""Verdicts on calls that name a path, a domain or nothing: by rules, then by the profile."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.core.tool import ToolKind
from ostler.permissions.judge import Judge
from ostler.permissions.rules import Profile, Rule, Verdict, parse_rule


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
