"""Screens as agents draw them, and the message each amounts to.

A file in `screens/` has four parts: whether the agent shows its input box, what the user had written, the
screen, and the message.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.drivers import format_message, is_ready, new_text, remove_user_input, split_tool_calls
from ostler.drivers.agent_spec import AGENT_TYPES

HERE = Path(__file__).parent
SCREENS = sorted((HERE / "screens").rglob("*.txt"))


def parts(path: Path) -> tuple[bool, str, str, str]:
    ready, rest = path.read_text().split("\n@user\n")
    user, rest = rest.split("\n@screen\n")
    screen, message = rest.split("\n@message\n")
    return ready == "@ready yes", user, screen, message.removesuffix("\n")


def named(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def test_there_are_screens_of_every_agent() -> None:
    assert {path.parent.name for path in SCREENS} == set(AGENT_TYPES)


@pytest.mark.parametrize("path", SCREENS, ids=named)
def test_a_screen_becomes_its_message(path: Path) -> None:
    _ready, user, screen, message = parts(path)
    assert format_message(path.parent.name, screen, user) == message


@pytest.mark.parametrize("path", SCREENS, ids=named)
def test_an_agent_is_ready_when_it_shows_its_input_box(path: Path) -> None:
    ready, _user, screen, _message = parts(path)
    assert is_ready(path.parent.name, screen) is ready


@pytest.mark.parametrize("path", SCREENS, ids=named)
def test_blanks_at_the_ends_of_lines_change_nothing(path: Path) -> None:
    ready, user, screen, message = parts(path)
    padded = "\n".join(line.ljust(80) for line in screen.split("\n"))
    shown = format_message(path.parent.name, padded, user)
    assert [line.rstrip() for line in shown.split("\n")] == message.split("\n")
    assert is_ready(path.parent.name, padded + "\n\n") is ready


def test_an_unknown_agent_is_always_ready_and_its_text_stays() -> None:
    assert is_ready("something", "")
    assert format_message("something", "\n> hello\n>\n", "hello") == "\n> hello\n>\n"


plain_lines = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\n─╌›╰╭╯╮╹>", exclude_categories=["Cs", "Cc"])),
    max_size=12,
)
boxes = {
    "claude": ["─" * 60, "❯ Try it", "─" * 60, "  ? for shortcuts"],
    "goose": ["( O)>"],
    "aider": ["─" * 60, ">"],
    "gemini": ["╭" + "─" * 58 + "╮", "│ > " + " " * 55 + "│", "╰" + "─" * 58 + "╯", "~/orchard"],
    "cursor": ["┌" + "─" * 58 + "┐", "│ → Add a follow-up", "└" + "─" * 58 + "┘", "", "  model"],
    "amp": ["╭" + "─" * 58 + "╮", "│", "╰" + "─" * 58 + "╯"],
    "opencode": ["┃", "┃", "┃", "┃  Build", "╹" + "▀" * 30],
}


@given(plain_lines, st.sampled_from(sorted(boxes)))
def test_only_the_box_is_taken_from_any_text(lines: list[str], agent_type: str) -> None:
    text = "\n".join(lines).strip()
    shown = format_message(agent_type, "\n".join([*text.split("\n"), "", *boxes[agent_type]]), "")
    assert shown.strip() == (text or "Welcome to Amp" if agent_type == "amp" else text)
    assert format_message(agent_type, shown, "") == shown


@pytest.mark.parametrize(("agent_type", "prompt"), [("custom", ">"), ("aider", ">"), ("goose", "( O)>")])
@pytest.mark.parametrize("corners", ["┌┐└┘", "╭╮╰╯"])
def test_a_drawing_right_above_the_prompt_keeps_its_foot(agent_type: str, prompt: str, corners: str) -> None:
    head, foot = (f"{left}{'─' * 30}{right}" for left, right in (corners[:2], corners[2:]))
    drawing = f"{head}\n│ {'a note':28} │\n{foot}"
    assert format_message(agent_type, f"{drawing}\n{prompt} ", "") == drawing


@pytest.mark.parametrize("agent_type", ["claude", "copilot", "custom"])
def test_a_note_in_a_frame_is_no_input_box(agent_type: str) -> None:
    note = f"╭{'─' * 30}╮\n│ {'Welcome':28} │\n╰{'─' * 30}╯"
    for shown in (note, f"{note}\n$"):
        assert format_message(agent_type, shown, "") == shown
        assert not is_ready(agent_type, shown)


@given(plain_lines, st.sampled_from(AGENT_TYPES))
def test_text_without_a_box_stays(lines: list[str], agent_type: str) -> None:
    text = "\n".join(lines)
    assert format_message(agent_type, text, "").strip() == text.strip()
    assert not is_ready(agent_type, text)


@given(st.text(), st.text(), st.sampled_from(AGENT_TYPES))
def test_the_message_is_always_a_part_of_the_screen(text: str, user: str, agent_type: str) -> None:
    kept = remove_user_input(text, user, agent_type)
    assert text.endswith(kept)
    shown = format_message(agent_type, text, user)
    if agent_type not in ("codex", "amp"):  # codex keeps the line below its box, amp greets
        assert shown in text


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        ("123456", "123456", ""),
        ("123456", "1234567", "1234567"),
        ("123", "123\n  \n \n \n42", "42"),
        ("123", "12342\n   \n \n \n", "12342"),
        ("89", "42", "42"),
        ("a\nb\nc", "b\nc\nd\ne", "d\ne"),
        ("a\nb\n>", "a\nb\nb\n>", "b\n>"),
        ("a\n\nb", "a\n\n\n\nb\nc", "c"),
    ],
)
def test_what_is_new_begins_at_the_first_line_that_was_not_there(before: str, after: str, new: str) -> None:
    assert new_text(before, after, "custom") == new


def test_a_header_that_changes_is_not_the_message() -> None:
    before = "title\nshare\n10 tokens\n\nhello\n"
    after = "title\nshare\n90 tokens\n\nhello\nworld\n"
    assert new_text(before, after, "custom").startswith("90 tokens")
    assert new_text(before, after, "opencode") == "world"


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1)))
def test_a_screen_that_stands_still_has_nothing_new(lines: list[str]) -> None:
    screen = "\n".join(lines)
    assert new_text(screen, screen, "custom") == ""
    assert new_text(screen, "\n".join(lines[1:]), "custom") == ""


@pytest.mark.parametrize(
    ("text", "user", "rest"),
    [
        ("> hello\nanswer", "hello", "answer"),
        ("hello", "hello", ""),
        ("answer", "", "answer"),
        ("answer", " \n", "answer"),
        ("something else", "hello", "something else"),
        (
            "│ > a long line that wra │\n│ pped                   │\nanswer",
            "a long line that wrapped",
            "answer",
        ),
        ("> run\n  print(1)\nanswer", "run\n```\nprint(1)\n```", "answer"),
        ("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\nhello", "hello", None),
        ("> 木は何本？\n十四本", "木は何本？", "十四本"),
    ],
)
def test_the_echo_of_the_input_is_removed(text: str, user: str, rest: str | None) -> None:
    assert remove_user_input(text, user, "custom") == (text if rest is None else rest)


def test_a_very_long_reply_is_not_searched_for_the_echo() -> None:
    reply = "\n".join("x" * 80 for _ in range(100_000))
    assert remove_user_input(f"> hello\n{reply}", "hello", "claude") == reply


CLAUDE_CALL = """● coder - coder_report_task (MCP)(summary: "Pruned",
                                 state: "working")
  ⎿  {
       "message": "Thanks for reporting!"
     }"""
CODEX_CALL = """• Called
  └ Coder.coder_report_task({"summary":"Pruned"})
    {"message": "Thanks for reporting!"}"""


def test_reports_of_progress_are_taken_out() -> None:
    text, calls = split_tool_calls(
        "claude", f"one\n{CLAUDE_CALL}\n\ntwo\n{CLAUDE_CALL.replace('Pruned', 'Cut')}\nthree"
    )
    assert text == "one\n\ntwo\nthree"
    assert calls == [CLAUDE_CALL.replace("Pruned", "Cut"), CLAUDE_CALL]
    text, calls = split_tool_calls("codex", f"one\n{CODEX_CALL}\n\ntwo\n")
    assert (text, calls) == ("one\ntwo", [CODEX_CALL + "\n"])
    assert split_tool_calls("goose", CLAUDE_CALL) == (CLAUDE_CALL, [])


def test_a_report_that_never_ended_is_cut_to_the_next_blank_line() -> None:
    begun = CLAUDE_CALL.split("\n  ⎿")[0]
    assert split_tool_calls("claude", f"one\n{begun}\n\ntwo\nthree") == ("one\ntwo\nthree", [])
    assert split_tool_calls("claude", f"one\n{begun}\n\n{begun}\nend") == (f"one\n{begun}\n", [])
    assert split_tool_calls("codex", "one\n• Called\n  └ Coder.coder_report_task()") == (
        "one\n• Called\n  └ Coder.coder_report_task()",
        [],
    )


@given(st.lists(st.sampled_from(["one", "", "  }", *CLAUDE_CALL.split("\n"), *CODEX_CALL.split("\n")])))
def test_taking_reports_out_leaves_every_other_line(lines: list[str]) -> None:
    for agent_type in ("claude", "codex"):
        text, calls = split_tool_calls(agent_type, "\n".join(lines))
        kept = [line for line in text.split("\n") if line]
        assert len(kept) + sum(len(call.split("\n")) for call in calls) <= len(lines)
        assert set(kept) <= set(lines)
