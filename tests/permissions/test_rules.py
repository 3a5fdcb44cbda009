"""Which calls a rule matches."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.permissions.rules import (
    EFFECTS,
    Effect,
    anchored,
    command_pattern,
    host_of,
    matches_command,
    matches_host,
    matches_path,
    matches_text,
    mentions,
    parse_rule,
)
from ostler.schema.errors import UsageError


def command(rule: str, *words: str | None, effect: Effect = "allow") -> str:
    return matches_command(parse_rule(rule, effect), words)


@pytest.mark.parametrize("text", ["", "bash(", "bash(git", "bash()", "bash( )", "a b", "bash(git)x", "(git)"])
def test_what_is_no_rule_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a rule; rules are like bash, bash\(git status\)"):
        parse_rule(text, "allow")


@pytest.mark.parametrize("text", ["bash(echo 'a)", "edit([z-a])"])
def test_a_pattern_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        parse_rule(text, "deny")


@pytest.mark.parametrize(
    ("rule", "tool", "kind", "covers"),
    [
        ("bash", "bash", "execute", True),
        ("execute", "bash", "execute", True),
        ("*", "anything", "other", True),
        ("github_*", "github_issue", "other", True),
        ("github_*", "gitlab_issue", "other", False),
        ("edit", "write", "edit", True),
        ("write", "edit", "edit", False),
        ("read", "grep", "search", True),
        ("read", "ls", "read", True),
        ("search", "read", "read", False),
        ("bash", "bash2", "execute", False),
    ],
)
def test_a_rule_names_a_tool_or_a_kind(rule: str, tool: str, kind: str, covers: bool) -> None:
    assert parse_rule(rule, "allow").covers(tool, kind) == covers


@pytest.mark.parametrize(
    ("rule", "words", "match"),
    [
        ("bash(git status)", ("git", "status"), "yes"),
        ("bash(git status)", ("git", "status", "-s"), "yes"),
        ("bash(git status)", ("git", "status", None), "yes"),
        ("bash(git status)", ("git", "stash"), "no"),
        ("bash(git status)", ("git",), "no"),
        ("bash(git status)", ("git", None), "no"),
        ("bash(git st*)", ("git", "stash"), "yes"),
        ("bash(npm run *)", ("npm", "run", "build"), "yes"),
        ("bash(npm run *)", ("npm", "run"), "no"),
        ("bash(npm run *)", ("npm", "run", None), "yes"),
        ("bash(=rm -rf build)", ("rm", "-rf", "build"), "yes"),
        ("bash(=rm -rf build)", ("rm", "-rf", "build", "/"), "no"),
        ("bash(=rm -rf build)", ("rm", "-rf", "build", None), "no"),
        ("bash(git)", ("/tmp/git", "status"), "no"),
        ("bash('my tool' run)", ("my tool", "run"), "yes"),
        ("bash", ("anything",), "yes"),
    ],
)
def test_an_allow_rule_matches_the_first_words_of_a_command(
    rule: str, words: tuple[str | None, ...], match: str
) -> None:
    assert command(rule, *words) == match


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("git", "push"), "yes"),
        (("/usr/bin/git", "push"), "yes"),
        (("git", "push", "-f"), "yes"),
        (("git", "-C", ".", "push"), "maybe"),
        (("git", "--no-pager", "push"), "maybe"),
        (("git", "-c", "a=b", "--no-pager", "push"), "maybe"),
        (("git", None), "maybe"),
        (("git", "-C", None, "push"), "maybe"),
        (("git", "commit", "-m", "push"), "no"),
        (("git", "log"), "no"),
    ],
)
def test_a_deny_rule_also_matches_possible_forms(words: tuple[str | None, ...], match: str) -> None:
    assert command("bash(git push)", *words, effect="deny") == match
    assert command("bash(git push)", *words, effect="ask") == match


@pytest.mark.parametrize(
    ("rule", "words", "match"),
    [
        ("bash+(make test)", ("make", "test"), "yes"),
        ("bash+(make test)", ("make", "test", "all", "a/b"), "yes"),
        ("bash+(make test)", ("make", "test", "-f"), "no"),
        ("bash+(make test)", ("make", "test", "SHELL=x"), "no"),
        ("bash+(make test)", ("make", "test", None), "no"),
        ("bash+(make test)", ("make",), "no"),
        ("bash+(make test)", ("make", "tests"), "no"),
        ("bash+(rm 'a*')", ("rm", "a*"), "yes"),
        ("bash+(rm 'a*')", ("rm", "abc"), "no"),
        ("bash~(ls)", ("ls",), "no"),
        ("bash=(ls)", ("ls",), "no"),
    ],
)
def test_an_offered_rule_has_a_spelling_and_a_meaning_of_its_own(
    rule: str, words: tuple[str | None, ...], match: str
) -> None:
    assert command(rule, *words) == match
    assert parse_rule(rule, "allow").text == rule


def test_an_offered_rule_can_only_allow() -> None:
    for effect in ("ask", "deny"):
        with pytest.raises(UsageError, match=r"can only allow; write bash\(make\) to"):
            parse_rule("bash+(make)", effect)  # type: ignore[arg-type]
    for text in ("bash+", "bash+()", "bash++(a)", "bash~ (a)", "+(a)"):
        with pytest.raises(UsageError, match="is not a rule"):
            parse_rule(text, "allow")


@pytest.mark.parametrize(
    ("rule", "text", "matches"),
    [
        ("bash=(echo $x)", "echo $x", True),
        ("bash=(echo $x)", " echo $x\n", True),
        ("bash=(echo $x)", "echo  $x", False),
        ("bash=(echo 'a)", "echo 'a", True),
        ("bash=(echo (a) b)", "echo (a) b", True),
        ("bash(=echo $x)", "echo $x", True),
        ("bash(=echo 'a)", "echo 'a", True),
        ("bash(echo $x)", "echo $x", False),
        ("bash+(echo a)", "echo a", False),
        ("bash", "echo a", False),
    ],
)
def test_a_rule_may_name_exactly_one_text(rule: str, text: str, matches: bool) -> None:
    assert matches_text(parse_rule(rule, "allow"), text) == matches


@pytest.mark.parametrize(
    ("rule", "text", "is_mentioned"),
    [
        ("bash(rm)", "x $(rm a)", True),
        ("bash(rm)", "/bin/rm $x", True),
        ("bash(rm)", "r'm' $x", True),
        ("bash(rm)", 'r"m" $x', True),
        ("bash(rm)", "r\\m $x", True),
        ("bash(rm)", "r\\\nm $x", True),
        ("bash(rm)", "form $x", False),
        ("bash(rm)", "rm2 $x", False),
        ("bash(git push)", "git $x", True),
        ("bash(git push)", "$x push", True),
        ("bash(npm*)", "npmx $x", True),
        ("bash(*)", "$x", False),
        ("read(.env)", "cat $(echo .env)", True),
        ("read(~/.ssh/**)", "cat $HOME/.ssh/id", True),
        ("edit(*.md)", "echo > a.md &", True),
        ("edit(*.md)", "echo > a.mdx &", False),
        ("bash(=rm $x)", "rm $y", True),
    ],
)
def test_a_text_may_mention_a_word_of_a_rule(rule: str, text: str, is_mentioned: bool) -> None:
    assert mentions(parse_rule(rule, "deny"), text) == is_mentioned


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=4))
def test_the_pattern_of_a_command_matches_that_command_and_no_longer_one(words: list[str]) -> None:
    rule = parse_rule(f"bash({command_pattern(words, exact=True)})", "allow")
    assert rule.pattern is not None
    if rule.pattern == command_pattern(words, exact=True):  # blanks at an end are not kept
        assert matches_command(rule, words) == "yes"
        assert matches_command(rule, [*words, "x"]) == "no"
        assert matches_command(rule, [words[0] + "x", *words[1:]]) == "no"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for folder in ("work/src/deep", "work/secrets", "outside"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "work" / "out").symlink_to(tmp_path / "outside")
    return tmp_path / "work"


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("src/**", "src/a.py", True),
        ("src/**", "src/deep/a.py", True),
        ("src/**", "src", True),
        ("src/**", "srcs/a.py", False),
        ("src/**", "src/../secrets/a", False),
        ("src/*", "src/deep/a.py", False),
        ("*.md", "README.md", True),
        ("*.md", "src/deep/README.md", True),
        ("*.md", "../outside/README.md", False),
        ("**", "out/x", False),
        ("**", "a/b", True),
        ("src", "src/a.py", False),
        ("./a.txt", "a.txt", True),
        ("./a.txt", "src/a.txt", False),
        ("a.txt", "src/a.txt", True),
    ],
)
def test_what_allows_matches_where_a_path_really_leads(
    here: Path, pattern: str, path: str, matches: bool
) -> None:
    assert (matches_path(parse_rule(f"edit({pattern})", "allow"), here / path, here) == "yes") == matches


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("secrets", "secrets/key", True),
        ("secrets/**", "src/../secrets/key", True),
        ("out/**", "out/x", True),
        ("../outside", "out/x", True),
        (".env", "../outside/.env", True),
        ("secrets", "src/a.py", False),
    ],
)
def test_what_denies_matches_a_path_by_either_name_and_all_that_is_below(
    here: Path, pattern: str, path: str, matches: bool
) -> None:
    assert (matches_path(parse_rule(f"read({pattern})", "deny"), here / path, here) == "yes") == matches


def test_paths_may_begin_at_home_or_at_the_root(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here))
    for pattern in ("~/.ssh/**", f"{here}/.ssh/**"):
        for effect in ("allow", "deny"):
            rule = parse_rule(f"read({pattern})", effect)  # type: ignore[arg-type]
            assert matches_path(rule, here / ".ssh" / "id", Path("/")) == "yes"
            assert matches_path(rule, here / ".sshx" / "id", Path("/")) == "no"


def test_the_rules_of_a_project_are_about_its_own_folder(here: Path) -> None:
    assert anchored(parse_rule("edit(src/**)", "allow"), here).text == f"edit({here}/src/**)"
    assert anchored(parse_rule("edit(*.md)", "allow"), here).text == f"edit({here}/**/*.md)"
    assert anchored(parse_rule("read(.env)", "deny"), here).text == "read(.env)"
    assert anchored(parse_rule("bash(make a/b)", "allow"), here).text == "bash(make a/b)"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Example.com/x", "example.com"),
        ("http://a.example.com.:8080", "a.example.com"),
        ("https://example.com@evil.org/", "evil.org"),
        ("https://evil.org\\@example.com/", None),
        ("https://example.com\n.evil.org", None),
        ("ftp://example.com", None),
        ("file:///etc/passwd", None),
        ("https://[::1", None),
        ("example.com", None),
    ],
)
def test_a_host_is_returned_only_if_all_programs_agree_on_it(url: str, host: str | None) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("host", "allow", "deny"),
    [
        ("example.com", "yes", "yes"),
        ("a.b.example.com", "yes", "yes"),
        ("badexample.com", "no", "no"),
        ("example.com.evil.org", "no", "no"),
        (None, "no", "maybe"),
    ],
)
def test_a_domain_is_itself_and_all_below_it(host: str | None, allow: str, deny: str) -> None:
    assert matches_host(parse_rule("fetch(example.com)", "allow"), host) == allow
    assert matches_host(parse_rule("fetch(example.com)", "deny"), host) == deny


def test_a_home_may_have_wildcards_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "[ab] {c,d} *"
    monkeypatch.setenv("HOME", str(home))
    for effect in EFFECTS:
        rule = parse_rule("read(~/.ssh/**)", effect)
        assert matches_path(rule, home / ".ssh" / "id", Path("/")) == "yes"
        assert matches_path(rule, tmp_path / "a c x" / ".ssh" / "id", Path("/")) == "no"


@pytest.mark.parametrize("name", ["it's", 'a "b', "a (b", "a) b", "[x] {y, z} *", "a\\b", "a\nb", "~", " =x"])
def test_a_rule_of_a_project_can_be_read_again_whatever_its_folder_is_called(
    tmp_path: Path, name: str
) -> None:
    for effect in EFFECTS:
        rule = parse_rule(anchored(parse_rule("edit(src/**)", effect), tmp_path / name).text, effect)
        assert matches_path(rule, tmp_path / name / "src" / "a", Path("/")) == "yes"
        assert matches_path(rule, tmp_path / "other" / "src" / "a", Path("/")) == "no"
