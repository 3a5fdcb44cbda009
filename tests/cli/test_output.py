"""What the console prints during a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostler.cli.output import ConsoleOutput, print_waiting
from ostler.core.questions import OpenQuestion
from ostler.schema import events
from ostler.schema.events import Event, QuestionAsked, RunWaiting, Totals
from ostler.schema.facts import Fact
from ostler.schema.outcomes import Display, Question
from ostler.schema.usage import Usage


def facts(*happened: Event) -> list[Fact]:
    return [
        Fact.of(event, seq=seq, session="ses_1", run="run_1", time_ms=0, parent=0)
        for seq, event in enumerate(happened, 2)
    ]


def test_a_child_is_printed_when_it_starts_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    cheap = Totals(steps=4, usage=Usage(cost=0.0021))
    unknown = Totals(steps=1, usage=Usage())
    ConsoleOutput("notices", shows_work=True).see(
        facts(
            events.ToolCalled("call_1", "delegate", {"task": "look"}, 1, kind="agent"),
            events.ChildStarted("call_1", "ses_2", task="look\naround"),
            events.ChildStarted("call_2", "ses_3", "critic", "judge"),
            events.ChildEnded("call_2", "ses_3", "completed", own=cheap),
            events.ChildEnded("call_1", "ses_2", "limit", own=unknown),
            events.ChildStarted("call_5", "ses_4", "claude", "build"),
            events.ChildUsed("call_5", "ses_4", Usage(cost=0.5)),
            events.ChildEnded("call_5", "ses_4", "completed"),
            events.ToolCalled("call_3", "read", {"path": "a.txt"}, 1),
            events.ToolCalled("call_4", "beds", {"of": "sage"}, 1, display=Display(title="Beds of {of}")),
        )
    )
    assert capsys.readouterr().err.splitlines() == [
        "ostler: delegate: look around",
        "ostler: critic: judge",
        "ostler: critic: completed, 4 steps, $0.0021",
        "ostler: delegate: limit, 1 step, cost unknown",
        "ostler: claude: build",
        "ostler: claude: completed, $0.50",
        "ostler: read: a.txt",
        "ostler: beds: Beds of sage",
    ]


def test_a_waiting_run_prints_who_asks_and_how_to_continue(capsys: pytest.CaptureFixture[str]) -> None:
    own = OpenQuestion("ses_1", QuestionAsked("q_1", Question("Why?")))
    childs = OpenQuestion("ses_2", QuestionAsked("q_2", Question("Allow it?", "permission")), "critic")
    waiting = RunWaiting("question")
    print_waiting(waiting, "ses_1", [own, childs], Path())
    assert capsys.readouterr().err.splitlines() == [
        "ostler: waiting for an answer [q_1]: Why?",
        "ostler: waiting for an answer (critic) [q_2]: Allow it?",
        "ostler: the run waits in session ses_1; `ostler answer ses_1 --question ID ANSWER` continues it",
    ]
    print_waiting(waiting, "ses_1", [childs], Path())
    assert "`ostler answer ses_1 yes` continues it" in capsys.readouterr().err
    print_waiting(RunWaiting("pending"), "ses_1", [], Path())
    assert "for a deferred call; `ostler runs` shows it" in capsys.readouterr().err


def test_a_waiting_run_prints_the_possible_answers(capsys: pytest.CaptureFixture[str]) -> None:
    form = {"properties": {"port": {"type": "integer"}}}
    questions = [
        Question("Which bed?", "choice", choices=("2", "5"), reason="both are free"),
        Question("Where?", "form", form=form),
        Question("PIN?", secret=True),
    ]
    for question in questions:
        print_waiting(
            RunWaiting("question"),
            "ses_1",
            [OpenQuestion("ses_1", QuestionAsked("q_1", question))],
            Path(),
        )
    assert capsys.readouterr().err.splitlines()[::2] == [
        "ostler: waiting for an answer: Which bed? (both are free) [2 / 5]",
        'ostler: waiting for an answer: Where? [JSON: {"properties":{"port":{"type":"integer"}}}]',
        "ostler: waiting for an answer: PIN? [a secret]",
    ]
