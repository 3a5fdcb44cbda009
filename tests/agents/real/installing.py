"""Other vendors' agents, installed once, outside of the repository: `python -m tests.agents.real.installing`.

What cannot be had is left out, and its tests are skipped.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ostler-test" / "real-agents"
NPM_PINS = HERE / "package.json"
AIDER_PINS = HERE / "aider.lock"
NPM_PROGRAMS = FOLDER / "npm" / "node_modules" / ".bin"
AIDER_PROGRAMS = FOLDER / "aider" / "bin"
_LONGEST = 240
_STAMP = "installed"


def is_installed(folder: Path, pins: Path) -> bool:
    stamp = folder / _STAMP
    return stamp.exists() and stamp.read_text() == _digest(pins)


def install_npm_programs(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not installed")
    folder.mkdir(parents=True)
    shutil.copy(NPM_PINS, folder)
    _run([npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"], folder)


def install_aider(folder: Path) -> None:
    _run([sys.executable, "-m", "venv", str(folder)])
    python = str(folder / "bin" / "python")
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:")
    _run([python, "-m", "pip", "install", *quiet, "-r", str(AIDER_PINS)])


def main() -> int:
    missing = 0
    for name, pins, install in (
        ("npm", NPM_PINS, install_npm_programs),
        ("aider", AIDER_PINS, install_aider),
    ):
        folder = FOLDER / name
        if is_installed(folder, pins):
            continue
        print(f"installing other vendors' agents into {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            install(folder)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"they cannot be installed: {error}", file=sys.stderr)
            missing += 1
        else:
            (folder / _STAMP).write_text(_digest(pins))
    return missing


def _digest(pins: Path) -> str:
    return hashlib.sha256(pins.read_bytes()).hexdigest()


def _run(command: list[str], cwd: Path | None = None) -> None:
    subprocess.run(command, cwd=cwd, timeout=_LONGEST, check=True)


if __name__ == "__main__":
    sys.exit(main())
