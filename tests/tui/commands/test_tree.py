"""The tree of a session as a list to choose from, and labels."""

from __future__ import annotations

import pytest

from ostler.schema.events import (
    AssistantMessage,
    Labelled,
    LeafMoved,
    ToolCalled,
    ToolResultFact,
    UserMessage,
)
from ostler.schema.messages import ToolCall, as_content
from ostler.tui.commands.tree import FILTERS, tree_choices
from tests.support.stored import facts_of
from tests.tui.in_process import run_ui


def answer_message(text: str) -> AssistantMessage:
    return AssistantMessage("mod_1", as_content(text), "end")


def prompt_message(text: str) -> UserMessage:
    return UserMessage(as_content(text))


CALL = AssistantMessage("mod_1", (ToolCall("call_1", "bash", "{}"),), "tool_calls")
BRANCHED = facts_of(
    prompt_message("one"),  # 2
    CALL,  # 3
    ToolCalled("call_1", "bash", {}, 1),  # 4
    ToolResultFact("call_1", "bash"),  # 5
    answer_message("first"),  # 6
    prompt_message("two"),  # 7
    answer_message("second"),  # 8
    LeafMoved(6),  # 9
    prompt_message("three"),  # 10
    answer_message("third"),  # 11
    Labelled(7, "a dead end"),  # 12
)


@pytest.mark.parametrize(
    ("filter", "entries", "marked"),
    [
        ("messages", [2, 3, 6, 7, 8, 10, 11], 11),
        ("no tools", [2, 6, 7, 8, 10, 11], 11),
        ("your prompts", [2, 7, 10], 10),
        ("labelled", [7], None),
        ("everything", [2, 3, 4, 5, 6, 7, 8, 10, 11], 11),
    ],
)
def test_a_filter_hides_entries_and_marks_the_leaf(
    filter: str, entries: list[int], marked: int | None
) -> None:
    choices = tree_choices(BRANCHED, filter)
    assert [one.value for one in choices] == entries
    assert next((one.value for one in choices if one.is_present), None) == marked


def test_children_of_a_hidden_entry_move_to_its_parent() -> None:
    rows = [one.text for one in tree_choices(BRANCHED, "your prompts")]
    assert rows == ["#2 you: one", "├─ #7 you: two  [a dead end]", "└─ #10 you: three"]
    assert next(iter(FILTERS)) == "messages"


async def test_a_label_is_set_in_the_tree_and_leads_back_to_its_entry() -> None:
    async with run_ui(answers=["first", "second"], columns=100, rows=40) as terminal:
        for prompt, answer in (("one", "first"), ("two", "second")):
            terminal.press(prompt, "enter")
            await terminal.see(answer)
            await terminal.until(lambda: not terminal.tui.conversation.is_working)
        terminal.press("/tree", "enter")
        await terminal.see("tree, messages", "← leaf")
        terminal.press("up", "up", "ctrl+l")
        await terminal.see("label of #")
        terminal.press("good", "enter")
        await terminal.see("first  [good]")
        for name in ("no tools", "your prompts", "labelled"):
            terminal.press("ctrl+o")
            await terminal.see(f"tree, {name}")
        await terminal.see("❯ #", "[good]")
        terminal.press("enter")
        await terminal.see("your next prompt follows #", "first; files do not change")
        state = terminal.tui.conversation.session.state
        assert list(state.labels.values()) == ["good"] and state.leaf in state.labels
        terminal.press("/jump two", "enter")
        await terminal.see("no prompt matches")
        terminal.press("esc")
        await terminal.until_gone("go back to before")
        terminal.press("/jump one", "enter")
        await terminal.see("your next prompt starts from the beginning")
        await terminal.until(lambda: terminal.front_end.editor_text() == "one")
