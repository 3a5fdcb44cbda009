"""A client in Go, which reads a stream with the package that agentapi's own client reads it with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.agents.serving.served_agent import GREETING, scripted, serving_agent
from tests.support.command import PATIENCE, Ostler
from tests.support.needed import program

SOURCE = Path(__file__).with_name("go_client")
DOWNLOAD, BUILD, TALK = 60, 300, 60 + PATIENCE


@pytest.fixture
def go_client(tmp_path: Path) -> Path:
    """Built, where there is a toolchain and the package can be had."""
    go = program("go")
    folder = shutil.copytree(SOURCE, tmp_path / "client")
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    try:
        subprocess.run(
            [go, "mod", "download"],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
            timeout=DOWNLOAD,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"its packages cannot be had: {error}")
    subprocess.run([go, "build", "-o", "client", "."], cwd=folder, env=environment, check=True, timeout=BUILD)
    return folder / "client"


@pytest.mark.long
def test_a_client_in_go_talks_over_one_stream_before_and_after_a_comment(
    ostler: Ostler, go_client: Path
) -> None:
    turns = [
        GREETING,
        {"expects": "first <b>", "thinks": 0.5, "says": "Once & again: é 😀"},
        {"expects": "second", "says": "And then."},
    ]
    with serving_agent(ostler, agent=scripted(ostler, turns)) as served:
        ran = subprocess.run(
            [str(go_client), served.url.rstrip("/"), "first <b>", "second"],
            capture_output=True,
            text=True,
            timeout=TALK,
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        told = [json.loads(line) for line in ran.stdout.splitlines()]
        last = {one["id"]: (one["role"], one["message"].strip()) for one in told if "id" in one}
        assert [last[id] for id in sorted(last)] == served.messages
        assert served.messages == [
            ("agent", "Hello! I am ready."),
            ("user", "first <b>"),
            ("agent", "Once & again: é 😀"),
            ("user", "second"),
            ("agent", "And then."),
        ]
        changes = [one["status"] for one in told if "status" in one]
        assert changes[-5:] == ["stable", "running", "stable", "running", "stable"]
