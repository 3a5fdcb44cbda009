"""`ostler follow`: prints the run of another process."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from ostler.cli.output import ConsoleOutput
from ostler.schema import events
from ostler.schema.facts import Fact
from ostler.schema.messages import Text
from ostler.sessions.live_socket import socket_of
from ostler.store.sqlite import SqliteStore
from ostler.testkit.vendors import Trouble, call, say, turn
from tests.support.command import Ostler, finish, use, wait_until
from tests.support.fixtures import Serve
from tests.support.open_runs import (
    GATED,
    SILENCE,
    TOUCH,
    cut_run,
    facts,
    gated_run,
    only_session,
    parent_and_child,
    read_to_end,
    waiting_run,
)


def test_a_run_is_followed_from_its_beginning_to_its_end(ostler: Ostler, serve: Serve) -> None:
    with gated_run(ostler, serve(turn("I wait.", GATED), turn("Done."))) as gated:
        lines = ostler.start("follow", gated.session, "--json")
        plain = ostler.start("follow", gated.session[:14])
        assert lines.stdout is not None and plain.stdout is not None
        first = json.loads(lines.stdout.readline())
        assert plain.stdout.readline() == b"I wait.\n"
        gated.open()
        followed, read = read_to_end(lines), read_to_end(plain)
        assert finish(gated.process).code == 0
    whole = [fact for fact in facts(ostler, gated.session) if fact["run"]]
    assert (followed.code, [first, *followed.facts]) == (0, whole)
    texts = "".join(line["text"] for line in followed.all("text_delta"))
    assert texts.endswith("Done.")
    assert (read.code, read.out) == (0, "Done.\n")
    assert read.err == "ostler: you: go\nostler: bash: cat gate\n"


def test_text_is_printed_while_it_streams(ostler: Ostler, serve: Serve) -> None:
    silent = turn(say("One half, ", "and"), trouble=Trouble("silence", after=3))
    process = ostler.start("-p", *use(serve(silent)), "go")
    wait_until(lambda: ostler.store.exists() and len(ostler("sessions", "--json").lines))
    session = only_session(ostler)
    plain, lines = ostler.start("follow", session), ostler.start("follow", session, "--json")
    assert plain.stdout is not None and lines.stdout is not None
    assert plain.stdout.read(13) == b"One half, and"
    heard = ""
    while heard != "One half, and":
        line = json.loads(lines.stdout.readline())
        heard += line["text"] if line["type"] == "text_delta" else ""
    ostler("cancel", session)
    assert finish(process).code == 130
    read = read_to_end(plain)
    assert (read.code, read.out) == (130, "\n") and read.err.endswith("ostler: cancelled: cancelled by cli\n")
    assert read_to_end(lines).types[-1] == "run_ended"


async def take_socket_away(ostler: Ostler, session: str) -> None:
    store = SqliteStore(ostler.store)
    owner = await store.holder(session)
    assert owner is not None
    place = socket_of(store.socket_folder, owner)
    assert place is not None
    place.unlink()
    await store.close()


def test_without_a_live_connection_only_facts_are_printed(ostler: Ostler, serve: Serve) -> None:
    with gated_run(ostler, serve(turn("I wait.", GATED), turn("Done."))) as gated:
        asyncio.run(take_socket_away(ostler, gated.session))
        following = ostler.start("follow", gated.session)
        assert following.stdout is not None and following.stdout.readline() == b"I wait.\n"
        gated.open()
        ran = read_to_end(following)
    assert (ran.code, ran.out) == (0, "Done.\n")
    assert ran.err.count("only facts are shown") == 1


def test_the_exit_code_is_the_runs(ostler: Ostler, serve: Serve) -> None:
    with gated_run(ostler, serve(turn(GATED))) as gated:
        following = ostler.start("follow", gated.session)
        assert following.stderr is not None and following.stderr.readline() == b"ostler: you: go\n"
        gated.process.send_signal(signal.SIGTERM)
        ran = read_to_end(following)
    assert ran.code == 143 and ran.err.endswith("ostler: cancelled: terminated\n")


def test_a_waiting_run_is_printed_with_its_question(ostler: Ostler, serve: Serve) -> None:
    session = waiting_run(ostler, serve(turn(TOUCH)))
    ran = ostler("follow", session)
    assert ran.code == 6
    assert "waiting for an answer: Allow bash: touch made" in ran.err
    assert f"`ostler answer {session} yes`" in ran.err
    last = facts(ostler, session)[-1]
    assert ostler("follow", session, "--json").lines[-1] == last
    assert ostler("follow", session, "--json", "--after", str(last["seq"] - 1)).lines == [last]
    assert ostler("follow", session, "--after", str(last["seq"])).code == 6


def test_a_childs_question_is_printed_with_its_name(ostler: Ostler, serve: Serve) -> None:
    _, parent, _ = parent_and_child(ostler, serve)
    ran = ostler("follow", parent)
    assert ran.code == 6
    assert "ostler: delegate: make it\n" in ran.err
    assert "waiting for an answer (subagent): Allow bash: touch made" in ran.err


def test_follow_ends_if_no_run_is_open(ostler: Ostler, serve: Serve) -> None:
    ostler("-p", *use(serve(turn("Done."))), "go")
    session = only_session(ostler)
    ran = ostler("follow", session)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"ostler: no run is open in session {session}; the last one ended: completed\n"
    again = ostler("follow", session, "--after", "0")
    assert (again.code, again.out) == (0, "Done.\n")


def test_follow_ends_if_the_run_was_cut(ostler: Ostler, serve: Serve) -> None:
    session = cut_run(ostler, serve(SILENCE))
    ran = ostler("follow", session)
    assert ran.code == 1 and f"`ostler resume {session}` continues" in ran.err


def test_follow_notices_that_the_process_died(ostler: Ostler, serve: Serve) -> None:
    with gated_run(ostler, serve(turn("I wait.", GATED))) as gated:
        following = ostler.start("follow", gated.session)
        assert following.stdout is not None and following.stdout.readline() == b"I wait.\n"
        gated.process.kill()
        ran = read_to_end(following)
    assert ran.code == 1 and "the process of the run is gone" in ran.err


def test_forever_follows_later_runs_until_interrupted(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("One."), turn("Two."), turn(call("ls", {})), turn("Three."))
    ostler("-p", *use(vendor), "one")
    following = ostler.start("follow", only_session(ostler), "--forever", "--after", "0")
    assert following.stdout is not None
    assert following.stdout.readline() == b"One.\n"
    for number in ("Two.", "Three."):
        ostler("-p", *use(vendor), "--continue", "more")
        assert following.stdout.readline().decode() == f"{number}\n"
    following.send_signal(signal.SIGINT)
    ran = read_to_end(following)
    assert (ran.code, ran.out) == (130, "") and "Traceback" not in ran.err


def test_a_revised_answer_is_printed_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = ConsoleOutput("everything")
    texts = [
        events.AssistantMessage("", (Text("One"),), "end"),
        events.MessageRevised(1, (Text("One\nand two"),)),
        events.MessageRevised(1, (Text("Another"),)),
    ]
    console.see(
        [
            Fact.of(event, seq=1 + at, session="ses_1", run="run_1", time_ms=0)
            for at, event in enumerate(texts)
        ]
    )
    assert capsys.readouterr().out == "One\nand two\nAnother\n"


def test_a_missing_session_cannot_be_followed(ostler: Ostler) -> None:
    none = ostler("follow", "ses_nowhere")
    assert (none.code, none.err) == (2, "ostler: there are no sessions yet; `ostler -p PROMPT…` starts one\n")
    ostler("-p", "--model", "demo", "hello")
    wrong = ostler("follow", "ses_nowhere", "--json")
    assert (wrong.code, wrong.out, wrong.err.count("\n")) == (2, "", 1) and "no session" in wrong.err
