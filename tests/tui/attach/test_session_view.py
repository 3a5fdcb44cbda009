"""A session that a server drives, in the terminal's own face: real processes, and a vendor on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from ostler.testkit.vendors import FakeVendor, Trouble, Turn, call, say, turn
from tests.server.serve_process import ServeProcess, serve_process
from tests.support.attach import Attach
from tests.support.command import Ostler, use
from tests.support.fixtures import Serve
from tests.tui.terminal import Terminal

Served = Callable[[FakeVendor], ServeProcess]


@pytest.fixture
def served(ostler: Ostler) -> Iterator[Served]:
    with ExitStack() as stack:
        yield lambda vendor: stack.enter_context(serve_process(ostler, *use(vendor)))


def new_session(server: ServeProcess, **said: object) -> str:
    answer = httpx2.post(f"{server.base_url}/api/v1/sessions", headers=server.headers, json=said, timeout=60)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def enter(terminal: Terminal, text: str) -> None:
    terminal.type(text)
    terminal.wait_for(f"> {text}")
    terminal.press("enter")


def silent_after(*pieces: str) -> Turn:
    return turn(say(*pieces), trouble=Trouble("silence", after=1 + len(pieces)))


def test_a_prompt_is_answered_there_and_seen_here_as_it_comes(
    attach: Attach, served: Served, serve: Serve
) -> None:
    server = served(serve(turn("the first answer"), silent_after("the beginning ", "of another")))
    session = new_session(server)
    terminal = attach(f"{server.base_url}/s/{session}", OSTLER_TOKEN=server.token)
    terminal.wait_for("continues when you leave")
    enter(terminal, "go")
    terminal.wait_for("the first answer")
    terminal.wait_for("completed")
    enter(terminal, "once more")
    terminal.wait_for("the beginning of another")
    assert "fake" in terminal.screen()
    terminal.press("esc")
    terminal.wait_for("cancelled")
    assert terminal.everything().count("the beginning") == 1
    terminal.press("ctrl+d")
    assert terminal.wait_for_end() == 0


def test_a_permission_is_asked_here_and_the_call_runs_there(
    attach: Attach, served: Served, serve: Serve, ostler: Ostler
) -> None:
    vendor = serve(turn(call("bash", {"command": "echo printed > there"})), turn("it was run"))
    server = served(vendor)
    session = new_session(server, prompt=[{"type": "text", "text": "go"}])
    terminal = attach(server.base_url, "--session", session[:12], "--token", server.token)
    terminal.wait_for("❯ 1. yes, this once")
    terminal.press("y")
    terminal.wait_for("it was run")
    assert (ostler.work / "there").read_text() == "printed\n"


def test_a_child_is_seen_at_work_there_and_asks_here(
    attach: Attach, served: Served, serve: Serve, ostler: Ostler
) -> None:
    def by(request: dict[str, Any]) -> Turn:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return turn("it was run")
        if "the errand" in str(last["content"]):
            return turn("On my way.", call("bash", {"command": "echo from the child > there"}))
        return turn(call("delegate", {"task": "the errand"}))

    server = served(serve(by=by))
    terminal = attach(f"{server.base_url}/s/{new_session(server)}", OSTLER_TOKEN=server.token)
    terminal.wait_for("continues when you leave")
    enter(terminal, "go")
    screen = terminal.wait_for("❯ 1. yes, this once")
    assert "permission · child the errand" in screen
    assert "child: bash echo from the child" in screen
    terminal.press("y")
    terminal.wait_for("completed")
    assert (ostler.work / "there").read_text() == "from the child\n"


def test_a_run_is_steered_from_here_and_others_watch_it(
    attach: Attach, served: Served, serve: Serve, ostler: Ostler
) -> None:
    waits = call("bash", {"command": "echo it-has-begun; until [ -e go ]; do sleep 0.02; done"})
    server = served(serve(turn(waits), turn("both were done"), turn("and this")))
    session = new_session(server, prompt=[{"type": "text", "text": "go"}])
    first = attach(server.base_url, "--session", session, OSTLER_TOKEN=server.token)
    second = attach(server.base_url, "--session", session, "--read-only", OSTLER_TOKEN=server.token)
    first.wait_for("❯ 1. yes, this once")
    first.press("y")
    for terminal in (first, second):
        terminal.wait_for("│ it-has-begun")
    first.type("mind the gap")
    first.wait_for("> mind the gap")
    first.press("ctrl+x", "s")
    first.wait_for("steering: mind the gap")
    (ostler.work / "go").touch()
    for terminal in (first, second):
        terminal.wait_for("both were done")
    enter(second, "unheard")
    second.wait_for("this is read-only")
    enter(first, "!true")
    first.wait_for("can only be done there")
    first.press("ctrl+c")
    enter(first, "/settings")
    first.wait_for("about the machine")
    enter(first, "then")
    for terminal in (first, second):
        terminal.wait_for("and this")


def test_the_link_that_the_server_prints_lets_one_in_once(
    attach: Attach, serve: Serve, ostler: Ostler
) -> None:
    vendor = serve(turn("hello from there"))
    process = ostler.start("serve", "--port", "0", *use(vendor))
    assert process.stderr is not None
    try:
        said = ""
        while "#token=" not in said:
            said += process.stderr.readline().decode()
        link = next(word for word in said.split() if "#token=" in word)
        terminal = attach(link)
        terminal.wait_for("continues when you leave")
        enter(terminal, "hello")
        terminal.wait_for("hello from there")
        again = attach(link)
        assert again.wait_for_end() == 4
        assert "requires a login" in again.screen()
    finally:
        process.kill()
        process.communicate()


def test_models_are_those_of_the_server(attach: Attach, served: Served, serve: Serve) -> None:
    vendor = serve(turn("the answer"))
    server = served(vendor)
    session = new_session(server)
    terminal = attach(server.base_url, "--session", session, OSTLER_TOKEN=server.token)
    terminal.wait_for("openai/fake")
    enter(terminal, "/model openai/other")
    terminal.wait_for("the model is now openai/other")
    enter(terminal, "/new")
    terminal.wait_for("started a new session")
    enter(terminal, "/rename Elsewhere")
    terminal.wait_for("now called 'Elsewhere'")
    enter(terminal, "go")
    terminal.wait_for("the answer")
    assert [request.json["model"] for request in vendor.requests] == ["other"]


def test_a_server_that_was_away_is_found_again_and_nothing_is_missing(
    attach: Attach, serve: Serve, ostler: Ostler
) -> None:
    vendor = serve(turn("the first answer"), turn("the second answer"), turn("the third answer"))
    with serve_process(ostler, *use(vendor)) as server:
        session = new_session(server)
        terminal = attach(server.base_url, "--session", session, OSTLER_TOKEN=server.token)
        terminal.wait_for("continues when you leave")
        enter(terminal, "one")
        terminal.wait_for("the first answer")
        server.end()
        terminal.wait_for("is away; reconnecting")
    port = server.base_url.rpartition(":")[2]
    with serve_process(ostler, *use(vendor), "--port", port) as back:
        said = {"type": "prompt", "content": [{"type": "text", "text": "two"}]}
        path = f"{back.base_url}/api/v1/sessions/{session}/requests"
        assert httpx2.post(path, headers=back.headers, json=said, timeout=60).is_success
        terminal.wait_for_ever("the second answer")
        terminal.wait_for_ever("is back")
        enter(terminal, "three")
        terminal.wait_for_ever("the third answer")
        for answer in ("first", "second", "third"):
            assert terminal.everything().count(f"the {answer} answer") == 1


def test_a_session_that_is_deleted_says_so(attach: Attach, served: Served, serve: Serve) -> None:
    server = served(serve())
    session = new_session(server)
    terminal = attach(server.base_url, "--session", session, OSTLER_TOKEN=server.token)
    terminal.wait_for("continues when you leave")
    path = f"{server.base_url}/api/v1/sessions/{session}"
    assert httpx2.delete(path, headers=server.headers, timeout=60).status_code == 204
    terminal.wait_for("the session cannot continue here")
    terminal.press("ctrl+d")
    assert terminal.wait_for_end() == 0
