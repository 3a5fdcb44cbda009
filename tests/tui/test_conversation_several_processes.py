"""One session in several processes, which follow each other's runs live and take turns."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from contextlib import closing, suppress

from ostler.schema.messages import as_content
from ostler.schema.requests import Prompt
from ostler.store.sqlite import SqliteStore
from ostler.testkit.vendors import Trouble, Turn, call, say, turn
from tests.sessions.test_lease import with_lease
from tests.support.command import Ostler, finish, use, wait_until
from tests.support.fixtures import Open, Serve
from tests.tui.terminal import Terminal


def session_of(ostler: Ostler) -> str:
    """The only session, once it exists."""

    def rows() -> list[tuple[str]]:
        if not ostler.store.exists():
            return []
        with closing(sqlite3.connect(ostler.store)) as store, suppress(sqlite3.OperationalError):
            return store.execute("select id from sessions where status != ''").fetchall()
        return []

    wait_until(rows)
    return rows()[0][0]


SHORT_LEASE = (sys.executable, *with_lease(1500))
"""So that a terminal at rest has lost its lease soon."""


def wait_for_expiry(ostler: Ostler) -> None:
    def is_expired() -> bool:
        with closing(sqlite3.connect(ostler.store)) as store:
            return bool(store.execute("select expires from sessions").fetchone()[0] < time.time() * 1000)

    wait_until(is_expired)


def send_line(terminal: Terminal, text: str) -> None:
    terminal.type(text)
    terminal.wait_for(f"> {text}")
    terminal.press("enter")


def no_errors(*terminals: Terminal) -> None:
    for terminal in terminals:
        text = terminal.everything()
        assert not any(word in text for word in ("held by", "cannot continue", "taken over", "✗")), text


def silent_after(*pieces: str) -> Turn:
    return turn(say(*pieces), trouble=Trouble("silence", after=1 + len(pieces)))


def test_a_session_of_another_process_is_followed_stopped_and_continued(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    vendor = serve(silent_after("the beginning ", "of a long answer"), turn("the terminal's own answer"))
    driving = ostler.start("-p", "go", *use(vendor))
    session = session_of(ostler)
    terminal = open_tui(vendor, "--session", session)
    screen = terminal.wait_for("the beginning of a long answer")
    assert "esc stops" in screen
    send_line(terminal, "and then")
    terminal.wait_for("queued: and then")
    terminal.press("esc")
    assert finish(driving).code == 130
    terminal.wait_for("held: and then")
    terminal.press("enter")
    terminal.wait_for("the terminal's own answer")
    assert terminal.everything().count("the beginning") == 1
    no_errors(terminal)


def test_two_terminals_share_a_session_in_turns(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    vendor = serve(
        turn(call("bash", {"command": "touch made && echo printed-by-it"})),
        turn("it was run"),
        turn("the second answer"),
    )
    first = open_tui(vendor, "go")
    first.wait_for_question()
    second = open_tui(vendor, "--session", session_of(ostler))
    second.answer("y")
    for terminal in (first, second):
        terminal.wait_for("it was run")
        terminal.wait_for("1. yes, this once", gone=True)
        assert terminal.everything().count("│ printed-by-it") == 1
    send_line(second, "once more")
    for terminal in (first, second):
        terminal.wait_for_ever("the second answer")
    no_errors(first, second)


def test_a_command_line_run_is_followed_and_steered_in_the_terminal(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    # What another process asks for is seen within 100 ms: the command ends well behind that.
    command = "echo it-has-begun; until [ -e go ]; do sleep 0.02; done; sleep 0.3"
    vendor = serve(turn(call("bash", {"command": command})), turn("both were done"))
    driving = ostler.start("-p", "go", "--yes", *use(vendor))
    terminal = open_tui(vendor, "--session", session_of(ostler))
    terminal.wait_for("│ it-has-begun")
    terminal.type("mind the gap")
    terminal.wait_for("> mind the gap")
    terminal.press("ctrl+x", "s")
    terminal.wait_for("steering: mind the gap")
    (ostler.work / "go").touch()
    terminal.wait_for("both were done")
    assert finish(driving).out == "both were done\n"
    assert "mind the gap" in str(vendor.requests[-1].body)
    assert "▌ mind the gap" in terminal.everything()
    no_errors(terminal)


def test_a_model_chosen_for_a_run_of_another_process_is_shown(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    waits = call("bash", {"command": "echo it-has-begun; until [ -e go ]; do sleep 0.02; done"})
    vendor = serve(turn(waits), turn("the other one answers"))
    driving = ostler.start("-p", "go", "--yes", *use(vendor))
    terminal = open_tui(vendor, "--session", session_of(ostler))
    terminal.wait_for("│ it-has-begun")
    send_line(terminal, "/model openai/other")
    screen = terminal.wait_for("the model is now openai/other")
    assert "openai/other" in screen.splitlines()[-1]
    assert "the model is now openai/fake" not in screen
    (ostler.work / "go").touch()
    terminal.wait_for("the other one answers")
    assert finish(driving).code == 0
    assert [request.json["model"] for request in vendor.requests] == ["fake", "other"]
    no_errors(terminal)


def test_an_idle_terminal_follows_another_process_and_continues_after_it(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    vendor = serve(
        turn("the first answer"),
        silent_after("half of ", "the second one"),
        turn("the third answer"),
    )
    terminal = open_tui(vendor, "one", program=SHORT_LEASE)
    terminal.wait_for("completed")
    session = session_of(ostler)
    wait_for_expiry(ostler)
    driving = ostler.start("-p", "two", "--session", session, *use(vendor))
    terminal.wait_for("half of the second one")
    assert "two" in terminal.screen()
    assert ostler("cancel", session).code == 0
    assert finish(driving).code == 130
    terminal.wait_for("cancelled")
    send_line(terminal, "three")
    terminal.wait_for("the third answer")
    no_errors(terminal)


def test_of_two_terminals_one_runs_a_prompt_and_the_other_follows(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    vendor = serve(
        turn("the first answer"), silent_after("half of ", "the second one"), turn("the third answer")
    )
    first = open_tui(vendor, "one", program=SHORT_LEASE)
    first.wait_for("completed")
    session = session_of(ostler)
    wait_for_expiry(ostler)
    second = open_tui(vendor, "--session", session, program=SHORT_LEASE)
    second.wait_for("the first answer")

    async def submit() -> None:
        store = SqliteStore(ostler.store)
        await store.submit(session, Prompt(id="req_of_nobody", by="web", content=as_content("two")))
        await store.close()

    asyncio.run(submit())
    for terminal in (first, second):
        terminal.wait_for("half of the second one")
    assert len(vendor.requests) == 2
    first.press("esc")
    for terminal in (first, second):
        terminal.wait_for("cancelled")
    send_line(first, "three")
    for terminal in (first, second):
        terminal.wait_for("the third answer")
        assert terminal.everything().count("half of the second one") == 1
    no_errors(first, second)
