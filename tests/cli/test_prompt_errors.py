"""Errors of vendors, keys and configuration: one line that says what to do, without the key."""

from __future__ import annotations

import socket

import pytest

from ostler.core.secrets import MASK
from ostler.testkit.vendors import Answer, Refusal, Trouble, call, say, turn
from tests.support.command import KEY, Ostler, Ran, use
from tests.support.fixtures import Serve

STREAM = say("half ", "an ", "answer")


def assert_key_is_nowhere(ostler: Ostler, ran: Ran) -> None:
    assert KEY not in ran.out + ran.err
    for file in ostler.home.glob("ostler.db*"):
        assert KEY.encode() not in file.read_bytes()


FAILURES: list[tuple[str, Answer, list[str]]] = [
    ("401", Refusal(401, f"Incorrect API key provided: {KEY}"), [MASK, "check the API key"]),
    ("403", Refusal(403, "not in your plan"), ["not in your plan", "check the permissions of the API key"]),
    ("404", Refusal(404, "model fake not found"), ["check the model's name"]),
    (
        "400",
        Refusal(400, "no such parameter"),
        ["no such parameter", "this model supports the request"],
    ),
    ("413", Refusal(413, "too large"), ["too large", "begin a new session"]),
    ("429", Refusal(429, "quota exceeded"), ["quota exceeded", "check the plan"]),
    ("500", Refusal(500, "internal\nerror"), ["internal error", "try again"]),
    ("a page instead of an error", Refusal(502, body="<html>Bad gateway</html>"), ["502"]),
    (
        "a stream that breaks",
        turn(STREAM, trouble=Trouble("cut", after=3)),
        ["broke off its answer", "try again"],
    ),
    (
        "a stream that ends too early",
        turn(STREAM, trouble=Trouble("end", after=3)),
        ["cut before its end", "try again"],
    ),
    (
        "a stream that falls silent",
        turn(STREAM, trouble=Trouble("silence", after=3)),
        ["nothing for 0.4 s", "silence_limit"],
    ),
    ("a stream that is no JSON", turn(STREAM, trouble=Trouble("malformed", after=3)), ["try again"]),
    (
        "an error in the stream",
        turn(STREAM, trouble=Trouble("error", 3, "bad", f"oh {KEY}")),
        [f"oh {MASK}"],
    ),
]


@pytest.mark.parametrize(
    ("answer", "words"), [case[1:] for case in FAILURES], ids=[case[0] for case in FAILURES]
)
def test_a_vendor_error_is_one_line_and_exit_code_1(
    ostler: Ostler, serve: Serve, answer: Answer, words: list[str]
) -> None:
    vendor = serve(by=lambda request: answer)
    limit = "0.4" if "silence_limit" in words else "60"
    ran = ostler("-p", *use(vendor), "hello", OSTLER_SILENCE_LIMIT=limit)
    *retries, last = ran.err.splitlines()
    assert (ran.code, ran.out) == (1, "")
    assert last.startswith("ostler: failed: ") and "Traceback" not in ran.err
    assert all("trying again in" in line for line in retries)
    for word in words:
        assert word in last
    assert_key_is_nowhere(ostler, ran)


def test_an_unreachable_server_is_tried_three_times(ostler: Ostler) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        ran = ostler(
            "-p", "--json", "--model", "ollama/x", "--base-url", f"http://127.0.0.1:{port}/v1", "hello"
        )
    assert (ran.code, ran.err.count("\n")) == (1, 3)
    assert ran.err.splitlines()[-1] == f"ostler: failed: {ran.lines[-1]['reason']}"
    assert [line["failure"]["kind"] for line in ran.all("model_failed")] == ["connection_failed"] * 3
    assert ran.lines[-1]["status"] == "failed"
    assert f"127.0.0.1:{port}" in ran.lines[-1]["reason"]


def test_invalid_json_arguments_are_reported_to_the_model(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(call("ls", '{"path": ')), turn(call("ls", '{"path": 7}')), turn("I see."))
    ran = ostler("-p", "--json", *use(vendor), "look")
    assert ran.code == 0
    assert [result["failed"] for result in ran.all("tool_result")] == ["invalid_arguments"] * 2
    results = [one["content"] for one in vendor.requests[2].json["messages"] if one["role"] == "tool"]
    assert "not valid JSON" in results[0] and "path" in results[1]


def test_an_unknown_tool_is_reported_to_the_model(ostler: Ostler, serve: Serve) -> None:
    ran = ostler("-p", "--json", *use(serve(turn(call("hammer", {})), turn("Then not."))), "hit")
    assert ran.code == 0
    (result,) = ran.all("tool_result")
    assert result["failed"] == "unknown_tool" and "the tools are: bash, " in result["content"][0]["text"]


def test_the_key_reaches_the_vendor_from_every_source(ostler: Ostler, serve: Serve) -> None:
    ostler.home.mkdir()
    configuration = ostler.home / "config.toml"
    ways: list[tuple[str, dict[str, str]]] = [
        ("", {"OPENAI_API_KEY": KEY}),
        ("", {"OSTLER_API_KEY": KEY}),
        (f"api_key = '{KEY}'", {}),
        (f"key_command = 'echo {KEY}'", {}),
    ]
    for written, variables in ways:
        configuration.write_text(written)
        vendor = serve(turn("ok"), api_key=KEY)
        ran = ostler("-p", "--model", "openai/fake", "--base-url", vendor.chat_url, "hello", **variables)
        assert (ran.code, ran.out, ran.err) == (0, "ok\n", ""), (written, variables)
        assert_key_is_nowhere(ostler, ran)


def test_a_failing_key_command_is_reported_without_its_output(ostler: Ostler) -> None:
    ostler.home.mkdir()
    (ostler.home / "config.toml").write_text(f"key_command = 'echo {KEY}; exit 3'")
    ran = ostler("-p", "--model", "openai/fake", "hello")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "ostler: key_command failed (exit code 3): run it by hand to see why\n"


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("model = ]", "config.toml is not valid TOML: Invalid value (at line 1, column 9)"),
        ("modle = 'demo'", "config.toml: there is no setting modle; is it model?"),
        ("max_steps = 0", "config.toml: max_steps must be a whole number from 1 on, not 0"),
        (
            "permissions = 'all'",
            "permissions must be one of ask, edit, full, read-only, not 'all'",
        ),
        (f"api_key = ['{KEY}']", "config.toml: api_key must be a text\n"),
        (b"model = '\xff'", "config.toml is not valid TOML"),
    ],
)
def test_an_invalid_configuration_names_its_place(
    ostler: Ostler, written: str | bytes, complaint: str
) -> None:
    ostler.home.mkdir()
    content = written if isinstance(written, bytes) else written.encode()
    (ostler.home / "config.toml").write_bytes(content)
    ran = ostler("-p", "--model", "demo", "hello")
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err and ran.err.count("\n") == 1
    assert KEY not in ran.err


def test_an_invalid_variable_is_named(ostler: Ostler) -> None:
    for name, value in (
        ("OSTLER_MAX_STEPS", "many"),
        ("OSTLER_PERMISSIONS", "all"),
        ("OSTLER_SILENCE_LIMIT", "0"),
    ):
        ran = ostler("-p", "--model", "demo", "hello", **{name: value})
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"ostler: the variable {name}: ") and ran.err.count("\n") == 1
        assert f"{name.removeprefix('OSTLER_').lower()} must be " in ran.err and repr(value) in ran.err


def test_an_unusable_home_is_reported(ostler: Ostler) -> None:
    ostler.home.write_text("a file where a folder should be")
    ran = ostler("-p", "--model", "demo", "hello")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("ostler: ") and ran.err.count("\n") == 1
    ostler.home.unlink()
    ostler.home.mkdir()
    ostler.store.write_text("this is no database, " * 100)
    for arguments in (("-p", "--model", "demo", "hello"), ("sessions",)):
        ran = ostler(*arguments)
        assert (ran.code, ran.out) == (1, "")
        assert "ostler.db" in ran.err and ran.err.count("\n") == 1
