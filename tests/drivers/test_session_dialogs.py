"""Agents that ask on their screens: a message never answers them, and a question in the log does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ostler.core.state import fold
from ostler.core.store import Store
from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.driver import ASKS_FIRST
from ostler.drivers.lifecycle import restart_agent_session
from ostler.schema import events, requests
from ostler.schema.errors import SessionBusy
from ostler.schema.events import QuestionAnswered, QuestionAsked
from ostler.schema.messages import Text
from ostler.schema.outcomes import Question
from ostler.store.memory import MemoryStore
from tests.drivers.dialog_choices import CHOICES, REFUSALS
from tests.drivers.screen_agents import ECHO_AGENT, QUICK, AtWork, at_work

VENDORS = tuple(CHOICES)
PROGRAM = (*ECHO_AGENT[:-1], str(Path(__file__).with_name("dialog_agent.py")))


def dialog_agent(cwd: Path, vendor: str, *arguments: str, **options: Any) -> AgentSpec:
    settings = {"agent_type": vendor, "rows": 60, "timing": QUICK, **options}
    return AgentSpec(command=(*PROGRAM, vendor, *arguments), cwd=cwd, **settings)


@asynccontextmanager
async def asking(
    folder: Path, vendor: str, message: str = "/write file", **options: Any
) -> AsyncIterator[AtWork]:
    """The agent, with an open dialog."""
    async with at_work(dialog_agent(folder, vendor, **options)) as agent:
        await agent.until_stable()
        await agent.session.send(message)
        await agent.until(lambda: agent.session.status == "asking")
        yield agent


def asked(agent: AtWork) -> QuestionAsked:
    (question,) = agent.session.journal.state.questions.values()
    return question


async def submit(agent: AtWork, request: Any) -> None:
    await agent.session.journal.store.submit(agent.session.id, request)


async def answer(agent: AtWork, **options: Any) -> None:
    question = asked(agent).id
    await submit(agent, requests.Answer(id=f"answer-{question}", question=question, **options))


def chosen(agent: AtWork) -> list[str]:
    shown = [line.strip() for line in agent.session.screen_text.split("\n")]
    return [line.removeprefix("chosen: ") for line in shown if line.startswith("chosen: ")]


def allowed(folder: Path) -> list[str]:
    file = folder / "file"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize("vendor", VENDORS)
async def test_no_message_answers_a_dialog(vendor: str, tmp_path: Path) -> None:
    async with asking(tmp_path, vendor) as agent:
        for number, text in enumerate(("yes", "1", "y", "go on\n1\n", "/help", "\x1b[201~\r")):
            with pytest.raises(SessionBusy) as refused:
                await agent.session.send(text.strip())
            assert refused.value.message == ASKS_FIRST
            await submit(agent, requests.Prompt(id=f"prompt-{number}", content=(Text(text),)))
            await submit(agent, requests.Steer(id=f"steer-{number}", content=(Text(text),)))
        await agent.until(lambda: len(agent.all(events.RequestRefused)) == 12)
        reasons = {one.request[:6]: one.reason for one in agent.all(events.RequestRefused)}
        assert reasons["prompt"] == ASKS_FIRST
        assert (agent.session.status, chosen(agent), allowed(tmp_path)) == ("asking", [], [])
        await answer(agent, declined=True)
        await agent.until_stable()
    assert allowed(tmp_path) == []


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("vendor", VENDORS)
async def test_an_answer_makes_exactly_that_choice(vendor: str, place: int, tmp_path: Path) -> None:
    async with asking(tmp_path, vendor) as agent:
        assert asked(agent).question.choices == CHOICES[vendor]
        assert "file" in asked(agent).question.text
        choice = CHOICES[vendor][place]
        await answer(agent, answer=choice, by="ann")
        await agent.until_stable()
        assert chosen(agent) == [choice]
        assert allowed(tmp_path) == ([] if choice.startswith(REFUSALS) else [choice])
        kinds = [kind for kind in agent.types if kind.startswith(("question", "run_"))]
        assert kinds == [
            *("run_started", "question_asked", "run_waiting"),
            *("question_answered", "run_resumed", "run_ended"),
        ]
        (recorded,) = agent.all(QuestionAnswered)
        assert (recorded.outcome, recorded.answer, recorded.by) == ("answered", choice, "ann")


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_declined_dialog_is_refused_in_the_agents_own_words(vendor: str, tmp_path: Path) -> None:
    async with asking(tmp_path, vendor) as agent:
        await answer(agent, declined=True)
        await agent.until_stable()
        (choice,) = chosen(agent)
        assert choice.startswith(REFUSALS)
    assert allowed(tmp_path) == []


@pytest.mark.parametrize("vendor", VENDORS)
async def test_keys_in_the_agents_terminal_withdraw_the_question(vendor: str, tmp_path: Path) -> None:
    async with asking(tmp_path, vendor) as agent:
        agent.session.press(b"n\r" if vendor in ("aider", "amazonq") else b"\x1b")
        await agent.until_stable()
        (recorded,) = agent.all(QuestionAnswered)
        assert recorded.outcome == "withdrawn"
        assert len(chosen(agent)) == 1
        await agent.ask("hello")
        assert "you said: hello" in agent.session.screen_text


async def test_moving_the_mark_with_keys_keeps_the_question(tmp_path: Path) -> None:
    async with asking(tmp_path, "claude") as agent:
        before = asked(agent)
        agent.session.press(b"\x1b[B")
        await agent.until(lambda: "❯ 2." in agent.session.screen_text)
        assert asked(agent) is before
        await answer(agent, answer="Yes")
        await agent.until_stable()
        assert chosen(agent) == ["Yes"]


@pytest.mark.parametrize("vendor", ["claude", "codex"])
async def test_the_same_dialog_twice_is_two_questions(vendor: str, tmp_path: Path) -> None:
    timing = msgspec.structs.replace(QUICK, dialog_closes=0.5)
    yes, no = CHOICES[vendor][0], CHOICES[vendor][2]
    async with asking(tmp_path, vendor, "/again file", timing=timing) as agent:
        await answer(agent, answer=yes)
        await agent.until(lambda: len(agent.all(QuestionAsked)) == 2 and agent.session.status == "asking")
        assert chosen(agent) == [yes]
        await answer(agent, answer=no)
        await agent.until_stable()
        assert chosen(agent) == [yes, no]
    assert allowed(tmp_path) == [yes]


async def test_an_answer_that_is_no_choice_is_refused(tmp_path: Path) -> None:
    async with asking(tmp_path, "claude") as agent:
        await answer(agent, answer="Perhaps")
        await agent.until(lambda: agent.all(events.RequestRefused))
        assert agent.session.status == "asking"
        assert (chosen(agent), agent.all(QuestionAnswered)) == ([], [])


async def test_a_dialog_that_cannot_be_read_is_answered_with_keys_only(tmp_path: Path) -> None:
    async with asking(tmp_path, "claude", "/odd") as agent:
        question = asked(agent).question
        assert question.choices == ("Press Escape",)
        assert "open its terminal" in question.text
        assert question.text.endswith("Press any key to howl.")
        with pytest.raises(SessionBusy):
            await agent.session.send("hello")
        await answer(agent, answer="Press Escape")
        await agent.until_stable()
        assert "howled" in agent.session.screen_text


async def test_choices_in_an_answer_above_the_input_box_are_no_dialog(tmp_path: Path) -> None:
    async with at_work(dialog_agent(tmp_path, "claude")) as agent:
        await agent.until_stable()
        await agent.ask("/choices")
        await agent.ask("hello")
        assert agent.all(QuestionAsked) == []


async def test_a_message_that_lists_choices_is_sent(tmp_path: Path) -> None:
    async with at_work(dialog_agent(tmp_path, "claude")) as agent:
        await agent.until_stable()
        await agent.ask("Which?\n1. Yes\n2. No")
        await agent.ask("> 1. Yes\n  2. No")
        assert agent.all(QuestionAsked) == []
        assert agent.texts[-1].endswith("you said:   2. No")


@pytest.mark.parametrize("vendor", VENDORS)
async def test_an_agent_that_starts_with_a_dialog_gets_its_prompt_after_the_answer(
    vendor: str, tmp_path: Path
) -> None:
    spec = dialog_agent(tmp_path, vendor, "--trust", initial_prompt="hello")
    async with at_work(spec) as agent:
        await agent.until(lambda: agent.session.status == "asking")
        assert "run_started" not in agent.types
        await answer(agent, answer=CHOICES[vendor][0])
        await agent.until(lambda: "run_ended" in agent.types)
        assert chosen(agent) == [CHOICES[vendor][0]]
        assert "you said: hello" in agent.session.screen_text


async def test_a_prompt_that_waited_before_the_dialog_is_sent_after_it(tmp_path: Path) -> None:
    async with at_work(dialog_agent(tmp_path, "claude")) as agent:
        await agent.until_stable()
        for number, text in enumerate(("/write file", "hello")):
            await submit(agent, requests.Prompt(id=f"prompt-{number}", content=(Text(text),)))
        await agent.until(lambda: agent.session.status == "asking")
        assert "you said" not in agent.session.screen_text
        await answer(agent, answer="No")
        await agent.until(lambda: agent.types.count("run_ended") == 2)
        assert agent.texts[-1].endswith("you said: hello")


async def test_an_interruption_closes_the_dialog_and_withdraws_the_question(tmp_path: Path) -> None:
    async with asking(tmp_path, "claude") as agent:
        await submit(agent, requests.Cancel(id="cancel"))
        await agent.until(lambda: "run_ended" in agent.types)
        await agent.until_stable()
        assert [one.outcome for one in agent.all(QuestionAnswered)] == ["withdrawn"]
        assert [one.status for one in agent.all(events.RunEnded)] == ["cancelled"]
    assert allowed(tmp_path) == []


@pytest.mark.parametrize("at_start", [False, True])
async def test_a_question_is_withdrawn_when_the_agent_dies(at_start: bool, tmp_path: Path) -> None:
    store: Store = MemoryStore()
    spec = dialog_agent(tmp_path, "claude", *(["--trust"] if at_start else []))
    async with at_work(spec, store) as agent:
        if not at_start:
            await agent.until_stable()
            await agent.session.send("/write file")
        await agent.until(lambda: agent.session.status == "asking")
        agent.session.driver.process.kill()
        async with asyncio.timeout(60):
            await agent.session.ended
        assert [one.outcome for one in agent.all(QuestionAnswered)] == ["withdrawn"]
        assert fold(await store.read(agent.session.id)).questions == {}


async def test_a_question_between_runs_is_withdrawn_by_the_next_owner(tmp_path: Path) -> None:
    store = MemoryStore()
    spec = dialog_agent(tmp_path, "claude")
    async with at_work(spec, store) as agent:
        await agent.until_stable()
        session = agent.session
        left = events.QuestionAsked("left", Question("May I?", "choice", ("Yes", "No")), durable=False)
        session.journal.record(left, run="")
        await session.journal.commit()
    assert "left" in fold(await store.read(session.id)).questions
    again = await restart_agent_session(store, session.id, spec)
    await again.close()
    assert fold(await store.read(session.id)).questions == {}
