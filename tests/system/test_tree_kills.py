"""`kill -9` of real processes while parallel children work, and while questions are open: nothing is lost."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.schema import events
from ostler.schema.requests import Answer
from ostler.sessions.run_tree import load_state, open_questions
from ostler.store.invariants import tree_violations, violations
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_maintenance import check
from ostler.testkit.vendors import FakeVendor, call, turn
from tests.support.real_run import PATIENCE, Home, processes_of
from tests.support.seeds import random_for

RECORD = 'echo "$OSTLER_SESSION/$OSTLER_CALL" >> effects; echo recorded; sleep 0.02'
ASKED = f"touch asked && {RECORD}"
WAITS, DONE = 6, 0
MOST_TURNS = 8


def script(request: dict[str, Any]) -> Any:
    """Two children at once and a command beside them; each child runs one, and asks about another."""
    messages = [message for message in request["messages"] if message["role"] != "system"]
    is_child = messages[0]["content"].startswith("part")
    done = sum(message["role"] == "assistant" for message in messages)
    if is_child and done == 0:
        return turn("", call("bash", {"command": RECORD}), call("bash", {"command": ASKED}))
    if not is_child and done == 0:
        parts = (call("delegate", {"task": f"part {number}"}) for number in (1, 2))
        return turn("Let others help. ", *parts, call("bash", {"command": RECORD}))
    if not is_child and done == 1:
        return turn(call("bash", {"command": RECORD}))
    return turn("All done.")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with FakeVendor(script) as vendor:
        yield new_home(tmp_path, vendor)


def new_home(folder: Path, vendor: FakeVendor) -> Home:
    home = Home(folder, vendor)
    home.state.mkdir()
    (home.state / "config.toml").write_text('ask = ["bash(touch)"]\non_question = "wait"\n')
    return home


def drive(process: subprocess.Popen[bytes], kill_at: int = 0) -> tuple[int, int]:
    """Its exit code and how many lines it printed; killed as soon as that is `kill_at`, if it gets there."""
    assert process.stdout is not None
    lines = 0
    for lines, _ in enumerate(process.stdout, 1):
        if lines == kill_at:
            process.kill()
            break
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode in (WAITS, DONE, -9), err.decode()
    return process.returncode, lines


async def answer_all(home: Home, session: str) -> int:
    """Says yes to whatever is asked in the tree, and leaves it to others to take that up; how often."""
    store = SqliteStore(home.store)
    try:
        questions = await open_questions(store, await load_state(store, session))
        for one in questions:
            answer = Answer(id=f"yes-{one.asked.id}", question=one.asked.id, answer="yes")
            await store.submit(one.session, answer)
        return len(questions)
    finally:
        await store.close()


def drive_on(home: Home, session: str, kills: list[int]) -> None:
    """To the run's end, through as many more kills as there are."""
    for _ in range(MOST_TURNS):
        asyncio.run(answer_all(home, session))
        process = home.start(session, command="resume")
        code, _ = drive(process, kills.pop() if kills else 0)
        if code == DONE or has_ended(home, session):  # a kill may come after the last line
            return
    raise AssertionError("the run never ends")


def has_ended(home: Home, session: str) -> bool:
    return any(isinstance(fact.event, events.RunEnded) for fact in home.logs()[session])


def check_everything(home: Home, session: str) -> None:
    logs = home.logs()
    assert [problem for facts in logs.values() for problem in violations(facts)] == []
    assert tree_violations(logs) == []
    assert check(home.store) == []
    ends = [fact.event for fact in logs[session] if isinstance(fact.event, events.RunEnded)]
    assert [end.status for end in ends] == ["completed"]
    children = {fact.event.child for fact in logs[session] if isinstance(fact.event, events.ChildStarted)}
    assert {session, *children} == set(logs) and len(children) == 2
    effects = home.effects()
    assert all(times == 1 for times in effects.values()), effects
    for facts in logs.values():
        for fact in facts:
            match fact.event:
                case events.ToolResultFact(call=call, name="bash", failed=None):
                    assert effects[f"{fact.session}/{call}"] == 1
                case events.ToolResultFact(name="bash", failed=failed):
                    assert failed == "tool_interrupted"
    for one in logs:
        assert processes_of(one) == []


@pytest.fixture(scope="session")
def lines(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, int]:
    """How many lines are printed by a run that is not killed, before its questions and after them."""
    with FakeVendor(script) as vendor:
        home = new_home(tmp_path_factory.mktemp("unkilled"), vendor)
        code, before = drive(home.start("do", "the", "work"))
        (session,) = [one for one, facts in home.logs().items() if not is_child(facts)]
        assert code == WAITS and asyncio.run(answer_all(home, session)) == 2
        code, after = drive(home.start(session, command="resume"))
        assert code == DONE
        check_everything(home, session)
        assert sum(home.effects().values()) == 6
    return before, after


def is_child(facts: list[Any]) -> bool:
    return bool(facts[0].event.child_of)


def kill_and_drive_on(home: Home, seed: int, lines: tuple[int, int]) -> None:
    """Kills the first process, and the one that continues with the answers; sometimes only one of them."""
    random = random_for(seed)
    before, after = lines
    first = random.choice((0, random.randint(1, before), random.randint(1, before)))
    later = [random.randint(1, after) for _ in range(random.choice((0, 1)) if first else 1)]
    process = home.start("do", "the", "work")
    assert process.stdout is not None
    session = json.loads(process.stdout.readline())["session"]
    if first == 1:
        process.kill()
    drive(process, first - 1)
    drive_on(home, session, later)
    check_everything(home, session)


@pytest.mark.parametrize("seed", range(5))
def test_a_tree_of_runs_that_is_killed_loses_nothing_and_repeats_nothing(
    home: Home, lines: tuple[int, int], seed: int
) -> None:
    kill_and_drive_on(home, seed, lines)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3000, 3075))
def test_many_trees_of_runs_that_are_killed_lose_nothing_and_repeat_nothing(
    home: Home, lines: tuple[int, int], seed: int
) -> None:
    kill_and_drive_on(home, seed, lines)
