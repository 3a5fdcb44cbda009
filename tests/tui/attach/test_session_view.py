"""A session that a server drives, in the terminal's own UI: real processes, and a vendor on loopback."""

from __future__ import annotations

import re
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


def new_session(server: ServeProcess, **values: object) -> str:
    answer = httpx2.post(
        f"{server.base_url}/api/v1/sessions", headers=server.headers, json=values, timeout=60
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def send_line(terminal: Terminal, text: str) -> None:
    terminal.type(text)
    terminal.wait_for(f"> {text}")
    terminal.press("enter")


def silent_after(*pieces: str) -> Turn:
    return turn(say(*pieces), trouble=Trouble("silence", after=1 + len(pieces)))


def test_a_remote_answer_streams_into_the_terminal(attach: Attach, served: Served, serve: Serve) -> None:
    server = served(serve(turn("the first answer"), silent_after("the beginning ", "of another")))
    session = new_session(server)
    terminal = attach(f"{server.base_url}/s/{session}", OSTLER_TOKEN=server.token)
    terminal.wait_for("continues when you leave")
    send_line(terminal, "go")
    terminal.wait_for("the first answer")
    terminal.wait_for("completed")
    send_line(terminal, "once more")
    terminal.wait_for("the beginning of another")
    assert "fake" in terminal.screen()
    terminal.press("esc")
    terminal.wait_for("cancelled")
    assert terminal.everything().count("the beginning") == 1
    terminal.press("ctrl+d")
    assert terminal.wait_for_end() == 0


def test_a_remote_permission_is_asked_in_the_terminal(
    attach: Attach, served: Served, serve: Serve, ostler: Ostler
) -> None:
    vendor = serve(turn(call("bash", {"command": "echo printed > there"})), turn("it was run"))
    server = served(vendor)
    session = new_session(server, prompt=[{"type": "text", "text": "go"}])
    terminal = attach(server.base_url, "--session", session[:12], "--token", server.token)
    terminal.answer("y")
    terminal.wait_for("it was run")
    assert (ostler.work / "there").read_text() == "printed\n"


def test_a_remote_question_shows_the_diff_of_the_file_there(
    attach: Attach, served: Served, serve: Serve, ostler: Ostler
) -> None:
    (ostler.work / "notes").write_text("".join(f"line {number}\n" for number in range(1, 40)))
    edits = [{"old_text": "line 20\n", "new_text": "line twenty\n"}]
    vendor = serve(
        turn(call("read", {"path": "notes"})),
        turn(call("edit", {"path": "notes", "edits": edits})),
        turn("it was changed"),
    )
    ostler.configure("ask = ['edit']")
    server = served(vendor)
    session = new_session(server, prompt=[{"type": "text", "text": "go"}])
    terminal = attach(server.base_url, "--session", session, OSTLER_TOKEN=server.token)
    screen = terminal.wait_for_question()
    assert "20 - line 20" in screen and "20 + line twenty" in screen
    terminal.answer("y")
    terminal.wait_for_ever("it was changed")
    assert "line twenty" in (ostler.work / "notes").read_text()


def test_a_question_that_waited_is_asked_and_a_paused_run_resumed_over_attach(
    attach: Attach, served: Served, serve: Serve, ostler: Ostler
) -> None:
    vendor = serve(turn(call("bash", {"command": "touch made"})), turn("it was run"))
    ran = ostler("-p", *use(vendor), "--permissions", "ask", "--on-question", "wait", "go")
    assert ran.code == 6
    session = ostler("runs", "--json").lines[0]["session"]
    assert ostler("pause", session).code == 0
    server = served(vendor)
    terminal = attach(server.base_url, "--session", session, OSTLER_TOKEN=server.token)
    terminal.answer("y")
    terminal.wait_for("1. yes, this once", gone=True)
    assert not (ostler.work / "made").exists()
    terminal.press("enter")
    terminal.wait_for_ever("it was run")
    assert (ostler.work / "made").exists()


def test_questions_of_a_remote_child_are_asked_in_the_terminal(
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
    send_line(terminal, "go")
    screen = terminal.wait_for_question()
    assert "permission · child the errand" in screen
    assert "child: bash echo from the child" in screen
    terminal.answer("y")
    terminal.wait_for("completed")
    assert (ostler.work / "there").read_text() == "from the child\n"


def test_a_remote_run_is_steered_and_other_terminals_follow_it(
    attach: Attach, served: Served, serve: Serve, ostler: Ostler
) -> None:
    waits = call("bash", {"command": "echo it-has-begun; until [ -e go ]; do sleep 0.02; done"})
    server = served(serve(turn(waits), turn("both were done"), turn("and this")))
    session = new_session(server, prompt=[{"type": "text", "text": "go"}])
    first = attach(server.base_url, "--session", session, OSTLER_TOKEN=server.token)
    second = attach(server.base_url, "--session", session, "--read-only", OSTLER_TOKEN=server.token)
    first.answer("y")
    for terminal in (first, second):
        terminal.wait_for("│ it-has-begun")
    first.type("mind the gap")
    first.wait_for("> mind the gap")
    first.press("ctrl+x", "s")
    first.wait_for("steering: mind the gap")
    (ostler.work / "go").touch()
    for terminal in (first, second):
        terminal.wait_for("both were done")
    send_line(second, "unheard")
    second.wait_for("this is read-only")
    send_line(first, "!true")
    first.wait_for("can only be done there")
    first.press("ctrl+c")
    send_line(first, "/settings")
    first.wait_for("about the machine")
    send_line(first, "then")
    for terminal in (first, second):
        terminal.wait_for("and this")


def test_the_printed_login_link_works_once(attach: Attach, serve: Serve, ostler: Ostler) -> None:
    vendor = serve(turn("hello from there"))
    process = ostler.start("serve", "--port", "0", *use(vendor))
    assert process.stderr is not None
    try:
        values = ""
        while not (address := re.search(r"open (http://\S+/) in a browser", values)):
            values += process.stderr.readline().decode()
        link = ostler("token", "link", address[1]).out.strip()
        terminal = attach(link)
        terminal.wait_for("continues when you leave")
        send_line(terminal, "hello")
        terminal.wait_for("hello from there")
        again = attach(link)
        assert again.wait_for_end() == 4
        assert "requires a login" in again.screen()
    finally:
        process.kill()
        process.communicate()


def test_the_model_list_is_the_servers(attach: Attach, served: Served, serve: Serve) -> None:
    vendor = serve(turn("the answer"))
    server = served(vendor)
    session = new_session(server)
    terminal = attach(server.base_url, "--session", session, OSTLER_TOKEN=server.token)
    terminal.wait_for("openai/fake")
    send_line(terminal, "/model openai/other")
    terminal.wait_for("the model is now openai/other")
    send_line(terminal, "/new")
    terminal.wait_for("started a new session")
    send_line(terminal, "/rename Elsewhere")
    terminal.wait_for("now called 'Elsewhere'")
    send_line(terminal, "go")
    terminal.wait_for("the answer")
    assert [request.json["model"] for request in vendor.requests] == ["other"]


def test_reconnecting_to_a_server_loses_no_events(attach: Attach, serve: Serve, ostler: Ostler) -> None:
    vendor = serve(turn("the first answer"), turn("the second answer"), turn("the third answer"))
    with serve_process(ostler, *use(vendor)) as server:
        session = new_session(server)
        terminal = attach(server.base_url, "--session", session, OSTLER_TOKEN=server.token)
        terminal.wait_for("continues when you leave")
        send_line(terminal, "one")
        terminal.wait_for("the first answer")
        server.end()
        terminal.wait_for("is away; reconnecting")
    port = server.base_url.rpartition(":")[2]
    with serve_process(ostler, *use(vendor), "--port", port) as back:
        values = {"type": "prompt", "content": [{"type": "text", "text": "two"}]}
        path = f"{back.base_url}/api/v1/sessions/{session}/requests"
        assert httpx2.post(path, headers=back.headers, json=values, timeout=60).is_success
        terminal.wait_for_ever("the second answer")
        terminal.wait_for_ever("is back")
        send_line(terminal, "three")
        terminal.wait_for_ever("the third answer")
        for answer in ("first", "second", "third"):
            assert terminal.everything().count(f"the {answer} answer") == 1


def test_a_deleted_session_is_reported(attach: Attach, served: Served, serve: Serve) -> None:
    server = served(serve())
    session = new_session(server)
    terminal = attach(server.base_url, "--session", session, OSTLER_TOKEN=server.token)
    terminal.wait_for("continues when you leave")
    path = f"{server.base_url}/api/v1/sessions/{session}"
    assert httpx2.delete(path, headers=server.headers, timeout=60).status_code == 204
    terminal.wait_for("the session cannot continue here")
    terminal.press("ctrl+d")
    assert terminal.wait_for_end() == 0
