"""`ostler server AGENT …`: said as agentapi's own command line is, for scripts that are given our program."""

from __future__ import annotations

from ostler.faces.cli.serve import serve_command


def server_command(arguments: list[str]) -> int:
    return serve_command(arguments, agent_needs_dashes=False)
