"""The command line, with an agent's screen read quicker than people need it: the tests run it."""

from __future__ import annotations

import functools

from ostler.main import main
from ostler.server.agentapi import options
from tests.drivers.screen_agents import QUICK

if __name__ == "__main__":
    options.AgentPlan = functools.partial(options.AgentPlan, timing=QUICK)  # type: ignore[misc, assignment]
    main()
