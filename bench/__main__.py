"""`python -m bench [NAME…]`: runs the measures, prints the table, and writes it to the documentation."""

from __future__ import annotations

import argparse
import compileall
import importlib
import platform
import signal
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from bench.child import BenchError
from bench.environment import ROOT, Environment
from bench.table import Row, table, write_between_marks

Measure = Callable[[Environment], list[Row]]

# The module in bench.measures and the function of each measure, in this order: the first ones read the peak
# memory of a child, which is at least our own, so they run before a measure loads Ostler here.
MEASURES = {
    "help": ("start", "help_text"),
    "start": ("start", "one_shot"),
    "steps": ("steps", "steps"),
    "parallel": ("steps", "parallel_tools"),
    "streams": ("steps", "streams"),
    "agents": ("steps", "agents"),
    "resume": ("start", "resume"),
    "wires": ("wires", "wires"),
    "probe": ("start", "probe"),
    "context": ("context", "context"),
    "judge": ("permissions", "judged_commands"),
    "runs": ("sessions", "runs"),
    "idle": ("sessions", "idle"),
    "tree": ("sessions", "tree"),
    "extensions": ("extensions", "extensions"),
    "terminal": ("terminal", "terminal"),
    "server": ("server", "server"),
    "drivers": ("drivers", "drivers"),
    "confinement": ("confinement", "confinement"),
}
PAGE = ROOT / "docs" / "performance.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(MEASURES)}")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured (default 5)")
    parser.add_argument("--write", action="store_true", help="write the table to docs/performance.md")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in MEASURES]
    if unknown:
        parser.error(f"no measure {unknown[0]!r}; there are: {', '.join(MEASURES)}")
    if options.write and options.names:
        parser.error("--write replaces the whole table: leave out the names")
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")

    # Raises SystemExit, so that `with` and `finally` stop the server and the children and delete the files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows, failed = _run(options.names or list(MEASURES), options.rounds)
    text = f"{_machine(options.rounds)}\n\n{table(rows)}"
    print(text)
    if options.write and failed:
        print(f"{PAGE.name} is unchanged: the table would be incomplete", file=sys.stderr)
    elif options.write:
        write_between_marks(PAGE, text)
    missed = failed or not all(row.ok for row in rows)
    return 1 if options.check and missed else 0


def _run(names: list[str], rounds: int) -> tuple[list[Row], bool]:
    """The rows of these measures, and whether one of them failed."""
    for directory in ("src", "bench"):
        compileall.compile_dir(ROOT / directory, quiet=1)
    rows: list[Row] = []
    failed = False
    with (
        tempfile.TemporaryDirectory(prefix="ostler-bench-") as directory,
        Environment(Path(directory), rounds) as environment,
    ):
        for name in names:
            begin = perf_counter()
            module, function = MEASURES[name]
            measure: Measure = getattr(importlib.import_module(f"bench.measures.{module}"), function)
            try:
                rows += measure(environment)
            except BenchError as error:
                failed = True
                print(f"{name} failed: {error}", file=sys.stderr)
            print(f"{name}: {perf_counter() - begin:.0f} s", file=sys.stderr)
    return rows, failed


def _machine(rounds: int) -> str:
    today = datetime.now(UTC).date().isoformat()
    count = f"{rounds} round{'s' if rounds > 1 else ''}"
    return f"{today}, {_processor()}, Python {platform.python_version()}, {count}."


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} × {models[0]}" if models else platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
