"""The page of one agent, over agentapi's wire: `/chat/embed`, without a token."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.agents.serving.served_agent import ServedAgent, serving_agent
from tests.drivers.screen_agents import ECHO_AGENT
from tests.server.browser.agent_sites import GREETING, PAINTED_AGENT, AgentVisitor, alone
from tests.server.browser.conftest import Visit
from tests.server.browser.material import PROMPT
from tests.server.browser.pictures import picture
from tests.server.browser.test_looks import (
    PHONE,
    names_are_there,
    nothing_is_wider_than_the_window,
    text_can_be_read,
)
from tests.support.command import Ostler
from tests.support.paths import TESTS

pytestmark = pytest.mark.long
ACP_ECHO = TESTS / "agents" / "serving" / "acp_echo.py"

Serve = Callable[..., ServedAgent]


@pytest.fixture
def serve_alone(ostler: Ostler) -> Iterator[Serve]:
    with ExitStack() as running:

        def begin(*options: str, agent: tuple[str, ...] = ECHO_AGENT) -> ServedAgent:
            served = running.enter_context(serving_agent(ostler, *options, agent=agent))
            served.until_stable()
            return served

        yield begin


def asked_for(page: Page) -> list[str]:
    """The paths of all requests of a page from now on."""
    paths: list[str] = []
    page.on("request", lambda request: paths.append(re.sub(r"^https?://[^/]+", "", request.url)))
    return paths


def test_a_whole_conversation_needs_no_token_and_nothing_of_our_own_api(
    serve_alone: Serve, visit: Visit
) -> None:
    served = serve_alone()
    at = visit(alone(served, "/"))
    assert at.page.url == f"{at.address}/chat/embed"
    agent = AgentVisitor(at)
    paths = asked_for(at.page)
    expect(at.answers).to_contain_text(GREETING)
    agent.ask("Hello over there")
    agent.ask("see https://example.org/a.")
    link = at.answers.last.get_by_role("link", name="https://example.org/a")
    expect(link).to_have_attribute("target", "_blank")
    expect(at.prompts).to_have_text(["Hello over there", "see https://example.org/a."])
    expect(agent.terminal).to_contain_text("you said: Hello over there")
    agent.keyboard.press_sequentially("by hand")
    expect(agent.terminal).to_contain_text("> by hand")
    agent.keyboard.press("Enter")
    expect(agent.terminal).to_contain_text("you said: by hand")
    agent.until_it_waits()
    names_are_there(at)

    at.page.reload()
    expect(at.prompts).to_have_count(2)
    second = AgentVisitor(visit(alone(served), beside=at))
    expect(second.at.prompts).to_have_count(2)
    second.ask("from the other tab")
    expect(at.prompts.last).to_have_text("from the other tab")
    assert not [path for path in paths if "/api/" in path], paths
    assert at.page.context.cookies() == []


def test_the_page_has_a_header_beside_its_frame(serve_alone: Serve, visit: Visit) -> None:
    served = serve_alone("--type", "goose")
    for path, has_header in (
        ("/chat", True),
        ("/chat/", True),
        ("/chat/embed", False),
        ("/chat/embed/", False),
    ):
        at = visit(alone(served, path))
        expect(AgentVisitor(at).status).to_contain_text("Goose")
        expect(at.answers.first).to_contain_text(GREETING)
        expect(at.page.get_by_role("button", name=re.compile("^Theme"))).to_have_count(int(has_header))


def test_stop_and_keys_reach_the_agent(serve_alone: Serve, visit: Visit) -> None:
    agent = AgentVisitor(visit(alone(serve_alone(agent=PAINTED_AGENT))))
    agent.at.say("/work")
    expect(agent.status).to_contain_text("working")
    agent.at.message.fill("too early")
    agent.at.message.press("Enter")
    expect(agent.at.message).to_have_value("too early")
    expect(agent.page.get_by_text("The agent is working: wait, or stop it.")).to_be_visible()
    with agent.page.expect_request("**/message") as stopped:
        agent.at.button("Stop").click()
    assert stopped.value.post_data_json == {"content": "\x1b", "type": "raw"}
    expect(agent.at.answers.last).to_contain_text("Stopped.")
    agent.until_it_waits()
    expect(agent.at.message).to_have_value("too early")

    keys = agent.control()
    keys.press_sequentially("ok")
    expect(agent.page.get_by_role("list", name="Keys sent").get_by_role("listitem")).to_have_text(["o", "k"])
    expect(agent.terminal).to_contain_text("> ok")
    with agent.page.expect_request("**/message") as pressed:
        keys.press("ArrowUp")
    assert pressed.value.post_data_json == {"content": "\x1b[A", "type": "raw"}


def test_files_are_uploaded_and_named_by_their_path(serve_alone: Serve, visit: Visit, tmp_path: Path) -> None:
    at = visit(alone(serve_alone()))
    paths = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for path in paths:
        path.write_text(path.name)
    at.message.fill("look at")
    at.page.locator("input[type=file]").set_input_files(paths)
    expect(at.message).to_have_value(re.compile(r'look at @"(.+)/one\.txt" @"(.+)/two\.txt"'))
    kept = re.findall(r'@"([^"]+)"', at.message.input_value())
    assert [Path(path).read_text() for path in kept] == ["one.txt", "two.txt"]
    drop = """
    ([type, name]) => {
      const data = new DataTransfer();
      data.items.add(new File(["x".repeat(11 * 1024 * 1024)], name));
      document.querySelector("main").dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true}));
    }
    """
    at.page.evaluate(drop, ["dragover", "large.bin"])
    expect(at.page.get_by_text("Drop files here")).to_be_visible()
    at.page.evaluate(drop, ["drop", "large.bin"])
    expect(at.page.get_by_text("Drop files here")).to_be_hidden()
    expect(at.page.get_by_text("large.bin: file size exceeds 10MB limit")).to_be_visible()


def test_errors_are_shown_and_stay(serve_alone: Serve, visit: Visit, ostler: Ostler) -> None:
    state = ostler.work / "state.json"
    state.write_text("no state")
    at = visit(alone(serve_alone("--state-file", str(state))))
    said = at.page.get_by_text(re.compile("failed to unmarshal state"))
    expect(said).to_be_visible()
    at.page.context.set_offline(True)
    at.page.context.set_offline(False)
    expect(said).to_have_count(1)
    at.button("Dismiss").click()
    expect(said).to_have_count(0)
    at.page.route(
        "**/message",
        lambda route: route.fulfill(
            status=500,
            content_type="application/problem+json",
            body='{"detail":"unexpected error occurred","errors":[{"message":"it is somewhere else"}]}',
        ),
    )
    at.say("hello")
    expect(at.page.get_by_text("unexpected error occurred: it is somewhere else")).to_be_visible()
    expect(at.message).to_have_value("hello")


def test_an_agent_without_a_terminal_is_talked_to(serve_alone: Serve, visit: Visit) -> None:
    served = serve_alone("--transport", "acp", agent=(sys.executable, str(ACP_ECHO)))
    at = visit(alone(served))
    at.say("hello")
    expect(at.prompts).to_have_text(["hello"])
    expect(at.answers.last).to_contain_text("hello")
    AgentVisitor(at).until_it_waits()
    expect(at.page.get_by_role("group", name="Layout")).to_have_count(0)
    expect(at.page.get_by_role("tab", name="Control")).to_have_count(0)


def test_it_comes_back_with_the_server(visit: Visit, ostler: Ostler) -> None:
    with serving_agent(ostler, agent=ECHO_AGENT) as served:
        served.until_stable()
        agent = AgentVisitor(visit(alone(served)))
        agent.ask("before")
    expect(agent.page.get_by_text("Not connected. Retrying…").first).to_be_visible()
    expect(agent.at.prompts).to_have_text(["before"])
    port = served.url.rstrip("/").rpartition(":")[2]
    with serving_agent(ostler, "--port", port, agent=(*ECHO_AGENT, "Here again.")) as served:
        served.until_stable()
        expect(agent.at.answers.first).to_contain_text("Here again.")
        expect(agent.at.prompts).to_have_count(0)
        expect(agent.terminal).to_contain_text("Here again.")
        agent.ask("after")
        expect(agent.terminal).to_contain_text("you said: after")


def test_it_asks_again_and_again_where_streams_do_not_come_through(serve_alone: Serve, visit: Visit) -> None:
    served = serve_alone()
    at = visit(alone(served))
    at.page.route("**/events", lambda route: route.abort())
    at.page.reload()
    agent = AgentVisitor(at)
    expect(at.page.get_by_text("Connected by polling")).to_be_visible()
    agent.ask("slowly")


def test_a_phone_shows_all_of_it_and_it_can_be_read(serve_alone: Serve, visit: Visit) -> None:
    served = serve_alone("--type", "claude", agent=PAINTED_AGENT)
    for scheme in ("light", "dark"):
        agent = AgentVisitor(visit(alone(served), **PHONE, color_scheme=scheme))
        expect(agent.at.answers.first).to_contain_text("Farrier")
        text_can_be_read(agent.at)
        nothing_is_wider_than_the_window(agent.at)
        agent.show("Terminal")
        expect(agent.terminal).to_contain_text("Farrier")
        nothing_is_wider_than_the_window(agent.at)
        agent.show("Conversation")
        agent.control()
        nothing_is_wider_than_the_window(agent.at)
        names_are_there(agent.at)


def test_it_looks_like_the_rest(serve_alone: Serve, visit: Visit) -> None:
    served = serve_alone("--type", "claude", agent=PAINTED_AGENT)
    agent = AgentVisitor(visit(alone(served), viewport={"width": 1180, "height": 720}, color_scheme="dark"))
    agent.at.say(PROMPT)
    expect(agent.at.answers.last).to_contain_text("The first of equals wins now")
    agent.until_it_waits()
    text_can_be_read(agent.at)
    picture(agent.at, "chat-embed")
