"""`ostler runs`: open runs, their processes, and what they wait for."""

from __future__ import annotations

from ostler.testkit.vendors import call, turn
from tests.support.command import Ostler, finish, use
from tests.support.fixtures import Serve
from tests.support.open_runs import GATED, SILENCE, TOUCH, cut_run, gated_run, parent_and_child, waiting_run


def test_without_a_store_no_runs_are_listed_and_none_is_created(ostler: Ostler) -> None:
    for options in ((), ("--all",), ("--json",)):
        ran = ostler("runs", *options)
        assert (ran.code, ran.out) == (0, "") and "there are no sessions yet" in ran.err
    assert not ostler.store.exists()


def test_open_runs_are_listed_with_their_process_and_questions(ostler: Ostler, serve: Serve) -> None:
    cut = cut_run(ostler, serve(SILENCE))
    waiting = waiting_run(ostler, serve(turn(TOUCH)))
    ostler("-p", *use(serve(turn("done"))), "this one ends")
    rows = {row["session"]: row for row in ostler("runs", "--json").lines}
    assert list(rows) == [waiting, cut]
    assert (rows[cut]["status"], rows[waiting]["status"], rows[waiting]["waits"]) == (
        "cut",
        "waiting",
        "question",
    )
    (question,) = rows[waiting]["questions"]
    assert question["text"].startswith("Allow bash: touch made") and "yes" in question["choices"]
    first, second = ostler("runs").out.splitlines()
    assert first.startswith(waiting) and "waiting  make it  asks: Allow bash: touch made" in first
    assert second.startswith(cut) and "cut" in second and "its process is gone" in second
    table = ostler.on_terminal("runs").out.splitlines()
    assert table[0].split() == ["SESSION", "AGE", "STATUS", "ABOUT", "RUN"]
    assert waiting.startswith(table[1].split()[0]) and max(map(len, table)) <= 80
    few = ostler("runs", "--limit", "1")
    assert few.out.startswith(waiting) and few.err == "ostler: there are more; --limit shows them\n"


def test_a_running_run_names_its_process(ostler: Ostler, serve: Serve) -> None:
    with gated_run(ostler, serve(turn(GATED), turn("done"))) as gated:
        (row,) = ostler("runs", "--json").lines
        assert (row["status"], row["holder"]["pid"]) == ("running", gated.process.pid)
        assert f"process {gated.process.pid} on " in ostler("runs").out
        gated.open()
        assert finish(gated.process).code == 0
    assert ostler("runs").err == "ostler: no run is open; --all lists those that ended\n"


def test_ended_runs_are_listed_with_their_status(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(call("ls", {})), turn("done"), turn(call("ls", {})), turn("never"))
    ostler("-p", *use(vendor), "one")
    ostler("-p", *use(vendor), "--continue", "--max-steps", "1", "two")
    second, first = ostler("runs", "--all", "--json").lines
    assert (first["status"], first["steps"]) == ("completed", 2)
    assert (second["status"], second["steps"], second["reason"]) == (
        "limit",
        1,
        "the limit of 1 steps was reached",
    )
    assert first["session"] == second["session"] and first["started_ms"] <= second["started_ms"]
    table = ostler("runs", "--all").out.splitlines()
    assert "limit" in table[0] and "1 step, " in table[0] and "2 steps, " in table[1]


def test_a_child_is_listed_below_its_parent(ostler: Ostler, serve: Serve) -> None:
    _, parent, child = parent_and_child(ostler, serve)
    above, below = ostler("runs", "--json").lines
    assert (above["session"], below["session"], below["child_of"]) == (parent, child, parent)
    assert "depth" not in above and below["depth"] == 1
    assert above["calls"][0]["children"] == [child]
    lines = ostler("runs").out.splitlines()
    assert lines[0].startswith(parent) and f"waits for {child} (delegate)" in lines[0]
    assert lines[1].startswith(f"  {child}") and "asks: Allow bash: touch made" in lines[1]
