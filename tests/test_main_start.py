"""How much of the code `ostler -p hi` loads and runs: what a reader has to follow, and what a start costs."""

from __future__ import annotations

import json
import subprocess
import sys

from ostler.testkit.vendors import turn
from tests.support.command import Ostler, use
from tests.support.fixtures import Serve

MODULES = 100
FILES = 75

TRACED = """\
import json, os, sys, threading
from pathlib import Path
import ostler.main
import ostler.extensions.idle_host

ostler.extensions.idle_host.DELAY = 60  # on a slow machine the watcher of files would start, too
folder = str(Path(ostler.main.__file__).parent)
called = set()


def trace(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_flags & 1 and not code.co_name.endswith(("comp>", "genexpr>")):
        called.add(code.co_filename)  # not the bodies of modules, classes and comprehensions


def end(code):
    sys.setprofile(None)
    modules = sorted(name for name in sys.modules if name.partition(".")[0] == "ostler")
    print(json.dumps([modules, sorted(name for name in called if name.startswith(folder))]), file=sys.stderr)
    sys.stderr.flush()
    leave(code)


leave, os._exit = os._exit, end
threading.setprofile(trace)
sys.setprofile(trace)
ostler.main.main()
"""


def test_a_prompt_loads_few_modules_and_runs_code_in_few_files(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("Hello."))
    done = subprocess.run(
        [sys.executable, "-c", TRACED, "-p", *use(vendor), "hi"],
        cwd=ostler.work,
        env=ostler.environment({}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "Hello.\n", done.stderr
    modules, files = json.loads(done.stderr)
    assert len(modules) <= MODULES, modules
    assert len(files) <= FILES, files
