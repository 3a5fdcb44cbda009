"""A vendor's own program behind `ostler serve`, asked by a client of agentapi's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ostler.testkit.vendors import FakeVendor
from tests.agents.real.answers import FIRST, answering
from tests.agents.real.places import Place, processes_with
from tests.agents.real.programs import PROGRAMS
from tests.agents.serving.served_agent import ServedAgent
from tests.support.command import Ostler

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]


def until_it_shows(served: ServedAgent, words: str) -> None:
    with served.http.stream("GET", "/internal/screen") as screens:
        assert any(words in line for line in screens.iter_lines())


def test_a_real_program_is_served_and_ends_with_its_own_key(tmp_path: Path, home: Path) -> None:
    program = PROGRAMS[0]
    program.require()
    ostler = Ostler(tmp_path)
    with FakeVendor(answering(program.acts, program.tool)) as vendor:
        agent = program.agent(Place(home, vendor))
        process = subprocess.Popen(
            [sys.executable, "-m", "ostler", "serve", "--port", "0", "--", *agent.command],
            cwd=agent.cwd,
            env=ostler.environment(dict(agent.environment)),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            served = ServedAgent(ostler, process)
            with served.http:
                served.until_stable()
                served.say(FIRST)
                served.until(
                    lambda: served.status == "stable" and "Prune in winter." in served.messages[-1][1]
                )
                assert [role for role, _text in served.messages] == ["agent", "user", "agent"]
                for keys, shown in program.leaves:
                    typed = {"type": "raw", "content": keys.decode()}
                    assert served.http.post("/message", json=typed).status_code == 200
                    if shown:
                        until_it_shows(served, shown)
                assert served.wait().code == 0
        finally:
            process.kill()
            process.communicate()
    assert processes_with(str(home)) == []
