"""A choice is made on the screen that shows it, or not at all."""

from __future__ import annotations

import pytest

from ostler.drivers.dialog_tracker import GONE
from ostler.drivers.tracker import Tracker
from ostler.schema.errors import UsageError
from tests.drivers.played import Played, Reaction
from tests.support.paths import SHARED

BOX = f"{'─' * 60}\n> \n{'─' * 60}"
UP, DOWN, ENTER = b"\x1b[A", b"\x1b[B", b"\r"


def question(marked: int, text: str = "May I?", choices: tuple[str, ...] = ("Yes", "Always", "No")) -> str:
    rows = [f" {'❯' if at == marked else ' '} {at + 1}. {one}" for at, one in enumerate(choices)]
    return "\n".join([text, *rows, "", " Esc to cancel"])


class List:
    """A list that moves its mark as keys arrive, `step` lines at a time."""

    def __init__(self, step: int = 1, after_enter: str = BOX) -> None:
        self.marked = 0
        self.step = step
        self.after_enter = after_enter
        self.chosen: list[int] = []

    def __call__(self, keys: bytes) -> list[tuple[float, str]]:
        if keys == ENTER:
            self.chosen.append(self.marked)
            return [(0.05, self.after_enter)]
        if keys in (UP, DOWN):
            self.marked = (self.marked + (self.step if keys == DOWN else -self.step)) % 3
        return [(0.05, question(self.marked))]


def asking(react: Reaction, screen: str = "") -> Played:
    played = Played(Tracker("claude", 0.0), react, screen=screen or question(0))
    played.run(3)
    assert played.tracker.status == "asking"
    return played


def choose(played: Played, choice: int) -> None:
    assert played.tracker.dialog is not None
    played.tracker.choose(played.now, played.tracker.dialog.number, choice)
    assert played.tracker.status == "changing"


@pytest.mark.parametrize("choice", range(3))
def test_the_mark_is_moved_to_the_choice_before_enter(choice: int) -> None:
    shown = List()
    played = asking(shown)
    choose(played, choice)
    played.run(5)
    assert shown.chosen == [choice]
    assert [keys for _, keys in played.written] == [DOWN] * choice + [ENTER]
    assert (played.tracker.status, played.failed_answers) == ("stable", [])


def test_one_key_is_pressed_at_a_time() -> None:
    played = asking(lambda keys: [])
    choose(played, 2)
    played.run(1)
    assert [keys for _, keys in played.written] == [DOWN]


def test_what_cannot_be_selected_is_not_confirmed_and_asked_again() -> None:
    played = asking(lambda keys: [])
    first = played.tracker.dialog
    choose(played, 1)
    played.run(10)
    assert [keys for _, keys in played.written] == [DOWN]
    assert len(played.failed_answers) == 1
    again = played.tracker.dialog
    assert first is not None and again is not None
    assert again.dialog == first.dialog and again.number != first.number


def test_a_mark_that_never_stops_at_the_choice_is_not_followed_forever() -> None:
    places = [0, 2]

    def react(keys: bytes) -> list[tuple[float, str]]:
        places.reverse()
        return [(0.05, question(places[0]))]

    played = asking(react)
    choose(played, 1)
    played.run(30)
    assert ENTER not in [keys for _, keys in played.written]
    assert len(played.written) <= 6
    assert len(played.failed_answers) == 1


@pytest.mark.parametrize(
    "other",
    [
        question(1, "May I delete everything?"),
        question(1, choices=("Yes", "Delete everything", "No")),
        question(1, choices=("Yes", "Always")),
        BOX,
        "Loading…",
    ],
)
def test_another_dialog_does_not_get_the_answer(other: str) -> None:
    played = asking(lambda keys: [(0.05, other)])
    choose(played, 1)
    played.run(5)
    assert [keys for _, keys in played.written] == [DOWN]
    assert played.failed_answers == [GONE]


def test_a_dialog_that_enter_does_not_close_is_asked_again() -> None:
    played = asking(lambda keys: [])
    choose(played, 0)
    played.run(4)
    assert played.tracker.dialog is None
    played.run(4)
    assert [keys for _, keys in played.written] == [ENTER]
    assert played.tracker.dialog is not None
    assert played.tracker.dialog.number == 2


def test_only_the_dialog_that_was_asked_about_can_be_answered() -> None:
    played = asking(List())
    with pytest.raises(UsageError, match="no longer on the screen"):
        played.tracker.choose(played.now, 7, 0)
    choose(played, 0)
    with pytest.raises(UsageError, match="no longer on the screen"):
        played.tracker.choose(played.now, 1, 0)


def below_a_box(mark: str) -> str:
    return f"╭{'─' * 58}╮\n│ $ rm -rf orchard{' ' * 41}│\n╰{'─' * 58}╯\n {mark} 1. Yes\n   2. No"


@pytest.mark.parametrize("agent_type", ["claude", "copilot", "auggie", "cursor", "gemini"])
def test_choices_below_a_frame_that_looks_like_an_input_box_are_a_dialog(agent_type: str) -> None:
    played = Played(Tracker(agent_type, 0.0), screen=BOX)
    played.run(3)
    played.draw(below_a_box("❯"))
    played.run(4)
    assert played.tracker.status == "asking"


@pytest.mark.parametrize("typed", ["1. Yes\n  2. No", "one\n  two", "1. a\n  2. b\n  3. c"])
@pytest.mark.parametrize("agent_type", ["claude", "gemini"])
def test_a_draft_in_the_input_box_is_no_dialog(agent_type: str, typed: str) -> None:
    played = Played(Tracker(agent_type, 0.0), screen=BOX)
    played.run(3)
    played.draw(f"hello\n{'─' * 60}\n> {typed}\n{'─' * 60}")
    played.run(4)
    assert played.tracker.status == "stable"


UPSTREAM = sorted((SHARED / "agentapi").glob("format/*/*/msg.txt"))


@pytest.mark.parametrize("path", UPSTREAM, ids=lambda path: "-".join(path.parts[-3:-1]))
def test_only_a_screen_that_asks_is_taken_for_a_dialog(path: object) -> None:
    agent_type, case = path.parts[-3:-1]  # type: ignore[attr-defined]
    played = Played(Tracker(agent_type, 0.0), screen=path.read_text())  # type: ignore[attr-defined]
    played.run(4)
    asks = case == "confirmation_box"
    assert played.tracker.status == ("asking" if asks else "stable")
    if asks and played.tracker.dialog is not None:
        dialog = played.tracker.dialog.dialog
        assert dialog.labels[:2] == ("Run (y) (enter)", "Reject (esc or p)")
        assert "$ git remote -v in ." in dialog.text
