"""The command line, with an agent's screen read quicker than people need it: the tests run it."""

from __future__ import annotations

import functools

from ostler.faces.cli import main
from ostler.faces.web import agent_serving
from ostler.terminals.driving import TerminalAgent
from tests.terminals.agents_at_work import QUICK

if __name__ == "__main__":
    agent_serving.TerminalAgent = functools.partial(TerminalAgent, timing=QUICK)  # type: ignore[misc, assignment]
    main()
