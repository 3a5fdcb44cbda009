"""Packages of extensions for tests: git repositories and wheels."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

TOOL = """
def setup(ostler):
    @ostler.tool
    def {name}() -> str:
        "Says hello."
        return "hello"
"""


def tool(name: str) -> str:
    """An extension with a tool of that name."""
    return TOOL.format(name=name)


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *settings, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


class Repository:
    """A git repository with the files as its first commit."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        git(folder, "init", "--quiet")
        self.first = self.commit(files)

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def commit(self, files: Mapping[str, str]) -> str:
        write(self.folder, files)
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "--quiet", "--message", "change")
        return git(self.folder, "rev-parse", "HEAD")


def wheel(folder: Path, name: str, version: str, files: Mapping[str, str], entry_points: str = "") -> Path:
    """The least that pip takes for a wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[ostler.extensions]\n{entry_points}\n" if entry_points else "",
    }
    with ZipFile(file, "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"]))
    return file
