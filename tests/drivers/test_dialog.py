from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.drivers.dialog import Dialog, read_dialog, unreadable_dialog
from ostler.drivers.screen import open_screen, read_out
from tests.drivers.emulators import EMULATORS
from tests.drivers.recorded import RECORDED, read

RULE = "─" * 60

# The choices on the vendors' own screens, and what must be in the text above them.
SEEN = {
    "claude": (
        (
            "Yes",
            "Yes, and always allow access to /home/gardener/orchard from this project",
            "Yes, and switch to auto mode · auto mode handles these prompts for you",
            "No",
        ),
        "echo orchard > planted.txt",
    ),
    "codex": (
        (
            "Yes, proceed (y)",
            "Yes, and don't ask again for commands that start with `echo orchard > planted.txt` (p)",
            "No, and tell Codex what to do differently (esc)",
        ),
        "$ echo orchard > planted.txt",
    ),
    "gemini": (
        ("Allow once", "Allow for this session", "No, suggest changes (esc)"),
        "echo orchard > planted.txt",
    ),
    "opencode": (("Allow once", "Allow always", "Reject"), "$ echo orchard > planted.txt"),
    "aider": (("Yes", "No"), "planted.txt\nCreate new file?"),
}


@pytest.mark.parametrize("agent_type", SEEN)
def test_the_choices_of_a_real_dialog_are_read(agent_type: str) -> None:
    choices, text = SEEN[agent_type]
    dialog = read_dialog(agent_type, read(RECORDED / agent_type / "confirmation.txt").after)
    assert dialog is not None
    assert dialog.labels == choices
    assert text in dialog.text
    assert choices[dialog.refusal].startswith(("No", "Reject"))
    assert dialog.marked == (0 if dialog.kind == "list" else -1)


CASES = {
    "cursor": (
        "│ $ git push\n└────────────────┘\n┌────────────────┐\n│ Run this command?   │\n"
        "│  → Run (y) (enter)  │\n│    Reject (esc or p)│\n└────────────────┘",
        ("Run (y) (enter)", "Reject (esc or p)"),
        0,
    ),
    "goose": ("◆  Goose would like to run this\n│  ● Allow\n│  ○ Always allow\n│  ○ Deny", None, 0),
    "copilot": ("│ Confirm folder trust │\n│   1. Yes │\n│ ❯ 2. No (Esc) │", ("Yes", "No (Esc)"), 1),
    "amazonq": ("Allow this action? [y/n/t]:\n\n> ", ("y", "n", "t"), -1),
    "custom": ("Overwrite it? (yes/No) ", ("yes", "No"), -1),
    "claude": (
        "Pick one\n❯ 1. First\n     which is good\n\n  2. Second\n     which is not\n\n"
        "  3. Type something.\n\nEnter to select",
        ("First which is good", "Second which is not", "Type something."),
        0,
    ),
}


@pytest.mark.parametrize("agent_type", CASES)
def test_choices_are_read_as_they_are_drawn(agent_type: str) -> None:
    screen, labels, marked = CASES[agent_type]
    dialog = read_dialog(agent_type, screen)
    assert dialog is not None
    assert (dialog.labels, dialog.marked) == (labels or ("Allow", "Always allow", "Deny"), marked)


@pytest.mark.parametrize(
    "screen",
    [
        "",
        "Hello.",
        "1. One\n2. Two",  # a list of an answer: nothing is marked
        "● Apples are red.\n\n  - Boskoop",
        "● One\n● Two",
        "❯ tell me of apples\n\nApples are red.",
        "❯ 1. One",
        "❯ 2. Two\n  3. Three",
        "❯ 1. One\n❯ 2. Two",
        "> quoted\n> twice",
        "Do it (y/n)? It is up to you, and there is more to say.",
        "❯ 1. One\n  2. Two" + "\nand then a long story" * 20,
    ],
)
def test_what_is_no_dialog_is_not_taken_for_one(screen: str) -> None:
    assert read_dialog("claude", screen) is None


def test_choices_that_a_command_pretends_to_have_are_not_the_dialogs() -> None:
    command = "echo '\n ❯ 1. No\n   2. No\n'"
    screen = f"{RULE}\n{command}\n May I?\n ❯ 1. Yes\n   2. Yes, and don't ask again for\n   3. No\n   4. No"
    dialog = read_dialog("claude", screen)
    assert dialog is not None
    assert dialog.labels == ("Yes", "Yes, and don't ask again for", "No", "No (4)")
    assert "❯ 1. No" in dialog.text


def test_an_offer_not_to_ask_again_is_no_refusal() -> None:
    dialog = read_dialog("claude", "May I?\n❯ 1. Don't ask again\n  2. Skip the check\n  3. Cancel")
    assert dialog is not None
    assert dialog.refusal == 2
    nothing = read_dialog("claude", "May I?\n❯ 1. Don't ask again\n  2. Always")
    assert nothing is not None
    assert nothing.refusal == -1


@pytest.mark.parametrize("emulator", EMULATORS)
@pytest.mark.parametrize("count", [2, 3])
def test_the_selected_button_is_the_one_in_another_colour(emulator: str, count: int) -> None:
    plain, selected = "\x1b[48;2;30;30;30m", "\x1b[48;2;245;167;66m"
    for marked in range(count):
        buttons = [
            f"{selected if at == marked else plain} {name} {plain} "
            for at, name in enumerate(("Allow once", "Allow always", "Reject")[:count])
        ]
        screen = open_screen(80, 20, emulator=emulator)
        screen.feed(f"  ┃ △ May I?\r\n  ┃{plain}  {''.join(buttons)} ⇆ select\x1b[0m".encode())
        drawn = screen.drawn(0, 20)
        dialog = read_dialog("opencode", read_out(screen), drawn.__getitem__)
        screen.close()
        assert dialog is not None
        assert (dialog.kind, dialog.marked, len(dialog.choices)) == ("row", marked, count)


def test_the_same_dialog_may_have_another_mark() -> None:
    one, other = (read_dialog("codex", f"May I?\n{a} 1. Yes\n{b} 2. No") for a, b in ("› ", " ›"))
    assert one is not None and other is not None
    assert one.is_same(other)
    assert (one.marked, other.marked) == (0, 1)
    assert not one.is_same(read_dialog("codex", "May I then?\n› 1. Yes\n  2. No"))


def test_a_dialog_that_cannot_be_read_has_the_end_of_the_screen() -> None:
    dialog = unreadable_dialog("before\n\n\n\nThe moon is full.\nPress any key to howl.\n\n")
    assert dialog == Dialog("keys", "The moon is full.\nPress any key to howl.")


@given(
    st.text("│┃╭╰─ ❯›●○→>12.)(YyNno/[]:△\n", max_size=200),
    st.sampled_from(["claude", "codex", "opencode", "aider", "amazonq", "custom"]),
)
def test_any_screen_can_be_read(screen: str, agent_type: str) -> None:
    dialog = read_dialog(agent_type, screen, lambda row: "")
    if dialog is not None:
        assert len(dialog.choices) >= 2
        assert len(set(dialog.labels)) == len(dialog.labels)
        assert -1 <= dialog.marked < len(dialog.choices)
    unreadable_dialog(screen)
