"""Packages from PyPI: each in a folder of its own, with what it depends on, and built here only if asked."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path

from ostler.context.text_files import quoted_path
from ostler.extensions.installing.bounded_program import run_program
from ostler.tools.programs import find_program
from ostler.vocabulary.errors import OstlerError, UsageError

GROUP = "ostler.extensions"
SECONDS = 600.0


def install_wheel(name: str, version: str, into: Path, *, may_build: bool = False) -> Distribution:
    """Puts a package and what it needs into a folder. Building one would run its code: it must be allowed."""
    requirement = f"{name}=={version}" if version else name
    options = ["--target", str(into), *(() if may_build else ("--only-binary", ":all:"))]
    # What pip is told to do for a user's own packages must not reach a folder that is only ours.
    environment = {**os.environ, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    command = [*_installer(), *options, "--", requirement]
    finished = run_program(command, cwd=into.parent, seconds=SECONDS, environment=environment)
    if finished.code != 0:
        raise OstlerError(f"{requirement} cannot be installed: {_reason(finished.err)}")
    wanted = _normalised(name)
    for one in distributions(path=[str(into)]):
        if _normalised(one.name) == wanted:
            return one
    raise OstlerError(f"{requirement} was installed, but brought no package of that name")


def entry_points_of(distribution: Distribution) -> dict[str, str]:
    """The extensions that a package announces: `module:function` by name."""
    return {one.name: one.value for one in distribution.entry_points if one.group == GROUP}


def _installer() -> list[str]:
    if find_spec("pip"):
        # -P: a file pip.py in the present directory is not meant.
        quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-warn-conflicts"]
        return [sys.executable, "-P", "-m", "pip", "install", *quiet]
    if uv := find_program("uv"):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    python = quoted_path(Path(sys.executable))
    raise UsageError(f"neither pip nor uv is here: say `{python} -m ensurepip`, or install uv")


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["the installer does not say why"])[-1]


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
