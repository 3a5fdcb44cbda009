"""An agent that asks on its screen, over agentapi's routes: messages are refused, keys are not."""

from __future__ import annotations

from pathlib import Path
from signal import SIGKILL

import pytest

from ostler.schema import requests
from tests.agents.serving.served_agent import serving_agent
from tests.drivers.dialog_choices import CHOICES
from tests.drivers.test_session_dialogs import PROGRAM, allowed, asked, asking, chosen, submit
from tests.server.agentapi.served_agent import serving
from tests.support.command import Ostler, wait_until

REFUSED = (
    "failed to send message: message can only be sent when the agent is waiting for user input: "
    "it asks a question, which a message cannot answer; answer that first"
)


@pytest.mark.parametrize("vendor", ["claude", "codex", "aider"])
async def test_a_message_is_refused_while_the_agent_asks_and_keys_answer(vendor: str, tmp_path: Path) -> None:
    async with asking(tmp_path, vendor) as agent, serving(agent.session, tmp_path) as served:
        assert await served.status() == "running"
        shown = (await served.texts())[-1]
        assert "file" in shown and CHOICES[vendor][0][-3:] in shown
        for text in ("yes", "1", "y", "hello", "/help", "1\n2"):
            refused = await served.say(text)
            assert refused.status_code == 500
            problem = refused.json()
            assert [one["message"] for one in problem["errors"]] == [REFUSED]
            problem.pop("$schema", None)
            assert {**problem, "errors": []} == {
                "title": "Internal Server Error",
                "status": 500,
                "detail": "unexpected error occurred",
                "errors": [],
            }
        assert (chosen(agent), allowed(tmp_path), (await served.texts())[-1]) == ([], [], shown)
        keys = "y\r" if vendor == "aider" else "\r"
        assert (await served.say(keys, "raw")).status_code == 200
        await agent.until_stable()
        assert await served.status() == "stable"
        assert allowed(tmp_path) == [CHOICES[vendor][0]]
        assert (await served.say("hello")).status_code == 200


async def test_the_status_and_the_errors_of_the_stream_keep_their_shape(tmp_path: Path) -> None:
    async with (
        asking(tmp_path, "gemini") as agent,
        serving(agent.session, tmp_path) as served,
        served.events() as events,
    ):
        seen = [await anext(events) for _ in range(4)]
        assert seen[-1] == ("status_change", {"status": "running", "agent_type": "gemini"})
        question = asked(agent).id
        await submit(agent, requests.Answer(id="a", question=question, answer="Allow once"))
        async for name, data in events:
            assert name in ("message_update", "status_change")
            if name == "status_change":
                assert data == {"status": "stable", "agent_type": "gemini"}
                break


@pytest.mark.parametrize("at_start", [False, True])
def test_a_question_of_the_screen_is_answered_from_the_command_line(ostler: Ostler, at_start: bool) -> None:
    command = (*PROGRAM, "claude", *(["--trust"] if at_start else []))
    with serving_agent(ostler, "--type", "claude", agent=command) as served:
        if not at_start:
            served.until_stable()
            served.say("/write file")
        answer = ("answer", served.session, "Yes")
        wait_until(lambda: ostler(*answer).code == 0)
        served.until_stable()
        assert "chosen: Yes" in served.messages[-1][1]
    assert (ostler.work / ("trust" if at_start else "file")).read_text() == "Yes\n"


@pytest.mark.parametrize("at_start", [False, True])
def test_after_kill_9_nothing_waits_for_an_answer_and_nothing_was_allowed(
    ostler: Ostler, at_start: bool
) -> None:
    command = (*PROGRAM, "claude", *(["--trust"] if at_start else []))
    with serving_agent(ostler, "--type", "claude", agent=command) as served:
        if not at_start:
            served.until_stable()
            served.say("/write file")
        wait_until(lambda: "is not open" in ostler("answer", served.session, "Yes", "--question", "x").err)
        served.end(SIGKILL)
    assert ostler("sessions", "check").code == 0
    late = ostler("answer", served.session, "Yes")
    assert late.code != 0
    with serving_agent(ostler, "--type", "claude", agent=(*PROGRAM, "claude")) as again:
        again.until_stable()
        assert again.session != served.session
    assert ostler("answer", served.session, "Yes").code != 0
    assert not (ostler.work / "file").exists() and not (ostler.work / "trust").exists()
    facts = ostler("sessions", "show", served.session, "--json").out
    if not at_start:
        assert '"withdrawn"' in facts and '"interrupted"' in facts
