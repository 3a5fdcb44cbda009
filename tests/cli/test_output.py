"""What a run prints: the answer for people, facts and deltas for programs, and nothing else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from ostler.testkit.vendors import Refusal, Trouble, call, say, turn
from ostler.vocabulary.events import EVENT_TYPES, Delta, Entry
from tests.cli.command import Ostler, finish, use
from tests.cli.conftest import Serve


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
    kept = ostler("sessions", "show", facts[0]["session"], "--json")
    assert kept.lines[0]["type"] == "session_started"
    assert kept.lines[1:] == facts
    whole = [line for line in ran.out.splitlines() if "seq" in json.loads(line)]
    assert kept.out.splitlines()[1:] == whole


def test_plain_output_is_the_last_answer_alone(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("I look first.", call("ls", {})), turn("Nothing is there: äöü ✓"))
    ran = ostler("-p", *use(vendor), "what is here?")
    assert (ran.code, ran.out, ran.err) == (0, "Nothing is there: äöü ✓\n", "")


def test_a_retry_is_told_to_the_person_who_waits(ostler: Ostler, serve: Serve) -> None:
    busy = Refusal(429, "slow down", headers={"retry-after": "0"})
    ran = ostler("-p", *use(serve(busy, turn("at last"))), "hello")
    assert (ran.code, ran.out) == (0, "at last\n")
    assert "slow down" in ran.err and "trying again in 0 s" in ran.err and ran.err.count("\n") == 1


def test_an_answer_cut_by_its_limit_is_printed_and_said_to_be_cut(ostler: Ostler, serve: Serve) -> None:
    ran = ostler("-p", *use(serve(turn("half an ans", stop="length"))), "hello")
    assert (ran.code, ran.out) == (0, "half an ans\n")
    assert ran.err == "ostler: the answer was cut by its output limit\n"


def test_a_reader_who_leaves_ends_the_run(ostler: Ostler, serve: Serve) -> None:
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


def test_a_full_disk_behind_the_output_is_no_traceback(ostler: Ostler) -> None:
    for option in ((), ("--json",)):
        with Path("/dev/full").open("wb") as full:
            process = ostler.start("-p", *option, "--model", "demo", "hello", stdout=full.fileno())
            ran = finish(process)
        assert (ran.code, ran.err) == (1, "ostler: the output cannot be written: No space left on device\n")
    assert [one["status"] for one in ostler("sessions", "--json").lines] == ["cancelled", "completed"]


def test_commands_on_a_closed_pipe_say_nothing(ostler: Ostler) -> None:
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
