"""Measures of the restrictions of tool processes: what confining a command, and limiting it, add to it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter

from bench.environment import Environment
from bench.table import Row, interleaved, limit_row, skipped_row
from ostler.core.confinement import confinement_status, new_confinement
from ostler.core.processes import ProcessLimits
from ostler.tools.child_process import ChildProcess

COMMANDS = 40
LIMITS = ProcessLimits()
NAME = "a confined command, more than an unconfined one"


def confinement(environment: Environment) -> list[Row]:
    """A command from its start to its last output: free, with limits, and with limits and confined."""
    status = confinement_status()
    if not status.is_active:
        return [skipped_row(NAME, status.text)]
    times = interleaved(
        environment.rounds,
        free=lambda: [_command(limits=None)],
        limited=lambda: [_command()],
        confined=lambda: [_command(confined=True)],
    )
    free, limited, confined = (times[name][0] for name in ("free", "limited", "confined"))
    return [
        limit_row(NAME, confined, "ms", 2.0, limited),
        limit_row("a command with limits, more than one without", limited, "ms", 0.5, free),
    ]


def _command(*, limits: ProcessLimits | None = LIMITS, confined: bool = False) -> float:
    """The quickest: other programs that use the machine slow down the rest."""
    return min(asyncio.run(_commands(limits, confined)))


async def _commands(limits: ProcessLimits | None, confined: bool) -> list[float]:
    return [await _one(limits, confined) for _ in range(COMMANDS)]


async def _one(limits: ProcessLimits | None, confined: bool) -> float:
    begin = perf_counter()
    child = ChildProcess(
        ["bash", "-c", "echo hello"],
        session="bench",
        call="call_1",
        cwd=Path.cwd(),
        on_output=lambda piece: None,
        limits=limits,
        confinement=new_confinement() if confined else None,
    )
    await child.wait()
    child.close()
    return (perf_counter() - begin) * 1000
