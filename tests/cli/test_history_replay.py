"""`ostler replay`: replays a session of a real run without its vendor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ostler.testkit.vendors import FakeVendor, call, turn
from tests.support.command import KEY, Ostler, use
from tests.support.fixtures import Serve


@pytest.fixture
def session(ostler: Ostler) -> str:
    """Reads a file, tries to run a command, and is refused. Its vendor is gone afterwards."""
    (ostler.work / "plants.txt").write_text("thyme\nsage\n")
    reads, runs = call("read", {"path": "plants.txt"}), call("bash", {"command": "touch ran"})
    with FakeVendor([turn(reads), turn(runs), turn("Two.")]) as vendor:
        ran = ostler("-p", "--json", *use(vendor), "what grows here?")
    return str(ran.facts[0]["session"])


def test_a_session_replays_as_identical_without_a_vendor(ostler: Ostler, session: str) -> None:
    ran = ostler("replay", session[:20])
    assert (ran.code, ran.out, ran.err) == (0, "identical: 1 run, 3 requests, 2 results\n", "")
    assert KEY not in ran.out


def test_an_export_replays_in_another_directory(ostler: Ostler, session: str, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    ostler("sessions", "export", session, str(file))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran = ostler("replay", str(file), cwd=elsewhere)
    assert (ran.code, ran.out) == (0, "identical: 1 run, 3 requests, 2 results\n")
    assert "0 of the requests are byte-identical" in ran.err
    piped = ostler("replay", "--json", "-", piped=file.read_bytes(), cwd=elsewhere)
    assert json.loads(piped.out) == {
        "identical": True,
        "runs": 1,
        "requests": 3,
        "exact": 0,
        "results": 2,
        "difference": None,
    }


def test_live_tools_detect_changed_files(ostler: Ostler, session: str) -> None:
    assert ostler("replay", "--tools", "live", session).code == 0
    (ostler.work / "plants.txt").write_text("thyme\nrosemary\n")
    ran = ostler("replay", "--tools", "live", session)
    assert ran.code == 1
    first, *diff = ran.out.splitlines()
    assert first == "different: the result of read (step 1 of run 1, fact 10)"
    assert any(line.startswith("-") and "sage" in line for line in diff)
    assert any(line.startswith("+") and "rosemary" in line for line in diff)
    outcome = json.loads(ostler("replay", "--tools", "live", "--json", session).out)
    assert (outcome["identical"], outcome["requests"], outcome["results"]) == (False, 1, 0)
    difference = outcome["difference"]
    assert (difference["what"], difference["tool"], difference["fact"]) == ("result", "read", 10)
    assert difference["diff"].splitlines() == diff


def test_live_tools_work_in_the_given_directory(ostler: Ostler, session: str, tmp_path: Path) -> None:
    ran = ostler("replay", "--tools", "live", "--cwd", str(tmp_path), session)
    assert ran.code == 1
    assert "the result of read" in ran.out


def test_a_denied_command_is_not_run_by_a_permitted_replay(ostler: Ostler, session: str) -> None:
    ran = ostler("replay", "--tools", "live", "--yes", session)
    assert ran.code == 1
    assert "the result of bash" in ran.out
    assert not (ostler.work / "ran").exists()


def test_live_tools_are_read_only_by_default(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(call("bash", {"command": "echo x >> ran"})), turn("Done."))
    facts = ostler("-p", "--json", "--yes", *use(vendor), "go").facts
    session = str(facts[0]["session"])
    refused = ostler("replay", "--tools", "live", session, OSTLER_PERMISSIONS="full")
    assert refused.code == 1
    assert "permissions are read-only" in refused.out
    assert (ostler.work / "ran").read_text() == "x\n"
    assert ostler("replay", "--tools", "live", "--yes", session).code == 0
    assert (ostler.work / "ran").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("ses_none",), "no session 'ses_none'"),
        (("none.jsonl",), "there is no file none.jsonl"),
        (("--yes", "ses"), "recorded tools need no permission"),
        (("--tools", "live", "--yes", "--permissions", "edit", "ses"), "cannot be combined"),
        (("plants.txt",), "line 1 cannot be imported"),
    ],
)
def test_an_error_is_one_line(
    ostler: Ostler, session: str, arguments: tuple[str, ...], complaint: str
) -> None:
    ran = ostler("replay", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
    assert ran.err.count("\n") == 1


def test_a_missing_session_creates_no_store(ostler: Ostler) -> None:
    assert ostler("replay", "ses_1").code == 2
    assert not ostler.store.exists()
