"""Consent over HTTP: the process at the other end of a loopback connection is looked up."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ostler.server.peers import CONNECTION, processes_of
from ostler.testkit.vendors import call, turn
from tests.server.serve_process import serve_process
from tests.server.served import serving
from tests.support.command import PATIENCE, Ostler, use
from tests.support.fixtures import Serve
from tests.support.open_runs import TOUCH, facts, waiting_run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="connections are looked up in /proc")

CLIENT = """
import ctypes, http.client, json, sys
how, port, token, session, body = sys.argv[1:]
if how == "hidden":  # no other process of this user can look into it
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=50)
headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
headers["X-Forwarded-For"] = "203.0.113.9"
connection.request("POST", f"/api/v1/sessions/{session}/requests?wait=10", body, headers)
if how != "gone":
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
"""


def client(how: str, base_url: str, token: str, session: str, body: object) -> list[str]:
    port = base_url.rpartition(":")[2]
    return [sys.executable, "-c", CLIENT, how, port, token, session, json.dumps(body)]


@pytest.mark.parametrize("how", ["plainly", "hidden", "clean", "gone"])
def test_a_tool_cannot_answer_over_http(ostler: Ostler, serve: Serve, how: str) -> None:
    vendor = serve(turn(TOUCH), turn("I made it."))
    session = waiting_run(ostler, vendor)
    (asked,) = [fact for fact in facts(ostler, session) if fact["type"] == "question_asked"]
    body = {"type": "answer", "question": asked["id"], "answer": "yes", "identity": "user:root", "by": "me"}
    with serve_process(ostler, *use(vendor), "--behind-proxy", "127.0.0.1") as served:
        words = client(how, served.base_url, served.token, session, body)
        command = shlex.join(words)
        if how == "clean":
            command = f"setsid --wait env -i {command}"
        attacker = serve(turn(call("bash", {"command": command})), turn("done"))
        ran = ostler("-p", "--json", "--yes", *use(attacker), "go")
        (result,) = ran.all("tool_result")
        output = result["content"][0]["text"] if result["content"] else ""
        if how != "gone":
            assert output.startswith("403 ") and "was started by an agent" in output
        assert not [fact for fact in facts(ostler, session) if fact["type"] == "question_answered"]
        # The same program, started by a person.
        done = subprocess.run(
            client("plainly", served.base_url, served.token, session, body),
            capture_output=True,
            timeout=PATIENCE,
            check=True,
        )
        assert done.stdout.startswith(b"200 "), done.stdout
    (answered,) = [fact for fact in facts(ostler, session) if fact["type"] == "question_answered"]
    assert answered["identity"].startswith("token:test ") and answered["by"] == "me"


def client_port(server: int) -> int:
    """The port of the one client that is connected to this server."""
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    (local,) = {row[1] for row in rows if row[2] == f"0100007F:{server:04X}" and row[3] == "01"}
    return int(local.partition(":")[2], 16)


async def test_both_ends_of_a_connection_are_found_and_other_machines_have_none(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        port = int(served.base_url.rpartition(":")[2])
        await served.get("me")
        own = client_port(port)
        ends = (("127.0.0.1", own), ("127.0.0.1", port))
        assert processes_of({CONNECTION: ends}) == [os.getpid()]
        mapped = (("::ffff:127.0.0.1", own, 0, 0), ("::ffff:127.0.0.1", port, 0, 0))
        assert processes_of({CONNECTION: mapped}) == [os.getpid()]
    assert processes_of({CONNECTION: (("203.0.113.9", 4711), ("192.0.2.1", 80))}) == []
    assert processes_of({"client": ("testclient", 50000), "server": ("testserver", 80)}) == []
    assert processes_of({}) == []
