"""`ostler context` and `ostler sessions compact|uncompact`: the context of a step."""

from __future__ import annotations

import re

import pytest

from ostler.testkit.vendors import FakeVendor, call, turn
from tests.support.command import KEY, Ostler, use
from tests.support.fixtures import Configure, Serve

LOOKS = [
    turn(f"Look {n}.", call("read", {"path": "herbs.txt", "offset": n}), usage=None) for n in range(1, 7)
]
SHORT = """
[context.window]
tokens = 9000
reserve = 500
[context.tool_history]
cut_to = 20
[context.summaries]
automatic = false
"""


def rows(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


@pytest.fixture
def session_in_a_small_window(ostler: Ostler, serve: Serve, configure: Configure) -> str:
    """A session of seven steps, with room for the results of a few of them."""
    (ostler.work / "herbs.txt").write_text("thyme and sage and rosemary\n" * 300)
    configure(SHORT)
    ran = ostler("-p", "--json", "look", *use(serve(*LOOKS, turn("done"))))
    assert ran.code == 0, ran.err
    return str(ran.facts[0]["session"])


def test_a_step_is_shown_with_its_rules_and_a_bar(ostler: Ostler, session_in_a_small_window: str) -> None:
    ran = ostler("context", session_in_a_small_window)
    assert (ran.code, ran.err) == (0, "")
    heading, _, titles, *listed = rows(ran.out)
    assert re.fullmatch(r"step 7 of 7, #\d+, openai/fake", heading[0])
    assert titles == ["WHAT", "TOKENS", "WHICH", "RULE"]
    assert [row[0] for row in listed[:3]] == ["system and tools", "messages", "cut"]
    assert listed[2][-1] == "room" and "places in #" in listed[2][2]
    (bar,) = [line for line in ran.out.splitlines() if line.startswith("[")]
    assert re.fullmatch(r"\[#+\.+\++\]", bar) and len(bar) == 52
    assert "of 9,000 tokens" in ran.out and "+ 500 for the answer" in ran.out
    assert "the numbers are estimated; confidence low" in ran.out
    assert "window.tokens = 9000" in ran.out and "summaries.automatic = False" in ran.out


def test_the_first_step_and_json(ostler: Ostler, session_in_a_small_window: str) -> None:
    (first,) = ostler("context", session_in_a_small_window[:12], "--step", "1", "--json").lines
    assert first["step"] == 1 and first["messages"] == [1, 1] and "decisions" not in first
    steps = [
        ostler("context", session_in_a_small_window, "--step", str(n), "--json").lines[0]
        for n in (4, 5, 6, 7)
    ]
    assert all(step["tokens"]["all"] + 500 <= 9000 for step in steps)
    decided = [step for step in steps if "decisions" in step]
    assert decided and all(one["rule"] == "room" for step in decided for one in step["decisions"])
    assert any("changed" not in step for step in decided), "those decided before are shown later on"


def test_two_steps_are_compared(ostler: Ostler, session_in_a_small_window: str) -> None:
    ran = ostler("context", session_in_a_small_window, "--diff", "1", "2")
    assert "the earlier request is a prefix of the later one" in ran.out
    assert [row[1].split()[-1] for row in rows(ran.out)[4:]] == ["assistant_message", "tool_result"]
    ran = ostler("context", session_in_a_small_window, "--diff", "7", "1")
    assert "the prefix changed in step" in ran.out and "by the rules of room" in ran.out
    assert any(row[0] == "-" and "cut" in row[1] for row in rows(ran.out))
    (found,) = ostler("context", session_in_a_small_window, "--diff", "1", "7", "--json").lines
    assert not found["same_prefix"] and found["decided"] and not found["withdrawn"]


def test_a_missing_item_is_reported_in_one_line(ostler: Ostler, session_in_a_small_window: str) -> None:
    for arguments, complaint in (
        (("ses_nobody",), "ses_nobody"),
        ((session_in_a_small_window, "--step", "8"), "no step 8: the last one is 7"),
        ((session_in_a_small_window, "--diff", "1", "8"), "no step 8"),
        ((session_in_a_small_window, "--step", "0"), "whole number of at least 1"),
    ):
        ran = ostler("context", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert complaint in ran.err and ran.err.count("\n") == 1


def test_a_terminal_gets_lines_that_fit(ostler: Ostler, session_in_a_small_window: str) -> None:
    ran = ostler.on_terminal("context", session_in_a_small_window, columns=60)
    assert ran.code == 0 and max(map(len, ran.out.splitlines())) <= 60


def test_a_short_conversation_is_sent_whole(ostler: Ostler, serve: Serve) -> None:
    ran = ostler("-p", "--json", "hello", *use(serve(turn("hi"))))
    output = ostler("context", str(ran.facts[0]["session"])).out
    assert re.search(r"system, tools and messages +at most [\d,]+ +all 1", output)
    assert "the policy" not in output


def compact_session(ostler: Ostler, vendor: FakeVendor) -> str:
    (ostler.work / "herbs.txt").write_text("thyme and sage and rosemary\n" * 300)
    ran = ostler("-p", "--json", "look", *use(vendor))
    session = str(ran.facts[0]["session"])
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": vendor.chat_url}
    ran = ostler("sessions", "compact", "--model", "openai/fake", session, "mind", "the", "sage", **keys)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    return session


def test_a_compaction_can_be_undone(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(*LOOKS[:3], turn("done"), turn("Task: look. Done: three times."), turn("a"), turn("b"))
    session = compact_session(ostler, vendor)
    asked = vendor.requests[-1].json["messages"][-1]["content"]
    assert "mind the sage" in asked and "called read" in asked
    ostler("-p", *use(vendor), "--session", session, "go on")
    messages = vendor.requests[-1].json["messages"]
    assert "Done: three times." in messages[1]["content"] and len(messages) == 4
    output = ostler("context", session).out
    (line,) = [line for line in output.splitlines() if line.startswith("compacted in #")]
    assert "(user)" in line and "1 file" in line
    assert "the prefix differs from the step before: the context was compacted" in output
    compared = rows(ostler("context", session, "--diff", "4", "5").out)[3:]
    signs = {sign: [row[1].split()[1] for row in compared if row[0] == sign] for sign in "-+"}
    assert signs["-"] == ["user_message", *["assistant_message", "tool_result"] * 3]
    assert signs["+"] == ["assistant_message", "compacted", "user_message"]
    ran = ostler("sessions", "uncompact", session)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    ostler("-p", *use(vendor), "--session", session, "and now")
    assert [one["role"] for one in vendor.requests[-1].json["messages"]].count("tool") == 3
    assert "compacted in" not in ostler("context", session).out
    assert ostler("sessions", "check").code == 0
    ran = ostler("sessions", "uncompact", session)
    assert (ran.code, ran.err) == (2, "ostler: nothing in this session is compacted\n")


def test_an_impossible_compaction_is_refused_with_the_reason(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(*LOOKS[:1], turn("done"), turn("hi"))
    ran = ostler("-p", "--json", "hello", *use(serve(turn("hi"))))
    session = str(ran.facts[0]["session"])
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": vendor.chat_url}
    ran = ostler("sessions", "compact", "--model", "openai/fake", session, **keys)
    assert ran.code == 2 and "nothing before the newest messages" in ran.err and ran.err.count("\n") == 1
    ran = ostler("sessions", "uncompact", session, "#2")
    assert ran.code == 2 and "there is no compaction 2" in ran.err


def test_an_entry_that_does_not_fit_is_shown_with_its_rule(ostler: Ostler, serve: Serve) -> None:
    ran = ostler("-p", "--json", "thyme " * 9000, "--context", "window.tokens=9000", *use(serve()))
    assert ran.code == 1 and "must_keep.last_prompt" in ran.err
    session = str(ran.facts[0]["session"])
    output = ostler("context", session)
    assert output.code == 0 and "tokens too many; nothing was sent" in output.out
    (kept,) = [row for row in rows(output.out) if row[0] == "kept"]
    assert kept[-1] == "must_keep.last_prompt" and re.fullmatch(r"#\d+", kept[2])
    (step,) = ostler("context", session, "--step", "1", "--json").lines
    assert not step["fits"] and step["kept"][0]["tokens"] > 9000


def test_a_rule_for_one_run_overrides_the_settings(
    ostler: Ostler, serve: Serve, configure: Configure
) -> None:
    configure("[context.window]\ntokens = 9000\nreserve = 500\n")
    one = ("--context", "window.tokens=7000", "--context", "must_keep.first_prompt=true")
    ran = ostler("-p", "--json", "hello", *one, *use(serve(turn("hi"))))
    trace = ran.all("model_called")[0]["trace"]
    assert trace["policy"]["window"] == {"tokens": 7000, "reserve": 500}
    origins = {"window.tokens": "run", "window.reserve": "settings", "must_keep.first_prompt": "run"}
    assert trace["from"] == origins
    output = ostler("context", str(ran.facts[0]["session"])).out
    assert "window.tokens = 7000 (run), window.reserve = 500 (settings)" in output
    ran = ostler("-p", "--json", "--continue", "again", *use(serve(turn("hi"))))
    assert ran.all("model_called")[0]["trace"]["policy"]["window"]["tokens"] == 9000
    assert "the policy is another one" in ostler("context", str(ran.facts[0]["session"])).out


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        (("window",), "'window' is not KEY=VALUE, such as window.tokens=20000"),
        (("window=5",), "'window=5' is not KEY=VALUE"),
        (("windows.tokens=5",), "--context: there is no setting context.windows; is it window?"),
        (
            ("window.tokens=many",),
            "--context: context.window.tokens must be a whole number above 0, not 'many'",
        ),
        (("tool_history.by_tool.bash=gone",), "--context: context.tool_history.by_tool.bash must be one of"),
        (
            ("summaries.at=0.3", "summaries.keep=0.4"),
            "context.summaries.keep (0.4, from --context) must be less than "
            "context.summaries.at (0.3, from --context)",
        ),
    ],
)
def test_an_invalid_rule_is_refused(ostler: Ostler, rules: tuple[str, ...], complaint: str) -> None:
    options = [part for rule in rules for part in ("--context", rule)]
    ran = ostler("-p", "hello", *options)
    assert ran.code == 2 and complaint in ran.err and ran.err.count("\n") == 1


def test_contradicting_files_are_named(ostler: Ostler, configure: Configure) -> None:
    configure("[context.summaries]\nkeep = 0.6\n")
    (ostler.work / "ostler.toml").write_text("[context.summaries]\nat = 0.5\n")
    ran = ostler("-p", "hello")
    assert ran.code == 2 and ran.err.count("\n") == 1
    assert f"keep (0.6, from {ostler.home / 'config.toml'}) must be less than" in ran.err
    assert f"at (0.5, from {ostler.work / 'ostler.toml'})" in ran.err
