"""`--continue`, `--session` and `--no-session`."""

from __future__ import annotations

import signal

from ostler.testkit.vendors import Trouble, call, turn
from tests.support.command import Ostler, finish, use, wait_until
from tests.support.fixtures import Serve


def messages_of(request: dict[str, object]) -> list[tuple[str, str]]:
    """Who said what, in a request as the vendor got it, without the system prompt."""
    messages = request["messages"]
    assert isinstance(messages, list)
    return [(one["role"], one["content"]) for one in messages if one["role"] != "system"]


def test_a_session_is_continued_with_its_history(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(*[turn(f"answer {number}") for number in range(1, 5)])
    first = ostler("-p", *use(vendor), "--continue", "one")
    assert (first.code, first.out) == (0, "answer 1\n")
    assert first.err == f"ostler: {ostler.work} has no session yet: starting a new one\n"
    second = ostler("-p", *use(vendor), "--continue", "two")
    assert (second.out, second.err) == ("answer 2\n", "")
    assert messages_of(vendor.requests[1].json) == [
        ("user", "one"),
        ("assistant", "answer 1"),
        ("user", "two"),
    ]
    (session,) = ostler("sessions", "--json").lines
    third = ostler("-p", "--json", *use(vendor), "--session", session["id"][:12], "three")
    assert {fact["session"] for fact in third.facts} == {session["id"]}
    assert len(messages_of(vendor.requests[2].json)) == 5
    assert ostler("-p", *use(vendor), "four").err == ""
    assert messages_of(vendor.requests[3].json) == [("user", "four")]
    assert len(ostler("sessions", "--json").lines) == 2


def test_only_a_session_of_the_same_directory_is_continued(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("one"), turn("two"))
    elsewhere = ostler.work / "below"
    elsewhere.mkdir()
    ostler("-p", *use(vendor), "here")
    ran = ostler("-p", *use(vendor), "--continue", "there", cwd=elsewhere)
    assert "has no session yet" in ran.err
    assert messages_of(vendor.requests[1].json) == [("user", "there")]


def test_tool_results_are_part_of_the_history(ostler: Ostler, serve: Serve) -> None:
    (ostler.work / "a.txt").write_text("the content")
    vendor = serve(turn(call("read", {"path": "a.txt"})), turn("read"), turn("again"))
    ostler("-p", *use(vendor), "read it")
    ostler("-p", *use(vendor), "--continue", "and?")
    roles = [role for role, _ in messages_of(vendor.requests[2].json)]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert "the content" in messages_of(vendor.requests[2].json)[2][1]


def test_no_session_stores_nothing(ostler: Ostler, serve: Serve) -> None:
    ran = ostler("-p", *use(serve(turn("gone"))), "--no-session", "hello")
    assert (ran.code, ran.out) == (0, "gone\n")
    assert not ostler.home.exists()


def test_a_missing_session_is_refused(ostler: Ostler) -> None:
    ran = ostler("-p", "--model", "demo", "--session", "ses_nowhere", "hello")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "ostler: no session 'ses_nowhere'; `ostler sessions` lists those there are\n"
    ostler("-p", "--model", "demo", "one")
    ostler("-p", "--model", "demo", "two")
    vague = ostler("-p", "--model", "demo", "--session", "ses_", "hello")
    assert (vague.code, vague.err) == (2, "ostler: several sessions start with 'ses_'; give more of the id\n")
    empty = ostler("-p", "--model", "demo", "--session", "", "hello")
    assert (empty.code, empty.err.count("\n")) == (2, 1)
    assert len(ostler("sessions", "--json").lines) == 2


def test_a_session_that_another_process_runs_is_refused(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("never", trouble=Trouble("silence", after=0)))
    running = ostler.start("-p", *use(vendor), "hello")
    wait_until(lambda: vendor.requests)
    (session,) = ostler("sessions", "--json").lines
    refused = [
        ostler("-p", "--model", "demo", "--session", session["id"], "me too"),
        ostler("-p", "--model", "demo", "--continue", "me too"),
        ostler("sessions", "delete", "--yes", session["id"]),
    ]
    for ran in refused:
        assert (ran.code, ran.out) == (1, "")
        assert f"is held by process {running.pid} on " in ran.err and ran.err.count("\n") == 1
    for ran in refused[:2]:
        assert f"`ostler follow {session['id']}` shows what it does" in ran.err
    renamed = ostler("sessions", "rename", session["id"], "while", "it", "works")
    assert (renamed.code, renamed.err) == (0, "")
    assert ostler("sessions", "--json").lines[0]["title"] == "while it works"
    moved = ostler("sessions", "navigate", session["id"], "0")
    assert (moved.code, moved.err) == (2, "ostler: the leaf cannot be moved while a run is open\n")
    running.send_signal(signal.SIGTERM)
    assert finish(running).code == 143
    after = ostler("-p", "--model", "demo", "--session", session["id"], "me too")
    assert after.code == 0


def test_the_next_prompt_closes_a_killed_run(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("never", trouble=Trouble("silence", after=0)), turn("answered"))
    running = ostler.start("-p", *use(vendor), "hello")
    wait_until(lambda: vendor.requests)
    running.kill()
    finish(running)
    ran = ostler("-p", *use(vendor), "--continue", "still there?")
    assert (ran.code, ran.out) == (0, "answered\n")
    (session,) = ostler("sessions", "--json").lines
    result = ostler("sessions", "show", session["id"], "--json")
    assert [line["status"] for line in result.all("run_ended")] == ["interrupted", "completed"]


def test_a_continued_run_is_printed_from_its_start(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("never", trouble=Trouble("silence", after=0)), turn("answered"))
    running = ostler.start("-p", *use(vendor), "hello")
    wait_until(lambda: vendor.requests)
    running.kill()
    finish(running)
    ran = ostler("-p", "--json", *use(vendor), "--continue")
    assert (ran.code, ran.types[0], ran.types[-1]) == (0, "run_started", "run_ended")
    assert [fact["seq"] for fact in ran.facts] == list(range(2, 2 + len(ran.facts)))
    assert len({fact["run"] for fact in ran.facts}) == 1


def test_a_session_keeps_its_model(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("one"), turn("two"), turn("three"))
    ostler.configure(
        f"""
        model = "acme/small"
        [providers.acme]
        base_url = "{vendor.chat_url}"
        key_variable = ""
        """
    )
    first = ostler("-p", "--json", "--model", "acme/large", "hello")
    assert first.types[0] == "run_started"
    ostler("-p", "--continue", "and?")
    ostler("-p", "a new one")
    assert [one.json["model"] for one in vendor.requests] == ["large", "large", "small"]


def test_a_base_url_applies_to_one_run(ostler: Ostler, serve: Serve) -> None:
    vendor, other = serve(turn("two")), serve(turn("one"))
    ostler.configure(f'model = "ollama/mine"\nbase_url = "{vendor.chat_url}"')
    ostler("-p", *use(other), "hello")
    ran = ostler("-p", "--continue", "and?")
    assert (ran.code, ran.out) == (0, "two\n")
    assert vendor.requests[0].json["model"] == "mine"


def test_a_session_with_a_model_needs_no_other(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("one"), turn("two"), turn("three"))
    ostler.configure(f'[providers.acme]\nbase_url = "{vendor.chat_url}"\nkey_variable = ""')
    ostler("-p", "--model", "acme/large", "hello")
    assert ostler("-p", "--continue", "and?").out == "two\n"
    (session,) = ostler("sessions", "--json").lines
    assert ostler("-p", "--session", session["id"], "and?").out == "three\n"
    assert ostler("-p", "a new one").code == 3


def test_a_demo_session_continues_with_the_demo(ostler: Ostler) -> None:
    ostler("-p", "--model", "demo", "hello")
    assert ostler("-p", "--continue", "and?").code == 0
