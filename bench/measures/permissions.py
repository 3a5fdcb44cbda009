"""The measure of permissions: judging a shell command before it runs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from time import process_time_ns

from bench.environment import Environment
from bench.table import Row, interleaved, limit_row
from ostler.permissions.judge import Judge
from ostler.permissions.rules import parse_rule
from tests.support.shell_commands import CommandGrammar

COMMANDS = 5_000
RULES = ("bash(make)", "bash(npm run *)", "edit(src/**)", "bash+(git push)")


def judged_commands(environment: Environment) -> list[Row]:
    """The slowest hundredth of commands from the grammar of the fuzz test, with some rules."""
    folder = environment.home("judged")
    subprocess.run(["git", "init", "-q", folder], check=True, capture_output=True)
    grammar = CommandGrammar("bench")
    commands = [grammar.command() for _ in range(COMMANDS)]
    medians = interleaved(environment.rounds, ours=lambda: [_slow_milliseconds(commands, folder)])
    return [limit_row("judging a shell command, 99th percentile", medians["ours"][0], "ms", 2.0)]


def _slow_milliseconds(commands: list[str], folder: Path) -> float:
    """CPU time, with the calls of the kernel."""
    rules = [parse_rule(text, "allow") for text in RULES]
    times = []
    for command in commands:
        begin = process_time_ns()
        Judge("ask", rules, folder).judge("bash", "execute", {"command": command})
        times.append(process_time_ns() - begin)
    return sorted(times)[len(times) * 99 // 100] / 1e6
