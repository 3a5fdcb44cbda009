"""`python -m bench [NAME…]`: runs the measures, prints the table, and writes it into the documentation."""

from __future__ import annotations

import argparse
import compileall
import platform
import signal
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from bench.contexts import context
from bench.crowding import agents
from bench.driving import driven
from bench.extending import extensions
from bench.probing import probe
from bench.processes import BenchError
from bench.reopening import resume
from bench.room import ROOT, Room
from bench.rows import Row, table, write_between_marks
from bench.serving import server
from bench.starting import cold_start, help_text
from bench.stepping import steps, together
from bench.streaming import streams
from bench.supervising import idle, runs, tree
from bench.terminal import terminal
from bench.wires import wires

MEASURES: dict[str, Callable[[Room], list[Row]]] = {
    "help": help_text,
    "start": cold_start,
    "steps": steps,
    "together": together,
    "streams": streams,
    "agents": agents,
    "resume": resume,
    "wires": wires,
    "probe": probe,
    # After those that look at the memory of a child: it begins with as much as we have.
    "context": context,
    "runs": runs,
    "idle": idle,
    "tree": tree,
    "extensions": extensions,
    "terminal": terminal,
    "server": server,
    "driven": driven,
}
DOCUMENT = ROOT / "docs" / "performance.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(MEASURES)}")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured (default 5)")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a goal is missed")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in MEASURES]
    if unknown:
        parser.error(f"no measure {unknown[0]!r}; there are: {', '.join(MEASURES)}")
    if options.write and options.names:
        parser.error("--write replaces the whole table: leave out the names")
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")

    # Leaves through `finally`, so that the server, the child under way and the files go too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows, failed = _measure(options.names or list(MEASURES), options.rounds)
    text = f"{_machine(options.rounds)}\n\n{table(rows)}"
    print(text)
    if options.write and failed:
        print(f"{DOCUMENT.name} was left as it is: the table would be incomplete", file=sys.stderr)
    elif options.write:
        write_between_marks(DOCUMENT, text)
    missed = failed or not all(row.ok for row in rows)
    return 1 if options.check and missed else 0


def _measure(names: list[str], rounds: int) -> tuple[list[Row], bool]:
    for directory in ("src", "bench"):
        compileall.compile_dir(ROOT / directory, quiet=1)
    rows: list[Row] = []
    failed = False
    with (
        tempfile.TemporaryDirectory(prefix="ostler-bench-") as directory,
        Room(Path(directory), rounds) as room,
    ):
        for name in names:
            begin = perf_counter()
            try:
                rows += MEASURES[name](room)
            except BenchError as error:
                failed = True
                print(f"{name} could not be measured: {error}", file=sys.stderr)
            print(f"{name}: {perf_counter() - begin:.0f} s", file=sys.stderr)
    return rows, failed


def _machine(rounds: int) -> str:
    today = datetime.now(UTC).date().isoformat()
    return f"{today}, {_processor()}, Python {platform.python_version()}, {rounds} rounds."


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} × {models[0]}" if models else platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
