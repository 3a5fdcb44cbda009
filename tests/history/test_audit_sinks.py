"""The sinks of an audit, and what happens when one fails."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from ostler.app.settings import load_settings
from ostler.core.secrets import MASK
from ostler.history.audit import FileAudit, LoggingAudit, audit_of, audit_to, configured_sinks, describe_entry
from ostler.history.audit_decisions import AuditEntry
from ostler.models.scripted import Call
from ostler.permissions.trust import trust
from ostler.schema.errors import ConfigurationError
from ostler.schema.events import RunEnded, Warned
from ostler.schema.messages import as_content
from tests.support.running import started

MANY = """
import sys
from ostler.history.audit_decisions import AuditEntry
from ostler.history.audit import FileAudit
sink = FileAudit(sys.argv[1])
for number in range(100):
    entry = AuditEntry(time="now", session=sys.argv[2], seq=number, actor="host", action="a",
        outcome="recorded", reason="x" * 5000)
    sink.write([entry])
"""


class Kept:
    """A sink that keeps what it is given."""

    def __init__(self, log: list[tuple[str, int]], name: str) -> None:
        self.entries: list[AuditEntry] = []
        self._log = log
        self._name = name

    def write(self, entries: Sequence[AuditEntry]) -> None:
        self.entries.extend(entries)
        self._log.extend((self._name, entry.seq) for entry in entries)


class Broken:
    def __init__(self) -> None:
        self.tries = 0

    def __repr__(self) -> str:
        return "the broken one"

    def write(self, entries: Sequence[AuditEntry]) -> None:
        self.tries += 1
        raise ValueError("no room")


def entry(**changed: object) -> AuditEntry:
    fields = {
        "time": "2026-01-01T00:00:00.000Z",
        "session": "ses_1",
        "seq": 1,
        "actor": "system",
        "action": "tool.allow",
        "outcome": "allowed",
        "reason": "profile full",
    }
    return AuditEntry(**{**fields, **changed})  # type: ignore[arg-type]


def lines_of(path: Path) -> list[AuditEntry]:
    return [msgspec.json.decode(line, type=AuditEntry) for line in path.read_bytes().splitlines()]


def test_two_writes_are_two_lines_in_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "audit.jsonl"
    sink = FileAudit(path)
    sink.write([entry()])
    sink.write([entry(seq=2)])
    assert lines_of(path) == [entry(), entry(seq=2)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_rotated_file_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    sink = FileAudit(path)
    sink.write([entry()])
    path.rename(tmp_path / "audit.jsonl.1")
    sink.write([entry(seq=2)])
    assert lines_of(path) == [entry(seq=2)]


def test_several_processes_append_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", MANY, str(path), str(n)]) for n in range(3)]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    numbers = sorted((one.session, one.seq) for one in lines_of(path))
    assert numbers == [(str(n), number) for n in range(3) for number in range(100)]


def test_a_key_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "sk-canary-0123456789")
    FileAudit(tmp_path / "a").write([entry(what="curl -H sk-canary-0123456789")])
    assert lines_of(tmp_path / "a")[0].what == f"curl -H {MASK}"
    assert "canary" not in describe_entry(entry(what="curl -H sk-canary-0123456789"))


def test_control_characters_are_not_logged() -> None:
    assert describe_entry(entry(tool="bash", what="ls")) == "tool.allow bash ls: profile full"
    assert "\x1b" not in describe_entry(entry(tool="\x1b[2J"))


async def test_sinks_get_every_entry_in_order(tmp_path: Path) -> None:
    ran = await started([Call("nothing"), "done"])
    order: list[tuple[str, int]] = []
    first, second = Kept(order, "first"), Kept(order, "second")
    stop = audit_to(ran.session, [first, second, FileAudit(tmp_path / "audit.jsonl")])
    await ran.session.prompt(as_content("go"))
    stored = await audit_of(ran.session.journal.store, ran.session.id)
    assert first.entries == second.entries == stored[1:], "all but the beginning of the session itself"
    assert lines_of(tmp_path / "audit.jsonl") == stored[1:]
    assert order.index(("second", stored[1].seq)) > order.index(("first", stored[1].seq))
    stop()
    await ran.session.prompt(as_content("again"))
    assert first.entries == stored[1:]


async def test_a_failing_sink_is_reported_once_and_removed() -> None:
    ran = await started(["done"])
    broken, kept = Broken(), Kept([], "kept")
    audit_to(ran.session.journal, [broken, kept])
    quiet = await ran.session.prompt(as_content("go"))
    assert isinstance(quiet, RunEnded) and quiet.status == "completed"
    warnings = [warned.text for warned in ran.all(Warned)]
    assert warnings == ["the broken one cannot be written (no room): it gets no more entries"]
    assert broken.tries == 1
    assert [one.action for one in kept.entries][-1] == "run.end"


@pytest.mark.parametrize("kind", ["folder", "pipe", "below a file"])
async def test_a_file_that_cannot_be_written_never_stops_a_run(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("")
        path = path / "below"
    ran = await started(["done"])
    heard: list[str] = []
    audit_to(ran.session, [FileAudit(path)], heard.append)
    quiet = await ran.session.prompt(as_content("go"))
    assert isinstance(quiet, RunEnded) and quiet.status == "completed"
    (text,) = heard
    assert text.startswith(f"the audit file {path} cannot be written (")
    assert not ran.all(Warned)


async def test_logging_gets_a_line_and_the_fields(caplog: pytest.LogCaptureFixture) -> None:
    ran = await started(["done"])
    audit_to(ran.session, [LoggingAudit(logging.getLogger("tests.audit"))])
    with caplog.at_level(logging.INFO, "tests.audit"):
        await ran.session.prompt(as_content("go"))
    lines = [record.message for record in caplog.records]
    assert lines[:2] == [
        "run.start scripted/model: it was prompted",
        "model.select scripted/model: the run was started with it",
    ]
    assert caplog.records[1].audit["action"] == "model.select"  # type: ignore[attr-defined]


def test_the_setting_names_a_file_or_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert configured_sinks("") == []
    assert repr(configured_sinks("~/audit.jsonl")) == f"[the audit file {tmp_path}/audit.jsonl]"
    for unclear in ("audit.jsonl", "~nobody-here/audit"):
        with pytest.raises(ConfigurationError, match="audit must be a whole path"):
            configured_sinks(unclear)


def test_a_logged_audit_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    (sink,) = configured_sinks("log")
    logger = logging.getLogger("ostler.audit")
    try:
        (configured_sinks("log")[0]).write([entry()])
        sink.write([entry(seq=2)])
    finally:
        for handler in tuple(logger.handlers):
            logger.removeHandler(handler)
    assert capsys.readouterr().err == "ostler: audit: tool.allow: profile full\n" * 2


def test_a_project_may_not_choose_where_the_audit_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "ostler.toml").write_text("audit = '/somewhere/else'")
    loaded = load_settings(project, {}, {})
    assert loaded.settings.audit == ""
    assert "sets audit, which is ignored until you review it" in loaded.notices[0]
    trust(project, (project / "ostler.toml").read_bytes())
    assert load_settings(project, {}, {}).settings.audit == "/somewhere/else"
    assert load_settings(project, {}, {"OSTLER_AUDIT": "log"}).settings.audit == "log"
