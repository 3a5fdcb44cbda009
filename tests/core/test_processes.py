"""The identity of a process, whatever the names of the process and its host and the time zone are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ostler.core import secrets
from ostler.core.processes import OwnedGroup, ProcessId, _ask, host_name, run_program, start_time
from ostler.schema.errors import UsageError
from tests.support import needed


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the name is not read")
def test_a_process_name_may_be_any_bytes(tmp_path: Path) -> None:
    program = os.fsencode(tmp_path) + b"/caf\xe9) (x"
    os.symlink(needed.program("sleep"), program)  # noqa: PTH211  # a name in bytes
    with subprocess.Popen([program, "60"]) as process:
        try:
            assert b"(caf\xe9) (x)" in Path(f"/proc/{process.pid}/stat").read_bytes()
            assert start_time(process.pid).isdigit()
            assert ProcessId.of(process.pid).is_alive()
        finally:
            process.kill()


def test_a_host_name_may_be_any_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: os.fsdecode(b"caf\xe9"))
    assert host_name.__wrapped__() == "caf\ufffd"


def test_the_start_time_of_a_process_does_not_depend_on_the_time_zone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed.program("ps")
    times = set()
    for zone in ("UTC", "Asia/Kathmandu", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        times.add(_ask("ps", "-o", "lstart=", "-p", str(os.getpid())))
    assert len(times) == 1 and "" not in times


def test_a_missing_program_is_reported_as_missing_even_if_a_folder_on_path_is_closed(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    environment = {"PATH": f"/bin:{closed}"}
    user = os.geteuid()
    if user == 0:  # root may search every folder
        os.seteuid(65534)
    try:
        with pytest.raises(UsageError, match="cannot start no-such-agent: there is no such program"):
            OwnedGroup(["no-such-agent"], cwd=Path("/"), environment=environment)
    finally:
        os.seteuid(user)


def test_a_program_gets_no_key_unless_its_environment_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Extensions in other languages, git and pip are started this way; other vendors' agents get it all."""
    monkeypatch.setenv("CANARY_API_KEY", "sk-canary-0123456789")
    secrets.hide_variables(["CANARY_API_KEY"])
    printing = ["sh", "-c", 'echo "[$CANARY_API_KEY]"']
    assert run_program(printing, cwd=tmp_path, seconds=60).out == "[]\n"
    whole = run_program(printing, cwd=tmp_path, seconds=60, environment=os.environ)
    assert whole.out == "[sk-canary-0123456789]\n"
