"""When a model fails: a configured fallback takes over, or a person continues with another model."""

from __future__ import annotations

import signal
from typing import Any

from ostler.testkit.vendors import Trouble, call, turn
from ostler.testkit.vendors.script import Refusal
from tests.support.command import KEY, Ostler, finish, use, wait_until
from tests.support.fixtures import Serve

NO_CREDIT = Refusal(402, "the credit is used up")


def messages_of(request: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(one["role"], one["content"]) for one in request["messages"] if one["role"] != "system"]


def test_a_configured_fallback_takes_over_without_asking(ostler: Ostler, serve: Serve) -> None:
    broken, working = serve(NO_CREDIT, NO_CREDIT), serve(turn("saved"), turn("again"))
    ostler.configure(
        f"""
        fallback = ["acme/big"]
        [providers.acme]
        base_url = "{working.chat_url}"
        key_variable = "ACME_API_KEY"
        [models."acme/big"]
        context_window = 100_000
        """
    )
    ran = ostler("-p", *use(broken), "hello", ACME_API_KEY=f"{KEY}-of-acme")
    assert (ran.code, ran.out) == (0, "saved\n")
    assert ran.err == (
        "ostler: openai answered 402: the credit is used up; "
        "check that this model supports the request; "
        "continuing with acme/big in place of openai/fake\n"
    )
    assert messages_of(working.requests[0].json) == [("user", "hello")]
    assert working.requests[0].headers["authorization"] == f"Bearer {KEY}-of-acme"
    facts = ostler("-p", "--json", *use(broken), "again", ACME_API_KEY="k").facts
    failed = next(fact for fact in facts if fact["type"] == "model_failed")
    assert (failed["rescue"], failed["retry_in"]) == ("acme/big", 0.0)


def test_a_failed_run_continues_with_another_model(ostler: Ostler, serve: Serve) -> None:
    broken = serve(turn(call("ls", {"path": "."})), NO_CREDIT)
    assert ostler("-p", *use(broken), "look around").code == 1
    working = serve(turn("I see"))
    ran = ostler("-p", *use(working), "--model", "openai/other", "--continue")
    assert (ran.code, ran.out, ran.err) == (0, "I see\n", "")
    assert [role for role, _ in messages_of(working.requests[0].json)] == ["user", "assistant", "tool"]
    done = ostler("-p", *use(working), "--continue")
    assert (done.code, done.err) == (
        2,
        "ostler: there is nothing to continue: give a prompt after -p\n",
    )


def test_a_killed_run_continues_from_its_last_fact(ostler: Ostler, serve: Serve) -> None:
    silent = serve(turn("half", trouble=Trouble("silence", 2)))
    process = ostler.start("-p", "--json", *use(silent), "hello")
    wait_until(lambda: bool(silent.requests))
    process.send_signal(signal.SIGKILL)
    finish(process)
    working = serve(turn("whole"))
    ran = ostler("-p", *use(working), "--continue")
    assert (ran.code, ran.out) == (0, "whole\n")
    assert messages_of(working.requests[0].json) == [("user", "hello")]


def test_without_a_session_there_is_nothing_to_continue(ostler: Ostler, serve: Serve) -> None:
    ran = ostler("-p", *use(serve()), "--continue")
    assert ran.code == 2
    assert ran.err == (f"ostler: {ostler.work} has no session to continue: give a prompt after -p\n")


def test_settings_of_one_provider_are_not_sent_to_another(ostler: Ostler, serve: Serve) -> None:
    configured, other = serve(), serve(turn("ok"))
    ostler.configure(f"model = 'openai/x'\nbase_url = '{configured.chat_url}'\napi_key = '{KEY}'")
    ran = ostler("-p", "--model", "anthropic/claude-x", "hello", ANTHROPIC_BASE_URL=other.anthropic_url)
    assert (ran.code, ran.out) == (0, "ok\n")
    assert configured.requests == []
    assert KEY not in str(other.requests[0].headers)
