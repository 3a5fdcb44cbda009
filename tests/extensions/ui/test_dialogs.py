"""Dialogs of extensions: who can answer them, and what happens to unanswered ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ostler.core.harness import Harness
from ostler.core.hooks import PlannedCall, Refuse
from ostler.core.journal import World
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.ui.types import (
    ConfirmResult,
    Content,
    InputResult,
    MultiSelectResult,
    Overlay,
    OverlayDialog,
    OverlayResult,
    OverlayStyle,
    SelectResult,
    dialog_of,
    overlay_extent,
)
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema import events
from ostler.schema.errors import UsageError
from ostler.schema.messages import as_content
from ostler.schema.requests import Answer
from ostler.sessions.run_tree import open_questions
from ostler.sessions.session import Session, open_session
from ostler.sessions.submit import submit_now
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_maintenance import check
from ostler.testkit.front_end import CANCEL, FakeFrontEnd
from tests.support.extension_front_end import opened, until
from tests.support.extension_session import extension, facts_of

COLORS = ["red", "green", "blue"]


async def wait_for_questions(session: Session, number: int = 1) -> list[events.QuestionAsked]:
    """Waits until so many questions are open."""
    await until(session, lambda: len(session.state.questions) >= number)
    return list(session.state.questions.values())


async def answer_from_elsewhere(session: Session, question: str, answer: Any, **more: Any) -> None:
    request = Answer(id=f"req_{answer}_{question}", by="phone", question=question, answer=answer, **more)
    await session.journal.store.submit(session.id, request)


async def outcomes(session: Session) -> list[tuple[str, Any]]:
    return [(one.outcome, one.answer) for one in await facts_of(session, "question_answered")]


# --- the five dialogs -------------------------------------------------------------------------------


async def test_one_of_several_options_is_selected() -> None:
    face = FakeFrontEnd("green", CANCEL, "purple")
    session, _, context = await opened(face)
    assert await context.ui.select("Which?", COLORS) == SelectResult("green", 1)
    assert await context.ui.select("Which?", COLORS) == SelectResult(cancelled=True)
    assert await context.ui.select("Which?", COLORS) == SelectResult(cancelled=True), "that is none of them"
    question = face.questions[0]
    assert (question.asked_by, question.durable, question.question.kind) == ("extension", False, "choice")
    assert question.question.choices == ("red", "green", "blue")
    assert question.question.details == {"dialog": "select", "extension": "demo"}
    assert await outcomes(session) == [
        ("answered", "green"),
        ("declined", "the dialog was closed"),
        ("declined", "nothing was chosen"),
    ]
    with pytest.raises(UsageError, match="nothing to choose from"):
        await context.ui.select("Which?", [])
    await session.close()


async def test_a_confirmation_accepts_words_and_booleans() -> None:
    face = FakeFrontEnd("yes", "no", True, False)
    session, _, context = await opened(face)
    results = [await context.ui.confirm("Sure?", default=True) for _ in range(5)]
    assert results == [
        ConfirmResult(True),
        ConfirmResult(False),
        ConfirmResult(True),
        ConfirmResult(False),
        ConfirmResult(cancelled=True),
    ]
    assert face.questions[0].question.details == {"dialog": "confirm", "default": True, "extension": "demo"}
    await session.close()


async def test_a_text_is_entered() -> None:
    face = FakeFrontEnd("Ada", "", 3)
    session, _, context = await opened(face)
    assert await context.ui.input("Name?", placeholder="yours", default="me") == InputResult("Ada")
    assert await context.ui.input("Name?") == InputResult("")
    assert await context.ui.input("Name?") == InputResult(cancelled=True), "that is no text"
    details = face.questions[0].question.details
    assert details == {"dialog": "input", "placeholder": "yours", "default": "me", "extension": "demo"}
    await session.close()


async def test_several_options_are_selected_in_their_own_order() -> None:
    face = FakeFrontEnd(["blue", "red"], [], ["purple"])
    session, _, context = await opened(face)
    assert await context.ui.multi_select("Which?", COLORS) == MultiSelectResult(("red", "blue"), (0, 2))
    assert await context.ui.multi_select("Which?", COLORS, selected=[]) == MultiSelectResult()
    assert await context.ui.multi_select("Which?", COLORS, selected=[2, 7, -1]) == MultiSelectResult(
        cancelled=True
    )
    marked = [(one.question.details or {})["selected"] for one in face.questions]
    assert marked == [[0, 1, 2], [], [2]], "all if nothing is said, and none that there is not"
    await session.close()


async def test_an_overlay_is_drawn_with_its_actions_and_one_is_chosen() -> None:
    face = FakeFrontEnd("Later", "close", CANCEL, width=50, height=10)
    session, _, context = await opened(face)
    overlay = Overlay(
        title="News",
        content=Content(render=lambda width: f"at {width}"),
        actions=("Now", "Later"),
        style=OverlayStyle("#f00", "#000"),
        anchor="top",
    )
    assert await context.ui.overlay(overlay) == OverlayResult("Later", 1)
    assert [line.strip() for line in face.overlays[0].splitlines()] == ["News", "at 30", "[Now] [Later]"]
    assert await context.ui.overlay(Overlay("News", "text")) == OverlayResult(), "closing is no cancelling"
    assert await context.ui.overlay(Overlay("News")) == OverlayResult(cancelled=True)
    dialog = dialog_of(face.questions[0].question.details)
    assert isinstance(dialog, OverlayDialog)
    assert dialog.style == OverlayStyle("#f00", "#000")
    assert [one.question.text for one in face.questions] == ["News", "News\ntext", "News"]
    await session.close()


@pytest.mark.parametrize(
    ("width", "height", "extent"),
    [(0, 0, (60, 19)), (10, 5, (30, 5)), (200, 99, (96, 24)), (50, 1, (50, 1))],
)
def test_an_overlay_fits_its_terminal(width: int, height: int, extent: tuple[int, int]) -> None:
    dialog = OverlayDialog(width=width, max_height=height)
    assert overlay_extent(dialog, 100, 24) == extent


# --- without anybody to answer ----------------------------------------------------------------------


async def test_without_a_front_end_every_dialog_is_cancelled_and_nothing_recorded() -> None:
    session, _, context = await opened()
    assert await context.ui.select("Which?", COLORS) == SelectResult("", -1, True)
    assert await context.ui.confirm("Sure?", default=True) == ConfirmResult(False, True)
    assert await context.ui.input("Name?", default="me") == InputResult("", True)
    assert await context.ui.multi_select("Which?", COLORS) == MultiSelectResult(tuple(COLORS), (0, 1, 2))
    assert await context.ui.multi_select("Which?", COLORS, selected=[1]) == MultiSelectResult(
        (COLORS[1],), (1,)
    )
    assert await context.ui.overlay(Overlay("News", actions=("Ok",))) == OverlayResult("", -1, True)
    assert await facts_of(session, "question_asked") == []
    await session.close()


async def test_a_waiting_session_takes_answers_of_other_processes_between_runs() -> None:
    session, _, context = await opened(wait_for_answers=True)
    asking = asyncio.ensure_future(context.ui.select("Which?", COLORS))
    (question,) = await wait_for_questions(session)
    results: list[Any] = []
    session.subscribe(results.extend)
    await answer_from_elsewhere(session, question.id, "purple")
    await until(session, lambda: any(isinstance(one.event, events.RequestRefused) for one in results))
    assert not asking.done()
    await answer_from_elsewhere(session, question.id, "blue")
    assert await asking == SelectResult("blue", 2)
    (answered,) = await facts_of(session, "question_answered")
    assert (answered.by, answered.request) == ("phone", f"req_blue_{question.id}")
    await session.close()


async def test_the_same_question_may_be_declined_from_elsewhere() -> None:
    session, _, context = await opened(wait_for_answers=True)
    asking = asyncio.ensure_future(context.ui.input("Name?"))
    (question,) = await wait_for_questions(session)
    await answer_from_elsewhere(session, question.id, None, declined=True)
    assert await asking == InputResult(cancelled=True)
    await session.close()


async def test_another_process_answers_a_dialog_between_runs(tmp_path: Path) -> None:
    ours, theirs = SqliteStore(tmp_path / "a.db"), SqliteStore(tmp_path / "a.db")
    session, _, context = await opened(store=ours, wait_for_answers=True)
    asking = asyncio.ensure_future(context.ui.confirm("Sure?"))
    (question,) = await wait_for_questions(session)
    await session.journal.commit()
    assert not check(theirs.path), "a session with an open dialog is not damaged"
    request = Answer(id="req_1", by="cli", question=question.id, answer="yes")
    assert await submit_now(theirs, session.id, request, session.journal.world)
    assert await asking == ConfirmResult(True)
    await session.close()
    await theirs.close()
    await ours.close()


# --- the first answer wins --------------------------------------------------------------------------


async def test_the_first_answer_wins_wherever_it_comes_from() -> None:
    never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    face = FakeFrontEnd(answer=lambda asked: never)
    session, _, context = await opened(face)
    asking = asyncio.ensure_future(context.ui.select("Which?", COLORS))
    (asked,) = await wait_for_questions(session)
    await answer_from_elsewhere(session, asked.id, "red")
    assert await asking == SelectResult("red", 0)
    await asyncio.sleep(0)
    assert never.cancelled(), "the face is told that it need not ask any more"
    await answer_from_elsewhere(session, asked.id, "blue")
    await session.advance()
    (refused,) = await facts_of(session, "request_refused")
    assert "is not open" in refused.reason
    await session.close()


async def test_several_dialogs_may_be_open_at_once() -> None:
    session, _, context = await opened(wait_for_answers=True)
    asking = asyncio.gather(context.ui.confirm("One?"), context.ui.confirm("Two?"))
    first, second = await wait_for_questions(session, 2)
    await answer_from_elsewhere(session, second.id, "yes")
    await answer_from_elsewhere(session, first.id, "no")
    assert await asking == [ConfirmResult(False), ConfirmResult(True)]
    await session.close()


# --- inside a run -----------------------------------------------------------------------------------


def gate(ostler: ExtensionAPI) -> None:
    @ostler.tool
    def remove(path: str) -> str:
        "Removes a file."
        return f"removed {path}"

    @ostler.before_tool(time_limit=0.5)
    def ask_first(call: PlannedCall, context: ExtensionContext) -> Refuse | None:
        results = context.wait(context.ui.confirm(f"Remove {call.arguments['path']}?"))
        return None if results.value else Refuse("not wanted")


def removing() -> ScriptedModel:
    return ScriptedModel([[Call("remove", {"path": "a"})], "done"])


async def test_a_dialog_does_not_count_as_time_of_a_plain_hook() -> None:
    async def answer(asked: events.QuestionAsked) -> str:
        await asyncio.sleep(0.7)  # longer than the hook has
        return "yes"

    session, _, _ = await opened(FakeFrontEnd(answer=answer), gate, model=removing())
    await session.prompt(as_content("go"))
    (result,) = await facts_of(session, "tool_result")
    assert result.failed is None
    assert await facts_of(session, "warned") == []
    await session.close()


async def test_a_dialog_of_a_hook_in_a_run_is_answered_through_the_inbox() -> None:
    session, _, _ = await opened(None, gate, model=removing(), wait_for_answers=True)
    running = asyncio.ensure_future(session.prompt(as_content("go")))
    (question,) = await wait_for_questions(session)
    results: list[Any] = []
    session.subscribe(results.extend)
    await answer_from_elsewhere(session, question.id, "maybe")
    await until(session, lambda: results)
    await answer_from_elsewhere(session, question.id, "no")
    await running
    assert len(await facts_of(session, "request_refused")) == 1, "two read the inbox, and one takes it up"
    (result,) = await facts_of(session, "tool_result")
    assert "not wanted" in str(result.content)
    assert await outcomes(session) == [("answered", "no")]
    await session.close()


async def test_a_dialog_is_withdrawn_when_the_run_of_its_hook_is_cancelled() -> None:
    session, _, _ = await opened(None, gate, model=removing(), wait_for_answers=True)
    running = asyncio.ensure_future(session.prompt(as_content("go")))
    await wait_for_questions(session)
    session.cancel()
    ended = await running
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "cancelled"
    assert await outcomes(session) == [("withdrawn", None)]
    await session.close()


async def test_an_observers_dialog_has_no_time_limit_and_outlives_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ostler.extensions.event_channel.TIME_LIMIT", 0.3)
    monkeypatch.setattr("ostler.extensions.event_channel.CATCH_UP_SECONDS", 0.5)

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(events.StepStarted)
        def begin(step: events.StepStarted, context: ExtensionContext) -> None:
            if context.wait(context.ui.confirm("Keep it?")).value:
                context.state["kept"] = True

    session, host, _ = await opened(None, setup, model=ScriptedModel(["one", "two"]), wait_for_answers=True)
    await session.prompt(as_content("go"))
    (question,) = await wait_for_questions(session)
    assert question.id in (await _state_elsewhere(session)).questions, "other processes can see it"
    await answer_from_elsewhere(session, question.id, "yes")
    await host.sessions[session.id].drain()
    assert session.state.extension_state == {"demo": {"kept": True}}
    assert await facts_of(session, "warned") == []
    await session.close()


async def test_a_dialog_of_a_command_stays_open_across_a_run() -> None:
    session, _, context = await opened(model=ScriptedModel(["done"]), wait_for_answers=True)
    asking = asyncio.ensure_future(context.ui.confirm("Sure?"))
    (question,) = await wait_for_questions(session)
    await session.prompt(as_content("go"))
    assert not asking.done()
    assert question.id in (await _state_elsewhere(session)).questions
    await answer_from_elsewhere(session, question.id, "yes")
    assert await asking == ConfirmResult(True)
    await session.close()


async def _state_elsewhere(session: Session) -> Any:
    from ostler.sessions.run_tree import load_state

    return await load_state(session.journal.store, session.id)


async def test_a_dialog_does_not_count_as_time_of_the_run() -> None:
    from ostler.schema.events import Limits

    async def answer(asked: events.QuestionAsked) -> str:
        await asyncio.sleep(0.8)
        return "yes"

    face = FakeFrontEnd(answer=answer)
    session, _, _ = await opened(face, gate, model=removing(), limits=Limits(seconds=0.6))
    ended = await session.prompt(as_content("go"))
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "completed"
    await session.close()


# --- removed extensions, cancelled handlers, dead processes -----------------------------------------


@pytest.mark.parametrize("reason", ["close", "reload"])
async def test_questions_of_an_extension_are_withdrawn_when_it_is_removed(reason: Any) -> None:
    results: list[ConfirmResult] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.command("plain")
        def plain(arguments: str, context: ExtensionContext) -> None:
            results.append(context.wait(context.ui.confirm("One?")))

        @ostler.command("async")
        async def waiting(arguments: str, context: ExtensionContext) -> None:
            results.append(await context.ui.confirm("Two?"))

    session, host, _ = await opened(None, setup, wait_for_answers=True)
    commands = [asyncio.ensure_future(host.run_command(session, name, "")) for name in ("plain", "async")]
    await wait_for_questions(session, 2)
    if reason == "reload":
        await host.replace([extension("demo", setup)])
    else:
        await session.close()
    await asyncio.gather(*commands)
    assert results == [ConfirmResult(cancelled=True)] * 2
    assert await outcomes(session) == [("withdrawn", None)] * 2
    await session.close()


async def test_a_dialog_of_code_that_is_cancelled_is_withdrawn() -> None:
    session, _, context = await opened(wait_for_answers=True)
    asking = asyncio.ensure_future(context.ui.confirm("Sure?"))
    await wait_for_questions(session)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await outcomes(session) == [("withdrawn", None)]
    await session.close()


async def test_a_dialog_of_a_process_that_died_is_withdrawn_when_the_next_run_begins(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.db")
    session, _, context = await opened(store=store, wait_for_answers=True)
    asking = asyncio.ensure_future(context.ui.confirm("Sure?"))
    await wait_for_questions(session)
    await session.journal.commit()
    dead = session.journal
    await store.release(dead.lease)  # as if it had never been
    again = await open_session(store, session.id, Harness(model=ScriptedModel(["done"])))
    assert not check(store.path)
    await again.prompt(as_content("go"))
    assert await outcomes(again) == [("withdrawn", None)]
    await again.close()
    asking.cancel()
    await asyncio.wait({asking})
    await store.close()


async def test_an_answer_to_a_process_that_died_is_refused_and_its_dialog_withdrawn(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.db")
    session, _, context = await opened(store=store, wait_for_answers=True)
    asking = asyncio.ensure_future(context.ui.confirm("Sure?"))
    (question,) = await wait_for_questions(session)
    await session.journal.commit()
    await store.release(session.journal.lease)  # as if it had never been
    state = await _state_elsewhere(session)
    assert await open_questions(store, state) == []
    answer = Answer(id="req_late", question=question.id, answer="yes")
    with pytest.raises(UsageError, match="nothing waits for the answer any more"):
        await submit_now(store, session.id, answer, World())
    assert await outcomes(session) == [("withdrawn", None)]
    asking.cancel()
    await asyncio.wait({asking})
    await store.close()


async def test_closing_waits_for_open_questions_until_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ostler.extensions.event_channel.CATCH_UP_SECONDS", 0.01)
    monkeypatch.setattr("ostler.extensions.event_channel.TIME_LIMIT", 0.05)

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(events.RunEnded)
        def end(ended: events.RunEnded, context: ExtensionContext) -> None:
            context.state["kept"] = context.wait(context.ui.confirm("Keep it?")).value

    script = ScriptedModel(["one", "two"])
    session, _, _ = await opened(None, setup, model=script, wait_for_answers=True)
    await session.prompt(as_content("go"))
    (question,) = await wait_for_questions(session)
    resting = asyncio.ensure_future(session.drain())
    assert not (await asyncio.wait({resting}, timeout=0.2))[0]
    await answer_from_elsewhere(session, question.id, "yes")
    await resting
    assert session.state.extension_state == {"demo": {"kept": True}}
    await session.prompt(as_content("go"))
    await wait_for_questions(session)
    resting = asyncio.ensure_future(session.drain())
    assert not (await asyncio.wait({resting}, timeout=0.2))[0]
    session.cancel()
    await asyncio.wait_for(resting, 60)
    await session.close()


async def test_a_question_that_cannot_be_stored_is_not_asked() -> None:
    session, _, context = await opened(FakeFrontEnd("yes"))
    with pytest.raises(UsageError, match="the question cannot be asked"):
        await context.ui.input("half a \ud800 character")
    with pytest.raises(UsageError, match="the question cannot be asked"):
        await context.ui.input("Name?", default=3)  # type: ignore[arg-type]
    await session.close()


async def test_two_plain_handlers_ask_users_concurrently() -> None:
    """The thread of the first handler waits, and must not get calls for the second."""

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.command("ask")
        def ask(question: str, context: ExtensionContext) -> str:
            return str(context.wait(context.ui.confirm(question)).value)

        @ostler.command("work")
        def work(arguments: str) -> str:
            return "worked"

    session, host, _ = await opened(None, setup, wait_for_answers=True)
    first = asyncio.ensure_future(host.run_command(session, "ask", "One?"))
    (one,) = await wait_for_questions(session)
    second = asyncio.ensure_future(host.run_command(session, "ask", "Two?"))
    _, two = await wait_for_questions(session, 2)
    await answer_from_elsewhere(session, one.id, "yes")
    assert await first == "True"
    async with asyncio.timeout(60):
        assert await host.run_command(session, "work", "") == "worked"
    await answer_from_elsewhere(session, two.id, "no")
    assert await second == "False"
    assert await host.run_command(session, "work", "") == "worked"
    await session.close()
