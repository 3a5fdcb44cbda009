"""How it ends: with its agent, by signals, with streams open and messages on their way; and the pid file."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM, Signals

import pytest

from ostler.schema.errors import UsageError
from ostler.server.agentapi.state_file import pid_file
from tests.agents.serving.served_agent import BASIC, GREETING, PYTHON, is_gone, scripted, serving_agent
from tests.support.command import PATIENCE, Ostler, finish, wait_until

# Says its number and that of a child, and does not leave when it is asked to.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
child = os.fork()
if child:
    open("pids", "w").write(f"{os.getpid()} {child}")
    print("here\\n> ", end="", flush=True)
while True:
    time.sleep(60)
"""


def pids(ostler: Ostler) -> list[int]:
    path = ostler.work / "pids"
    wait_until(lambda: path.exists() and len(path.read_text().split()) == 2)
    return [int(one) for one in path.read_text().split()]


def test_it_ends_with_its_agent(ostler: Ostler) -> None:
    agent = (*PYTHON, "-c", "input('go? ')")
    with serving_agent(ostler, "--pid-file", "pid", agent=agent) as served:
        assert (ostler.work / "pid").read_text() == f"{served.process.pid}\n"
        served.http.post("/message", json={"content": "\r", "type": "raw"})
        ran = served.wait()
    assert (ran.code, ran.err) == (0, "")
    assert not (ostler.work / "pid").exists()


def test_an_agent_that_failed_is_a_failure_with_its_last_screen(ostler: Ostler) -> None:
    ran = ostler(
        *("serve", "--port", "0", "--pid-file", "pid", "--"),
        *(*PYTHON, "-c", "print('no licence\\n\\ntry later\\n'); raise SystemExit(3)"),
    )
    assert ran.code == 1
    assert ran.err.endswith(
        "agent exited with error: ========\nno licence\n\ntry later\n========\n: non-zero exit code\n"
    )
    assert not (ostler.work / "pid").exists()


def test_an_agent_that_cannot_be_started_is_one_line(ostler: Ostler) -> None:
    ran = ostler("serve", "--port", "0", "--pid-file", "pid", "--", "no-such-agent")
    assert ran.code == 2
    assert ran.err == "ostler: cannot start no-such-agent: there is no such program on PATH\n"
    assert not (ostler.work / "pid").exists()
    assert ostler("sessions").out == ""
    ran = ostler("serve", "--port", "0", "--ready-regex", "(", "--", "touch", "started")
    assert "no regular expression" in ran.err
    assert not (ostler.work / "started").exists()


def test_without_an_emulator_it_says_what_to_install(ostler: Ostler, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    for name in ("pyghostty", "bittty"):
        (hidden / f"{name}.py").write_text("raise ImportError\n")
    ran = ostler("serve", "--port", "0", "--", "touch", "started", PYTHONPATH=str(hidden))
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "[terminals]" in ran.err
    assert not (ostler.work / "started").exists()


def test_a_port_that_is_taken_is_found_before_the_agent_is_started(ostler: Ostler) -> None:
    with serving_agent(ostler, agent=scripted(ostler, BASIC)) as served:
        port = served.http.base_url.port
        ran = ostler("serve", "--port", str(port), "--pid-file", "pid", "--", "touch", "started")
    assert ran.code == 2
    assert "the port is in use" in ran.err
    assert not (ostler.work / "started").exists()
    assert not (ostler.work / "pid").exists()


@pytest.mark.parametrize(
    "signal",
    [SIGHUP, pytest.param(SIGINT, marks=pytest.mark.long), pytest.param(SIGTERM, marks=pytest.mark.long)],
)
def test_a_signal_ends_it_with_all_that_the_agent_has_started(ostler: Ostler, signal: Signals) -> None:
    agent = STUBBORN.replace("signal.SIGINT, signal.SIG_IGN", "signal.SIGINT, signal.SIG_DFL")
    with serving_agent(ostler, agent=(*PYTHON, "-c", agent)) as served:
        started = pids(ostler)
        [uploads] = ostler.home.parent.glob("agentapi-uploads-*")
        ran = served.end(signal)
    assert (ran.code, ran.err) == (0, "")
    assert all(is_gone(pid) for pid in started)
    assert not uploads.exists()


def test_a_second_signal_does_not_wait_for_an_agent_that_stays(ostler: Ostler) -> None:
    for _ in range(3):  # the machine may stand still for seconds
        if _seconds_after_two_signals(ostler) < 2.5:
            return
    pytest.fail("the agent was asked for three seconds")


def _seconds_after_two_signals(ostler: Ostler) -> float:
    with serving_agent(ostler, "--pid-file", "pid", agent=(*PYTHON, "-c", STUBBORN)) as served:
        started = pids(ostler)
        with served.http.stream("GET", "/events") as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("event")
            begun = time.monotonic()
            served.signal(SIGTERM)
            assert list(lines)[-1] == ""  # ends at once
            served.signal(SIGTERM)
        served.wait()
        took = time.monotonic() - begun
    assert all(is_gone(pid) for pid in started)
    assert not (ostler.work / "pid").exists()
    return took


def test_an_agent_does_not_outlive_a_server_that_is_killed(ostler: Ostler) -> None:
    with serving_agent(ostler, agent=(*PYTHON, "-c", STUBBORN)) as served:
        started = pids(ostler)
        served.end(SIGKILL)
    assert all(is_gone(pid) for pid in started)


def test_streams_end_and_a_message_on_its_way_is_answered_when_it_ends(ostler: Ostler) -> None:
    deaf = "import sys, time, tty\ntty.setraw(0)\nprint('hello\\r\\n> ', end='', flush=True)\ntime.sleep(60)"
    with serving_agent(ostler, agent=(*PYTHON, "-c", deaf)) as served:
        served.until_stable()
        answers: list[tuple[int, str]] = []

        def ask() -> None:
            answer = served.send("Do you hear me?")
            answers.append((answer.status_code, answer.text))

        asking = threading.Thread(target=ask)
        with served.http.stream("GET", "/events") as stream:
            asking.start()
            wait_until(lambda: served.status == "running")
            begun = time.monotonic()
            ran = served.end()
            list(stream.iter_lines())
        asking.join(PATIENCE)
    assert ran.code == 0
    assert time.monotonic() - begun < 20  # it would have been waited for until it is not deaf any more
    [(status, text)] = answers
    assert status == 500
    assert "context canceled" in text


# --- the pid file -------------------------------------------------------------------------------------


def test_a_pid_file_names_the_process_and_is_removed(tmp_path: Path) -> None:
    path, said = tmp_path / "deep" / "er" / "pid", list[str]()
    with pid_file(path, said.append):
        assert path.read_text() == f"{os.getpid()}\n"
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not path.exists()
    assert said == []


def test_a_pid_file_of_a_living_process_is_respected(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    path.write_text("1\n")
    with pytest.raises(UsageError) as refused, pid_file(path, print):
        pass
    assert refused.value.message == (f"another instance is already running with PID 1 (PID file: {path})")
    assert path.read_text() == "1\n"


def test_a_pid_file_of_the_dead_is_taken_over_with_a_warning(tmp_path: Path) -> None:
    path, said = tmp_path / "pid", list[str]()
    ended = subprocess.Popen(["true"])
    ended.wait(PATIENCE)
    dead = ended.pid
    path.write_text(f"{dead}\n")
    with pid_file(path, said.append):
        assert path.read_text() == f"{os.getpid()}\n"
    assert len(said) == 1
    assert str(dead) in said[0]


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"-1", b"0", b"12 13", b"\xff\xfe", "²".encode(), b"9" * 40]
)
def test_a_pid_file_with_garbage_is_taken_over(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pid"
    path.write_bytes(content)
    with pid_file(path, lambda text: None):
        assert path.read_text() == f"{os.getpid()}\n"


def test_a_pid_file_with_our_own_number_is_of_an_earlier_life(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    path.write_text(f"{os.getpid()}\n")
    with pid_file(path, lambda text: None):
        assert path.exists()
    assert not path.exists()


def test_a_pid_file_of_another_process_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with pid_file(path, print):
        path.write_text("1\n")
    assert path.read_text() == "1\n"


def test_a_pid_file_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "pid"):
        with pytest.raises(UsageError, match="cannot be written"), pid_file(path, print):
            pass


def test_a_second_server_with_the_same_pid_file_does_not_start(ostler: Ostler) -> None:
    with serving_agent(ostler, "--pid-file", "pid", agent=scripted(ostler, [GREETING])) as served:
        ran = finish(ostler.start("serve", "--port", "0", "--pid-file", "pid", "--", "touch", "started"))
        assert ran.code == 2
        assert f"another instance is already running with PID {served.process.pid}" in ran.err
    assert not (ostler.work / "started").exists()
