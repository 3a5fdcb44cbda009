"""Notifications and the terminal's title."""

from __future__ import annotations

from typing import Any

import pytest

from ostler.schema import events
from ostler.schema.outcomes import Question
from ostler.tui.notifications import LONG_RUN, Notifier

ASKED = events.QuestionAsked("q1", Question(kind="permission", text="May it\x1b[2J run?"))


def written(environment: dict[str, str], notify: Any, *happened: object, seconds: float = 60.0) -> str:
    out: list[str] = []
    notifier = Notifier(out.append, "project", environment, notify)
    for event in happened:
        notifier.take(event, seconds)
    return "".join(out)


@pytest.mark.parametrize(
    ("environment", "notify", "called"),
    [
        ({"TERM_PROGRAM": "iTerm.app"}, "auto", "\x1b]9;project: completed\x07"),
        ({"TERM_PROGRAM": "ghostty"}, "auto", "\x1b]9;project: completed\x07"),
        ({"TERM": "xterm-kitty"}, "auto", "\x1b]9;project: completed\x07"),
        ({"TERM": "foot"}, "auto", "\x1b]777;notify;project: completed;\x07"),
        ({"TERM": "xterm-256color"}, "auto", "\x07"),
        ({"TERM_PROGRAM": "iTerm.app", "TMUX": "x"}, "auto", "\x07"),
        ({"TERM_PROGRAM": "iTerm.app"}, "bell", "\x07"),
        ({"TERM_PROGRAM": "iTerm.app"}, "off", ""),
    ],
)
def test_a_notification_uses_the_protocol_of_the_terminal(
    environment: dict[str, str], notify: Any, called: str
) -> None:
    title = "\x1b]2;project\x07"
    assert written(environment, notify, events.RunEnded("completed")) == title + called


def test_a_short_run_does_not_notify_and_a_question_does() -> None:
    assert written({"TERM": "dumb"}, "bell", events.RunEnded("completed"), seconds=LONG_RUN - 1) == ""
    assert written({"TERM": "dumb"}, "bell", ASKED, seconds=0.1) == "\x07"
    assert written({"TERM": "dumb"}, "bell", events.RunEnded("cancelled")) == ""


def test_a_focused_terminal_is_not_notified() -> None:
    out: list[str] = []
    notifier = Notifier(out.append, "project", {"TERM": "dumb"}, "bell")
    notifier.is_focused = True
    notifier.take(events.RunEnded("completed"), 1000)
    assert out == []
    notifier.is_focused = False
    notifier.take(events.RunEnded("completed"), 0.1)
    assert out == ["\x07"]


def test_the_title_shows_the_state_and_is_restored() -> None:
    out: list[str] = []
    notifier = Notifier(out.append, "pro\x1bject", {}, "off")
    notifier.begin()
    notifier.take(events.RunStarted("1", "/", "a/b"), 0)
    notifier.take(events.QuestionAnswered("q0", "answered"), 0)
    notifier.take(ASKED, 0)
    notifier.take(events.RunEnded("completed"), 0)
    notifier.end()
    titles = [
        "\x1b]2;pro\ufffdject\x07",
        "\x1b]2;pro\ufffdject: working\x07",
        "\x1b]2;pro\ufffdject: needs you\x07",
    ]
    assert out == [
        "\x1b[22;2t\x1b[?1004h",
        *titles,
        titles[0],
        "\x1b]2;\x07\x1b[23;2t\x1b[?1004l",
    ]


def test_notifications_contain_no_control_characters() -> None:
    notification = written({"TERM": "foot"}, "auto", ASKED)
    assert notification.endswith("\x1b]777;notify;project: needs you: May it\ufffd[2J run?;\x07")


def test_focus_reports_are_off_while_another_program_has_the_terminal() -> None:
    out: list[str] = []
    with Notifier(out.append, "project", {}, "off").without_focus_reports():
        out.append("borrowed")
    assert out == ["\x1b[?1004l", "borrowed", "\x1b[?1004h"]
