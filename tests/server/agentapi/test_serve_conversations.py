"""An agent behind `ostler serve`, as agentapi's clients find it: conversations, prompts, API v1."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.agents.serving.served_agent import BASIC, GREETING, PYTHON, ServedAgent, scripted, serving_agent
from tests.support.command import Ostler
from tests.support.paths import TESTS

ACP_ECHO = str(TESTS / "agents" / "serving" / "acp_echo.py")
HELLO = ("agent", "Hello! I am ready.")
ASKED = ("user", "This is a test message.")
ANSWERED = ("agent", "Echo: This is a test message.")


def test_a_message_is_answered(ostler: Ostler) -> None:
    with serving_agent(ostler, agent=scripted(ostler, BASIC)) as served:
        served.until_stable()
        assert served.messages == [HELLO]
        served.say("This is a test message.")
        served.until_stable()
        assert served.messages == [HELLO, ASKED, ANSWERED]
        about = served.http.get("/status").json()
        assert (about["agent_type"], about["transport"]) == ("custom", "pty")
        assert served.http.get("/", follow_redirects=False).headers["location"] == "/chat/embed"
        assert served.http.get("/chat/embed").status_code == 200
        assert served.end().code == 0


def test_it_is_running_while_it_thinks_and_says_two_things_as_one(ostler: Ostler) -> None:
    turns = [
        GREETING,
        {"expects": "What is the answer?", "thinks": 0.5, "says": "Let me think."},
        {"thinks": 0.5, "says": "It is 42."},
    ]
    with serving_agent(ostler, agent=scripted(ostler, turns)) as served:
        served.until_stable()
        served.say("What is the answer?")
        assert served.status == "running"
        served.until_stable()
        assert [role for role, _ in served.messages] == ["agent", "user", "agent"]
        assert [line.strip() for line in served.messages[2][1].split("\n")] == ["Let me think.", "It is 42."]


@pytest.mark.parametrize(
    ("options", "variables", "piped"),
    [
        ((), {}, b"  This is a test message.\n"),
        pytest.param(("-I", "-"), {}, b"This is a test message.\n", marks=pytest.mark.long),
        pytest.param(
            ("--initial-prompt", "This is a test message."), {}, b"something else", marks=pytest.mark.long
        ),
        ((), {"AGENTAPI_INITIAL_PROMPT": "This is a test message."}, None),
    ],
    ids=["piped", "from standard input", "by a flag", "by a variable"],
)
def test_the_initial_prompt_is_sent_once_the_agent_is_ready(
    ostler: Ostler, options: tuple[str, ...], variables: dict[str, str], piped: bytes | None
) -> None:
    with serving_agent(ostler, *options, agent=scripted(ostler, BASIC), piped=piped, **variables) as served:
        assert served.status == "running"
        served.until_stable()
        assert served.messages == [HELLO, ASKED, ANSWERED]


def test_an_input_that_stays_silent_is_not_waited_for(ostler: Ostler) -> None:
    silent, writer = os.pipe()
    try:
        with serving_agent(ostler, agent=scripted(ostler, BASIC), stdin=silent) as served:
            served.until_stable()
            assert served.messages == [HELLO]
    finally:
        os.close(silent)
        os.close(writer)


def test_the_session_is_in_the_other_api_and_in_the_store(ostler: Ostler) -> None:
    with serving_agent(ostler, agent=scripted(ostler, BASIC)) as served:
        served.until_stable()
        served.say("This is a test message.")
        served.until_stable()
        assert served.http.get("/api/v1/sessions").status_code == 401
        assert [one["id"] for one in served.api("sessions")["sessions"]] == [served.session]
        facts = served.api(f"sessions/{served.session}/events")["facts"]
        types = [fact["type"] for fact in facts]
        assert types[0] == "session_started"
        assert types[-1] == "run_ended"
        with served.http.stream("GET", "/internal/terminal") as live:
            lines = live.iter_lines()
            assert [next(lines), next(lines)] == ["event: size", 'data: {"columns":80,"rows":1000}']
        assert served.end().code == 0
    shown = ostler("sessions", "show", served.session)
    assert "Echo: This is a test message." in shown.out


@pytest.mark.parametrize("options", [("--experimental-acp",), ("--transport", "acp", "-I", "one")])
def test_an_agent_that_speaks_acp_has_no_screen_and_no_greeting(
    ostler: Ostler, options: tuple[str, ...]
) -> None:
    with serving_agent(ostler, *options, agent=(*PYTHON, ACP_ECHO)) as served:
        served.until_stable()
        about = served.http.get("/status").json()
        assert (about["agent_type"], about["transport"]) == ("custom", "acp")
        begun = [("user", "one"), ("agent", "Echo: one")] if "-I" in options else []
        assert served.messages == begun
        served.say("two")
        served.until_stable()
        assert served.messages == [*begun, ("user", "two"), ("agent", "Echo: two")]
        assert served.http.get("/internal/terminal").status_code == 404
        assert served.end().code == 0


def test_it_can_be_asked_for_over_agentapis_own_command_line(ostler: Ostler) -> None:
    with serving_agent(ostler, "--term-width=100", agent=scripted(ostler, BASIC), said_as="server") as served:
        assert served.http.get("/status").status_code == 200


def test_the_flag_says_which_agent_it_is_and_else_the_command(ostler: Ostler) -> None:
    program = ostler.work / "claude"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    for options, agent_type in (((), "claude"), (("--type=goose",), "goose")):
        with serving_agent(ostler, *options, agent=("./claude",)) as served:
            assert served.http.get("/status").json()["agent_type"] == agent_type


@pytest.mark.parametrize(
    "options",
    [
        (),
        pytest.param(("--ready-timeout", "0.4"), marks=pytest.mark.long),
        pytest.param(("--ready-regex", "^ask me"), marks=pytest.mark.long),
    ],
)
def test_a_custom_agent_without_a_known_box_becomes_ready(ostler: Ostler, options: tuple[str, ...]) -> None:
    agent = (*PYTHON, "-c", "import sys\nprint('ask me')\nfor line in sys.stdin: print('heard', line)")
    with serving_agent(ostler, *options, agent=agent) as served:
        served.until_stable()
        served.say("something")
        served.until_stable()
        assert "heard something" in served.messages[-1][1]


def test_the_agent_gets_the_given_folder_and_terminal_size(ostler: Ostler) -> None:
    code = "import os, sys; print(os.getcwd(), *os.get_terminal_size()); sys.stdin.read()"
    where = ostler.work / "deep"
    where.mkdir()
    with serving_agent(
        ostler, "--cwd", "deep", "-W", "120", "-H", "30", "--ready-regex", "deep", agent=(*PYTHON, "-c", code)
    ) as served:
        served.until_stable()
        assert served.messages[0][1].replace("\n", "") == f"{where} 120 30"


@pytest.mark.long
def test_with_the_usual_timing_a_message_is_answered_within_some_seconds(ostler: Ostler) -> None:
    process = ostler.start("serve", "--port", "0", "--", *scripted(ostler, BASIC), stdout=subprocess.DEVNULL)
    try:
        served = ServedAgent(ostler, process)
        with served.http:
            served.until_stable()
            served.say("This is a test message.")
            served.until_stable()
            assert served.messages == [HELLO, ASKED, ANSWERED]
            assert served.end().code == 0
    finally:
        process.kill()
        process.communicate()
