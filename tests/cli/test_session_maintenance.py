"""`ostler sessions check|repair|prune`."""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing

import pytest

from ostler.cli.session_maintenance import age as age_in_ms
from ostler.core.processes import current_process
from ostler.schema.events import SessionStarted, UserMessage
from ostler.schema.facts import Fact
from ostler.schema.messages import Text
from ostler.store.sqlite import SqliteStore
from ostler.testkit.vendors import Trouble, call, turn
from tests.support.command import Ostler, finish, use, wait_until
from tests.support.fixtures import Serve
from tests.support.stored import facts_of


def ask(ostler: Ostler, prompt: str) -> str:
    ran = ostler("-p", "--json", "--model", "demo", prompt)
    session: str = ran.facts[0]["session"]
    return session


def ids(ostler: Ostler) -> set[str]:
    return {one["id"] for one in ostler("sessions", "list", "--all", "--json").lines}


def execute(ostler: Ostler, statement: str) -> None:
    with closing(sqlite3.connect(ostler.store, isolation_level=None)) as db:
        db.execute(statement)


def test_without_a_store_there_is_nothing_to_maintain(ostler: Ostler) -> None:
    for command in ("check", "repair", "prune"):
        ran = ostler("sessions", command)
        assert (ran.code, ran.out) == (0, "") and "there are no sessions yet" in ran.err
    assert ostler("sessions", "check", "ses_1").code == 2
    assert not ostler.home.exists()


def test_problems_are_printed_per_line_and_repaired(ostler: Ostler) -> None:
    first, second = ask(ostler, "walrus"), ask(ostler, "carpenter")
    sound = ostler("sessions", "check")
    assert (sound.code, sound.out, sound.err) == (0, "", "ostler: 2 sessions checked, no problems\n")
    execute(ostler, f"update sessions set title = 'wrong', tail_seq = 1 where id = '{first}'")
    ran = ostler("sessions", "check")
    lines = ran.out.splitlines()
    assert ran.code == 1 and len(lines) == 2
    assert lines[0] == f"{first}: S2: the list has title 'wrong', but its facts say ''"
    assert lines[1].startswith(f"{first}: S3: opening reads all facts from 1 on")
    assert ran.err == "ostler: 2 problems; `ostler sessions repair` rebuilds what derives from the facts\n"
    assert [one["number"] for one in ostler("sessions", "check", first[:30], "--json").lines] == ["S2", "S3"]
    assert ostler("sessions", "check", second).code == 0
    mended = ostler("sessions", "repair")
    assert mended.code == 0
    assert mended.out.splitlines() == [f"repaired: {line}" for line in lines]
    (copy,) = ostler.home.glob("ostler.db.before-repair-*")
    assert str(copy) in mended.err
    assert ostler("sessions", "check").code == 0
    again = ostler("sessions", "repair")
    assert (again.code, again.out, again.err) == (0, "", "ostler: there are no problems\n")


def test_lost_facts_are_reported_and_not_repaired(ostler: Ostler) -> None:
    session = ask(ostler, "walrus")
    execute(ostler, "delete from facts where type = 'assistant_message'")
    ran = ostler("sessions", "check", session)
    assert ran.code == 1 and f"{session}: L2: fact " in ran.out
    assert ran.err == f"ostler: {len(ran.out.splitlines())} problems\n"
    repaired = ostler("sessions", "repair")
    assert repaired.code == 1 and all(
        line.startswith("not repaired: ") for line in repaired.out.splitlines() if "L2" in line
    )


def test_prune_deletes_old_sessions_and_keeps_the_newest(ostler: Ostler) -> None:
    old, older, new = ask(ostler, "old"), ask(ostler, "older"), ask(ostler, "new")
    age(ostler, old, 40)
    age(ostler, older, 50)
    size = ostler.store.stat().st_size
    dry = ostler("sessions", "prune", "--older-than", "30d", "--dry-run")
    assert dry.out.splitlines() == [f"would delete {old}  old", f"would delete {older}  older"]
    assert "nothing was changed" in dry.err and ids(ostler) == {old, older, new}
    unasked = ostler("sessions", "prune", "--older-than", "30d")
    assert (unasked.code, unasked.out) == (2, "") and "pass --yes" in unasked.err
    declined = ostler.on_terminal("sessions", "prune", "--older-than", "30d", typed=b"n\n")
    assert "nothing was deleted" in declined.err and ids(ostler) == {old, older, new}
    ran = ostler("sessions", "prune", "--older-than", "30d", "--keep", "2", "--yes")
    assert (ran.code, ran.out) == (0, f"deleted {older}  older\n")
    ran = ostler("sessions", "prune", "--older-than", "5w", "--yes")
    assert (ran.code, ran.out) == (0, f"deleted {old}  old\n")
    assert "the file is " in ran.err and ostler.store.stat().st_size <= size
    assert ids(ostler) == {new}
    assert ostler("sessions", "prune").out == "" and ids(ostler) == {new}
    assert ostler("sessions", "check").code == 0


def test_an_age_is_in_days_or_weeks(ostler: Ostler) -> None:
    assert (age_in_ms("30d"), age_in_ms("2w")) == (30 * 86_400_000, 14 * 86_400_000)
    for wrong in ("30", "d", "-3d", "0d", "1y"):
        with pytest.raises(argparse.ArgumentTypeError):
            age_in_ms(wrong)
    ran = ostler("sessions", "prune", "--older-than", "a while")
    assert (ran.code, ran.err.count("\n")) == (2, 1)


def test_waiting_and_held_sessions_are_not_pruned(ostler: Ostler, serve: Serve) -> None:
    asking = serve(turn(call("bash", {"command": "touch made"})))
    ostler("-p", *use(asking), "--permissions", "ask", "--on-question", "wait", "list")
    silent = serve(turn("never", trouble=Trouble("silence", after=0)))
    running = ostler.start("-p", *use(silent), "hello")
    wait_until(lambda: silent.requests)
    waiting, held = sorted(ids(ostler), key=lambda one: one != waiting_one(ostler))
    for one in (waiting, held):
        age(ostler, one, 40)
    pruned = ostler("sessions", "prune", "--older-than", "30d", "--yes")
    assert (pruned.code, pruned.out) == (0, "") and ids(ostler) == {waiting, held}
    pruned = ostler("sessions", "prune", "--older-than", "30d", "--yes", "--waiting")
    assert pruned.out == f"deleted {waiting}  list\n" and ids(ostler) == {held}
    running.terminate()
    assert finish(running).code == 143


async def test_children_are_pruned_with_their_parent(ostler: Ostler) -> None:
    parent, other = ask(ostler, "parent"), ask(ostler, "other")
    store = SqliteStore(ostler.store)
    child = facts_of(UserMessage((Text("do this part"),)), session="ses_child")
    started = SessionStarted("/project", "0.1.0", child_of=parent, call="call_1")
    child[0] = Fact.of(started, seq=1, session="ses_child", run="", time_ms=1)
    await store.import_session(child)
    age(ostler, parent, 40)
    dry = ostler("sessions", "prune", "--older-than", "30d", "--dry-run").out
    assert {line.split()[2] for line in dry.splitlines()} == {parent, "ses_child"}
    lease = await store.acquire("ses_child", current_process())
    assert ostler("sessions", "prune", "--older-than", "30d", "--yes").out == ""
    await store.release(lease)
    await store.close()
    ostler("sessions", "prune", "--older-than", "30d", "--yes")
    assert ids(ostler) == {other}


def age(ostler: Ostler, session: str, days: int) -> None:
    """As if all of it had happened that many days earlier."""
    ms = days * 86_400_000
    of_session = f"(select key from sessions where id = '{session}')"
    execute(ostler, f"update facts set time = time - {ms} where session = {of_session}")
    execute(ostler, f"update sessions set updated = updated - {ms} where key = {of_session}")
    execute(ostler, f"update sessions set created = created - {ms} where key = {of_session}")


def waiting_one(ostler: Ostler) -> str:
    (one,) = [one["id"] for one in ostler("sessions", "list", "--json").lines if one["status"] == "waiting"]
    return str(one)
