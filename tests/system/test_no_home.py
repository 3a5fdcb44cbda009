"""A process without a home: no HOME, and a user id that the system has no entry for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import Ostler

NO_HOME = """
import os, pwd, runpy
def nobody(key):
    raise KeyError(key)
pwd.getpwuid = pwd.getpwnam = nobody
os.environ.pop("HOME", None)
os.environ.pop("XDG_CONFIG_HOME", None)
os.environ.pop("XDG_DATA_HOME", None)
runpy.run_module("ostler", run_name="__main__", alter_sys=True)
"""

HINT = "ostler: there is no home directory: set HOME, or OSTLER_HOME to a folder\n"


class Homeless(Ostler):
    def start(
        self,
        *arguments: str | bytes,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        **variables: str,
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", NO_HOME, *arguments],
            cwd=cwd or self.work,
            env=self.environment(variables),
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )


@pytest.fixture
def homeless(tmp_path: Path) -> Homeless:
    return Homeless(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [("-p", "--model", "demo", "hello"), ("sessions",), ("doctor",), ("key", "list"), ("serve",)],
    ids=lambda arguments: arguments[0],
)
def test_without_a_home_one_line_says_what_to_set(homeless: Homeless, arguments: tuple[str, ...]) -> None:
    ran = homeless(*arguments, OSTLER_HOME="")
    assert (ran.code, ran.out, ran.err) == (2, "", HINT)


def test_without_a_home_a_configured_folder_is_enough(homeless: Homeless) -> None:
    ran = homeless("-p", "--model", "demo", "hello")
    assert (ran.code, ran.err) == (0, "") and "DEMO" in ran.out
    listed = homeless.on_terminal("sessions", columns=120)
    assert listed.code == 0 and "hello" in listed.out
    assert homeless("agents").err.startswith("ostler: there are no agents")


@pytest.mark.parametrize("name", ["~", "~nobody-here"])
def test_an_unknown_home_is_refused_with_its_setting(homeless: Homeless, name: str) -> None:
    asked = ("-p", "--model", "demo", "hello")
    refused = homeless(*asked, OSTLER_HOME=f"{name}/own")
    reason = f"there is no home directory {name}; write the whole path\n"
    problem = f"{name}/own: {reason}"
    assert (refused.code, refused.err) == (2, f"ostler: {problem}")
    refused = homeless(*asked, "-e", f"{name}/own")
    assert (refused.code, refused.err) == (2, f"ostler: {problem}")
    for setting in (f"extensions = ['{name}/own']", f"deny = ['edit({name}/own)']"):
        homeless.configure(setting)
        refused = homeless(*asked)
        assert refused.code == 2 and refused.err.endswith(reason) and refused.err.count("\n") == 1
