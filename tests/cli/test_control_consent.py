"""An agent must not answer its own questions: what its tools try, and what a person's shell may do."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from ostler.core.process_tree import INSIDE_VARIABLE
from ostler.testkit.vendors import call, turn
from tests.support.command import Ostler, Ran, use
from tests.support.fixtures import Serve
from tests.support.needed import program
from tests.support.open_runs import TOUCH, facts, waiting_run

REFUSED = "was started by an agent"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ancestors are looked up in /proc")


def command(*arguments: str) -> str:
    return shlex.join([sys.executable, "-m", "ostler", *arguments])


def clean(ostler: Ostler) -> str:
    """`env -i`, with only what the program needs to find the same store."""
    names = ("PATH", "PYTHONPATH")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    kept |= {"HOME": str(ostler.home), "OSTLER_HOME": str(ostler.home)}
    return shlex.join(["env", "-i", *(f"{name}={value}" for name, value in kept.items())])


SDK = """
import asyncio, sys
from pathlib import Path
from ostler.schema.requests import Answer
from ostler.store.sqlite import SqliteStore
async def main():
    store = SqliteStore(Path(sys.argv[1]))
    (asked,) = [fact.event for fact in await store.read(sys.argv[2]) if fact.type == "question_asked"]
    await store.submit(sys.argv[2], Answer(id="r", question=asked.id, answer="yes", identity="user:ada"))
asyncio.run(main())
"""

HOW = ("plainly", "with a clean environment", "in another session", "detached", "in Python")


def attack(ostler: Ostler, session: str, how: str, folder: Path) -> str:
    answer = command("answer", session, "yes", "--record-only")
    match how:
        case "plainly":
            return answer
        case "with a clean environment":
            return f"{clean(ostler)} {answer}"
        case "in another session":
            return f"setsid --wait {clean(ostler)} {answer}"
        case "detached":
            # Its parents are gone before it begins, and it has no mark.
            script = f"until test -e {folder}/orphan; do :; done; {clean(ostler)} {answer}"
            detached = f"({{ {script}; }} > {folder}/out 2>&1; touch {folder}/done)"
            inner = f"setsid sh -c {shlex.quote(detached)} & "
            waiting = f"until test -e {folder}/done; do :; done; cat {folder}/out"
            return f"sh -c {shlex.quote(inner)}; touch {folder}/orphan; {waiting}"
    return shlex.join([sys.executable, "-c", SDK, str(ostler.store), session])


def tool_output(ostler: Ostler, ran: Ran) -> str:
    return "".join(block["text"] for result in ran.all("tool_result") for block in result["content"])


@pytest.mark.parametrize("how", HOW)
def test_a_tool_cannot_answer_a_question(ostler: Ostler, serve: Serve, tmp_path: Path, how: str) -> None:
    program("setsid")
    session = waiting_run(ostler, serve(turn(TOUCH), turn("never")))
    attacker = serve(turn(call("bash", {"command": attack(ostler, session, how, tmp_path)})), turn("done"))
    before = facts(ostler, session)
    ran = ostler("-p", "--json", "--yes", *use(attacker), "go")
    assert ran.code == 0, ran.err
    output = tool_output(ostler, ran)
    assert REFUSED in output and "in a terminal of your own" in output
    assert facts(ostler, session) == before
    assert not (ostler.work / "made").exists()


def test_the_refusal_is_one_line(ostler: Ostler, serve: Serve) -> None:
    session = waiting_run(ostler, serve(turn(TOUCH), turn("never")))
    answer = command("answer", session, "yes")
    attacker = serve(turn(call("bash", {"command": f"{answer}; echo code $?"})), turn("done"))
    ran = ostler("-p", "--json", "--yes", *use(attacker), "go")
    line, code = tool_output(ostler, ran).strip().splitlines()
    assert line.startswith("ostler: process ") and code == "code 4"


@pytest.mark.parametrize(
    "arguments",
    [
        ("permissions", "allow", "bash", "--user"),
        ("permissions", "ask", "bash"),
        ("permissions", "deny", "bash"),
        ("permissions", "revoke", "bash(ls)"),
        ("trust",),
        ("trust", "--edits"),
        ("token", "new", "mine"),
    ],
    ids=" ".join,
)
def test_a_tool_cannot_allow_or_trust(ostler: Ostler, serve: Serve, arguments: tuple[str, ...]) -> None:
    is_clean = len(arguments) % 2 == 1  # then only the tree of processes tells
    (ostler.work / "ostler.toml").write_text('allow = ["bash"]\n')
    assert ostler("permissions", "allow", "bash(ls)", "--user").code == 0, "a person may"
    saved = {path: path.read_bytes() for path in ostler.home.glob("*.json")}
    line = f"{clean(ostler) if is_clean else ''} {command(*arguments)}; echo code $?"
    attacker = serve(turn(call("bash", {"command": line})), turn("done"))
    ran = ostler("-p", "--json", "--yes", *use(attacker), "go")
    output = tool_output(ostler, ran)
    assert REFUSED in output and "code 4" in output
    assert {path: path.read_bytes() for path in ostler.home.glob("*.json")} == saved
    assert ostler(*arguments).code == 0, "a person may"


def test_a_person_can_answer_from_a_shell(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(TOUCH), turn("I made it."))
    session = waiting_run(ostler, vendor)
    assert ostler("answer", session, *use(vendor), "yes").out == "I made it.\n"
    assert (ostler.work / "made").exists()


def test_a_mark_of_another_store_does_not_count(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(TOUCH), turn("I made it."))
    session = waiting_run(ostler, vendor)
    ran = ostler("answer", session, *use(vendor), "yes", **{INSIDE_VARIABLE: "store_x:store_y"})
    assert ran.out == "I made it.\n"
