"""`ostler demo` works anywhere, survives `kill -9`, and prints a true summary."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from ostler.core.processes import kill_processes_of
from tests.support.command import Ostler, Ran
from tests.tui.terminal import Terminal

COUNTED = """\
  python3 hello.py           1 time   recorded as finished, not repeated
  python3 hello.py --slowly  1 time   recorded as interrupted, not repeated
"""


def folder_of(ran: Ran) -> Path:
    return Path(re.findall("^folder: (.+)$", ran.out, re.MULTILINE)[0])


def processes_of(folder: Path) -> list[str]:
    """Commands that name the folder of a demo."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True, timeout=60
    )
    return [line for line in listed.stdout.splitlines() if str(folder) in line]


def test_without_a_terminal_the_demo_has_its_own_store(ostler: Ostler) -> None:
    ostler.home.mkdir()
    ostler.store.write_text("this is no database, " * 100)
    ran = ostler("demo")
    assert (ran.code, ran.err) == (0, "")
    assert "no terminal: the demo answers its own question" in ran.out
    assert ran.out.count("Greets the world, and writes") == 1, "what was seen as written is not shown again"
    (hint,) = re.findall("`(OSTLER_HOME=.*)`", ran.out)
    variable, command, *arguments = shlex.split(hint)
    assert command == "ostler"
    result = ostler(*arguments, OSTLER_HOME=variable.removeprefix("OSTLER_HOME="))
    assert result.code == 0 and "hello.py" in result.out


def test_the_demo_resumes_a_killed_run_without_repeating_calls(ostler: Ostler) -> None:
    ran = ostler("demo")
    assert ran.code == 0, ran.out + ran.err
    killed, resumed = re.findall(r"process,? (\d+)", ran.out)
    assert killed != resumed
    assert f"Killing process {killed} with SIGKILL" in ran.out
    assert "The process ended while this call ran" in ran.out.partition("Resuming in a new process")[2]
    assert COUNTED in ran.out
    folder = folder_of(ran)
    assert (folder / "runs.log").read_text() == "python3 hello.py\npython3 hello.py --slowly\n"
    (session,) = re.findall("sessions show (ses_[0-9a-z]+)", ran.out)
    exported = ostler("sessions", "export", session, OSTLER_HOME=str(folder / "ostler-home")).lines
    calls = [line["arguments"] for line in exported if line.get("type") == "tool_called"]
    called = [arguments["command"] for arguments in calls if "command" in arguments]
    assert called == ["python3 hello.py", "python3 hello.py --slowly", "cat runs.log"]
    results = [line.get("failed") for line in exported if line.get("type") == "tool_result"]
    assert results == [None, None, "tool_interrupted", None]
    assert kill_processes_of(session) == 0, "a process was left behind"


def test_on_a_terminal_the_demo_uses_the_users_store(ostler: Ostler) -> None:
    ran = ostler.on_terminal("demo", typed=b"yes\n")
    assert ran.code == 0 and "OSTLER_HOME" not in ran.out
    assert re.sub(r"\x1b\[\d*m", "", ran.out).count(COUNTED) == 1
    (session,) = ostler("sessions", "--all", "--json").lines
    assert f"`ostler sessions show {session['id']}`" in ran.out


def test_a_declined_demo_runs_and_kills_nothing(ostler: Ostler) -> None:
    ran = ostler.on_terminal("demo", typed=b"no\n")
    output = re.sub(r"\x1b\[\d*m", "", ran.out)
    assert ran.code == 4 and "that call did not go through" in output
    assert "nothing was killed" in output and "Killing" not in output
    assert not (folder_of(Ran(0, output, "")) / "runs.log").exists()


def test_a_terminated_demo_leaves_no_process(ostler: Ostler) -> None:
    command = [sys.executable, "-W", "error", "-m", "ostler", "demo"]
    with Terminal(command, environment=ostler.environment({}), cwd=ostler.work) as terminal:
        terminal.wait_for("yes or no?")
        (folder,) = ostler.home.parent.glob("ostler-demo-*")
        assert len(processes_of(folder)) == 1
        terminal.process.terminate()
        assert terminal.wait_for_end() == 128 + signal.SIGTERM
        assert processes_of(folder) == []
