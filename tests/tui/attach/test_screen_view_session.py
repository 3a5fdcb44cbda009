"""The screen of an agent that `ostler serve -- AGENT` serves: at its root, and as a session of the API."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ostler.server.tokens import TokenStore
from tests.agents.serving.served_agent import ServedAgent, serving_agent
from tests.drivers.screen_agents import ECHO_AGENT
from tests.support.attach import Attach
from tests.support.command import Ostler
from tests.tui.terminal import Terminal

GREETING = "Hello, I repeat things."


@pytest.fixture
def served(ostler: Ostler) -> Iterator[ServedAgent]:
    with serving_agent(ostler, agent=ECHO_AGENT) as agent:
        yield agent


def token(ostler: Ostler, scope: str = "all") -> str:
    return TokenStore(ostler.home / "tokens.json").new(f"attach {time.monotonic_ns()}", scope)  # type: ignore[arg-type]


def flat(terminal: Terminal) -> str:
    return terminal.screen().replace("\n", "")


def test_the_same_screen_is_served_at_the_root_and_through_the_api(
    attach: Attach, served: ServedAgent, ostler: Ostler
) -> None:
    root = attach(served.url)
    through_api = attach(served.url, "--session", served.session, OSTLER_TOKEN=token(ostler))
    watching = attach(
        f"{served.url}api/v1/sessions/{served.session}", OSTLER_TOKEN=token(ostler, "observe"), columns=200
    )
    for terminal in (root, through_api, watching):
        terminal.wait_for(GREETING)
    through_api.type("from the api\r")
    root.wait_for("you said: from the api")
    root.type("from the root\r")
    for terminal in (root, through_api, watching):
        terminal.wait_for("you said: from the root")
        terminal.wait_for("custom")
    watching.type("x")
    watching.wait_for("may not do this")
    root.type("\x1d")
    assert root.wait_for_end() == 0
    through_api.type("/exit 0\r")
    for terminal in (through_api, watching):
        assert terminal.wait_for_end() == 0
        assert flat(terminal) == "ostler: the agent has ended"


@pytest.mark.parametrize("token_argument", ["", "ostler_wrong"])
def test_a_wrong_token_is_reported_in_one_line_with_advice(
    attach: Attach, served: ServedAgent, ostler: Ostler, token_argument: str
) -> None:
    terminal = attach(served.url, "--session", served.session, OSTLER_TOKEN=token_argument)
    assert terminal.wait_for_end() == 4
    assert "requires a login" in flat(terminal)
    assert "ostler token new" in flat(terminal)
    assert not token_argument or token_argument not in terminal.everything()
