"""A disk that fills up during a run: everything stops, subscribers are notified, nothing is lost."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.store.invariants import violations
from ostler.testkit.vendors import FakeVendor, call, say, turn
from tests.support.real_run import PATIENCE, Home, processes_of, statuses


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "state"
    place.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk, and only on Linux: run this test with sudo")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def answer(request: dict[str, Any]) -> Any:
    last = request["messages"][-1]
    if last["role"] == "user" and last["content"] == "go on":
        return turn("I went on.")
    return turn(call("bash", {"command": "head -c 6000000 /dev/zero | tr '\\0' x; sleep 600"}))


def test_a_disk_that_fills_up_stops_the_run_and_its_commands(tiny_disk: Path, tmp_path: Path) -> None:
    with FakeVendor(answer) as vendor:
        home = Home(tmp_path, vendor)
        process = home.start("print a lot")
        out, err = process.communicate(timeout=PATIENCE)
        lines = [json.loads(line) for line in out.splitlines()]
        assert process.returncode == 1
        assert "store_failed" in [line["type"] for line in lines]
        assert "ostler.db" in err.decode() and err.decode().count("\n") == 1
        session = lines[0]["session"]
        assert processes_of(session) == []

        subprocess.run(["mount", "-o", "remount,size=64m", str(tiny_disk)], check=True)
        assert home.run("--continue", "go on")[-1]["status"] == "completed"
        facts = home.facts()
        assert statuses(facts) == ["interrupted", "completed"]
        assert violations(facts) == []


def test_a_slow_reader_gets_whole_lines_of_a_run_whose_disk_filled_up(
    tiny_disk: Path, tmp_path: Path
) -> None:
    with FakeVendor([turn(say(*["word " * 1000] * 500))]) as vendor:
        process = Home(tmp_path, vendor).start("tell me a lot")
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err.count(b"\n")) == (1, 1)
        assert json.loads(out.splitlines()[-1])["type"] == "store_failed"


KEEPER = """
import json
from ostler.schema.events import ToolCalled


def setup(ostler):
    @ostler.on(ToolCalled)
    async def keep(called, context):
        for n in range(400):
            await context.emit("keep", n)

    @ostler.on("keep")
    def keep_one(n, context):
        context.state["text"] = str(n) * 20_000
        context.state["n"] = n

    @ostler.command("kept")
    def kept(arguments, context):
        return json.dumps(dict(context.state))
"""


def test_only_the_state_that_a_full_disk_could_store_is_restored(tiny_disk: Path, tmp_path: Path) -> None:
    file = tmp_path / "keeper.py"
    file.write_text(KEEPER)
    with FakeVendor(lambda request: turn(call("bash", {"command": "sleep 600"}))) as vendor:
        home = Home(tmp_path, vendor)
        process = home.start("-e", str(file), "go")
        out, err = process.communicate(timeout=PATIENCE)
        lines = [json.loads(line) for line in out.splitlines()]
        assert (process.returncode, lines[-1]["type"]) == (1, "store_failed")
        assert "Traceback" not in err.decode()
        values = [line["value"] for line in lines if line["type"] == "extension_state" and line["key"] == "n"]

        subprocess.run(["mount", "-o", "remount,size=64m", str(tiny_disk)], check=True)
        (ran,) = home.run("-e", str(file), "--continue", "/kept")[-1:]
        kept = json.loads(ran["text"])
        assert kept == {"n": values[-1], "text": str(values[-1]) * 20_000}, "the published values only"
        assert violations(home.facts()) == []
