"""The output of a run: the answer for people, facts and deltas for programs, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.cli.json_output import Backlog
from ostler.schema.events import EVENT_TYPES, Delta, Entry
from ostler.testkit.vendors import Cite, Refusal, Trouble, call, say, turn
from tests.support.command import PATIENCE, Ostler, finish, use, wait_until
from tests.support.fixtures import Serve


def test_json_output_is_the_run_from_its_beginning_to_its_end(ostler: Ostler, serve: Serve) -> None:
    (ostler.work / "a.txt").write_text("what is in it")
    vendor = serve(turn("I read it.", call("read", {"path": "a.txt"})), turn(say("It says ", "so.")))
    ran = ostler("-p", "--json", *use(vendor), "what", "does", "a.txt", "say?")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.lines
    assert (lines[0]["type"], lines[-1]["type"]) == ("run_started", "run_ended")
    facts = ran.facts
    assert [fact["seq"] for fact in facts] == list(range(2, 2 + len(facts)))
    assert len({fact["session"] for fact in facts}) == len({fact["run"] for fact in facts}) == 1
    for line in lines:
        kind = EVENT_TYPES[line["type"]]
        assert issubclass(kind, Delta) != ("seq" in line)
        assert issubclass(kind, Delta) != ({"session", "run", "time"} <= line.keys())
        assert issubclass(kind, Entry) == ("parent" in line)
    assert "".join(delta["text"] for delta in ran.all("text_delta")) == "I read it.It says so."
    assert "".join(delta["text"] for delta in ran.all("tool_input_delta")) == '{"path":"a.txt"}'
    (result,) = ran.all("tool_result")
    assert "what is in it" in result["content"][0]["text"]
    assert (lines[-1]["status"], lines[-1]["own"]["steps"]) == ("completed", 2)
    stored_session = ostler("sessions", "show", facts[0]["session"], "--json")
    assert stored_session.lines[0]["type"] == "session_started"
    assert stored_session.lines[1:] == facts
    whole = [line for line in ran.out.splitlines() if "seq" in json.loads(line)]
    assert stored_session.out.splitlines()[1:] == whole


def test_plain_output_is_the_last_answer_alone(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("I look first.", call("ls", {})), turn("Nothing is there: äöü ✓"))
    ran = ostler("-p", *use(vendor), "what is here?")
    assert (ran.code, ran.out, ran.err) == (0, "Nothing is there: äöü ✓\n", "")


def test_the_sources_of_the_answer_follow_it_on_standard_error(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(
        turn("I look first.", Cite("https://example.org/old", "Old"), call("ls", {})),
        turn("It rains.", Cite("https://example.org/rain", "Rain"), Cite("https://example.org/sky")),
    )
    ran = ostler("-p", *use(vendor), "how is the weather?")
    assert (ran.code, ran.out) == (0, "It rains.\n")
    assert ran.err == (
        "ostler: source: Rain, https://example.org/rain\nostler: source: https://example.org/sky\n"
    )


def test_a_retry_is_printed(ostler: Ostler, serve: Serve) -> None:
    busy = Refusal(429, "slow down", headers={"retry-after": "0"})
    ran = ostler("-p", *use(serve(busy, turn("at last"))), "hello")
    assert (ran.code, ran.out) == (0, "at last\n")
    assert "slow down" in ran.err and "trying again in 0 s" in ran.err and ran.err.count("\n") == 1


def test_an_answer_at_its_token_limit_is_printed_with_a_notice(ostler: Ostler, serve: Serve) -> None:
    ran = ostler("-p", *use(serve(turn("half an ans", stop="length"))), "hello")
    assert (ran.code, ran.out) == (0, "half an ans\n")
    assert ran.err == "ostler: the answer was cut by its output limit\n"


def test_closing_the_output_ends_the_run(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(say(*"abcdefgh"), trouble=Trouble("silence", after=6)))
    process = ostler.start("-p", "--json", *use(vendor), "hello")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["type"] == "run_started"
    process.stdout.close()
    process.stdout = None
    ran = finish(process)
    assert (ran.code, ran.err) == (141, "")
    (ended,) = ostler("sessions", "list", "--json").lines
    assert ended["status"] == "cancelled"


def test_a_slow_reader_does_not_block_the_run_and_gets_every_line(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(say(*["x" * 200] * 2000)))
    process = ostler.start("-p", "--json", *use(vendor), "hello")
    wait_until(lambda: [one["status"] for one in ostler("sessions", "--json").lines] == ["completed"])
    assert process.poll() is None
    ran = finish(process)
    assert (ran.code, ran.err) == (0, "")
    assert "".join(line["text"] for line in ran.all("text_delta")) == "x" * 400_000
    assert ran.types[-1] == "run_ended"


def test_the_lines_of_a_terminated_run_can_still_be_read(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(say(*["x" * 200] * 2000), trouble=Trouble("silence", after=1900)))
    process = ostler.start("-p", "--json", *use(vendor), "hello")
    wait_until(lambda: vendor.requests)
    process.terminate()
    wait_until(lambda: [one["status"] for one in ostler("sessions", "--json").lines] == ["cancelled"])
    ran = finish(process)
    assert (ran.code, ran.err) == (143, "ostler: cancelled: terminated\n")
    assert (ran.lines[-1]["type"], ran.lines[-1]["status"]) == ("run_ended", "cancelled")


def test_a_terminated_run_does_not_wait_for_a_stalled_reader(ostler: Ostler, serve: Serve) -> None:
    process = ostler.start("-p", "--json", *use(serve(turn(say(*["x" * 200] * 2000)))), "hello")
    wait_until(lambda: [one["status"] for one in ostler("sessions", "--json").lines] == ["completed"])
    process.terminate()
    assert process.wait(PATIENCE) == 143
    assert process.stderr is not None and process.stdout is not None
    assert process.stderr.read() == (
        b"ostler: the reader of the output stopped reading; the remaining lines are lost\n"
    )
    process.stdout.close()
    process.stderr.close()


@given(steps=st.lists(st.one_of(st.binary(min_size=1, max_size=40), st.none())), in_memory=st.integers(1, 64))
def test_a_backlog_keeps_its_order(steps: list[bytes | None], in_memory: int) -> None:
    backlog = Backlog(in_memory)
    put = taken = b""
    for step in steps:
        if step is None:
            taken += backlog.take()
        else:
            backlog.put(step)
            put += step
    while piece := backlog.take():
        taken += piece
    assert taken == put


def test_an_empty_answer_is_reported(ostler: Ostler, serve: Serve) -> None:
    ran = ostler("-p", *use(serve(turn(""))), "hello")
    assert (ran.code, ran.out, ran.err) == (0, "", "ostler: the model's answer is empty\n")


@pytest.mark.parametrize("command", ["-p --model demo hi", "-p --json --model demo hi", "sessions", "--help"])
def test_a_closed_output_is_one_line(ostler: Ostler, command: str) -> None:
    process = subprocess.run(
        ["sh", "-c", f'exec "$0" -m ostler {command} >&-', sys.executable],
        cwd=ostler.work,
        env=ostler.environment({}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert process.returncode == 2
    assert process.stderr == b"ostler: standard output is closed; redirect it to a file or to /dev/null\n"
    assert not ostler.home.exists()


def test_notices_do_not_go_to_the_output_when_standard_error_is_closed(ostler: Ostler) -> None:
    process = subprocess.run(
        ["sh", "-c", 'exec "$0" -m ostler -p --model demo --continue hi 2>&-', sys.executable],
        cwd=ostler.work,
        env=ostler.environment({}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert process.returncode == 0
    assert process.stdout.startswith(b"DEMO") and b"a new one begins" not in process.stdout


def test_a_full_disk_prints_no_traceback(ostler: Ostler) -> None:
    for option in ((), ("--json",)):
        with Path("/dev/full").open("wb") as full:
            process = ostler.start("-p", *option, "--model", "demo", "hello", stdout=full.fileno())
            ran = finish(process)
        assert (ran.code, ran.err) == (1, "ostler: the output cannot be written: No space left on device\n")
    assert [one["status"] for one in ostler("sessions", "--json").lines] == ["cancelled", "completed"]


def test_commands_print_nothing_on_a_closed_pipe(ostler: Ostler) -> None:
    ostler("-p", "--model", "demo", "hello")
    process = ostler.start("sessions")
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    ran = finish(process)
    assert (ran.code, ran.err) == (141, "")


def test_the_last_line_of_a_cancelled_run_is_its_end(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("never", trouble=Trouble("silence", after=0)))
    process = ostler.start("-p", "--json", *use(vendor), "hello", stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["type"] != "model_called":
        pass
    process.terminate()
    ran = finish(process)
    assert ran.code == 143
    assert (ran.lines[-1]["type"], ran.lines[-1]["status"]) == ("run_ended", "cancelled")


def test_an_answer_must_match_the_schema(ostler: Ostler, serve: Serve) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    (ostler.work / "horse.json").write_text(json.dumps(schema))
    vendor = serve(turn('{"name": "Bess"}'))
    ran = ostler("-p", *use(vendor), "--schema", "horse.json", "which horse?")
    assert (ran.code, ran.out) == (0, '{"name": "Bess"}\n')
    assert vendor.requests[0].json["response_format"]["json_schema"]["schema"] == schema
    for said, complaint in (("Bess", "the answer is not JSON"), ("{}", "it has no 'name'")):
        unfit = ostler("-p", *use(serve(turn(said))), "--schema", "horse.json", "which horse?")
        assert (unfit.code, unfit.out) == (1, f"{said}\n") and complaint in unfit.err
    refused = serve(turn(call("bash", {"command": "touch made"})), turn("Bess"))
    assert ostler("-p", *use(refused), "--schema", "horse.json", "which horse?").code == 1  # not 4
    (ostler.work / "horse.json").write_text("[1")
    (ostler.work / "odd.json").write_text('{"type": "objekt"}')
    for file, complaint in (
        ("horse.json", "is not a JSON Schema"),
        ("odd.json", "there is no type 'objekt'"),
        ("none.json", "cannot be read"),
    ):
        broken = ostler("-p", *use(vendor), "--schema", file, "which horse?")
        assert broken.code == 2 and complaint in broken.err


def test_control_characters_of_a_vendor_are_not_printed(ostler: Ostler, serve: Serve) -> None:
    ran = ostler("-p", *use(serve(Refusal(400, "no\x1b[2J, never\n\x1b]0;mine\x07"))), "hello")
    assert ran.code == 1
    assert ran.err.startswith("ostler: failed: openai answered 400: no\ufffd[2J, never \ufffd]0;mine\ufffd;")
    assert ran.err.count("\n") == 1
