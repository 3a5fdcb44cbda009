"""Finds the code in the documentation and runs it. The rules are in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import asyncio
import gc
import inspect
import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from starlette.applications import Starlette

from ostler.testkit.vendors import Answer, call, turn
from tests.support.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_PARTS = re.compile(
    r"^## (?P<heading>[^\n]+)$"
    r"|^<!-- model: (?P<model>.+?) -->$"
    r"|^<!-- before: (?P<before>.+?) -->$"
    r"|^<!-- file: (?P<file>.+?) -->$"
    r"|^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_PYTEST_SETTINGS = """\
[pytest]
addopts = -p no:cacheprovider
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
_DEFINES_TEST = re.compile(r"^(async )?def test_|^class Test", re.MULTILINE)


@dataclass
class Block:
    """Code to run. `before` are commands for the shell that come first; `prints` is what must come out.

    With a `file`, it is saved under that name and not run.
    """

    language: str
    code: str
    before: list[str] = field(default_factory=list)
    prints: str | None = None
    file: str | None = None


@dataclass
class Section:
    """What is under one heading of a page: its blocks run in order, in one namespace and one folder."""

    page: str
    heading: str
    blocks: list[Block] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.page}: {self.heading}"

    @property
    def has_tests(self) -> bool:
        return any(_DEFINES_TEST.search(block.code) for block in self.blocks if block.file is None)


def sections_of(page: Path) -> list[Section]:
    """The sections of a page that have something to run."""
    name = page.relative_to(ROOT).as_posix()
    section = Section(name, "")
    sections = [section]
    before: list[str] = []
    file: str | None = None
    for part in _PARTS.finditer(page.read_text()):
        if part["heading"]:
            section = Section(name, part["heading"])
            sections.append(section)
        elif part["model"]:
            section.answers += [_answer(one) for one in json.loads(part["model"])]
        elif part["before"]:
            before.append(part["before"])
        elif part["file"]:
            file = part["file"]
        elif part["language"] in ("python", "sh"):
            section.blocks.append(Block(part["language"], part["code"], before, file=file))
            before, file = [], None
        elif part["language"] == "text":
            section.blocks[-1].prints = part["code"]
    return [section for section in sections if section.blocks]


def blocks_in(language: str) -> list[tuple[str, str]]:
    """Every block in a language, with the name of its page."""
    return [
        (page.relative_to(ROOT).as_posix(), part["code"])
        for page in PAGES
        for part in _PARTS.finditer(page.read_text())
        if part["language"] == language
    ]


def _answer(described: Any) -> Answer:
    """A text, a call (`{"name": {…}}`), or a list of both."""
    parts = described if isinstance(described, list) else [described]
    calls = [part if isinstance(part, str) else call(*next(iter(part.items()))) for part in parts]
    return turn(*calls)


async def _start_and_stop(app: Starlette) -> None:
    """As a server of applications does."""
    async with app.router.lifespan_context(app):
        pass


class Folder:
    """Runs the blocks of a section, one after the other."""

    def __init__(self, path: Path, page: str) -> None:
        self._work = path / "work"
        self._work.mkdir()
        programs = path / "programs"
        programs.mkdir()
        for name, command in (("ostler", "-m ostler"), ("python", ""), ("python3", "")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} {command} "$@"\n')
            program.chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PAGE": str(ROOT / page),
        }
        self._namespace: dict[str, Any] = {"__name__": "documented"}
        os.chdir(self._work)

    def run(self, section: Section) -> None:
        with asyncio.Runner() as runner:
            for block in section.blocks:
                for command in block.before:
                    self._in_shell(command)
                if block.file is not None:
                    (self._work / block.file).write_text(block.code)
                    continue
                in_shell = block.language == "sh"
                printed = self._in_shell(block.code) if in_shell else self._in_python(block, runner)
                if block.prints is not None:
                    as_printed = f"this code:\n{block.code}\nprints:\n{printed}"
                    assert printed.rstrip("\n") == block.prints.rstrip("\n"), as_printed
            if isinstance(app := self._namespace.get("app"), Starlette):
                runner.run(_start_and_stop(app))
            self._namespace.clear()
            gc.collect()

    def run_tests(self, section: Section) -> None:
        """As pytest would, in a process of its own: the section is a file of tests."""
        file = self._work / "test_section.py"
        file.write_text("\n".join(block.code for block in section.blocks))
        (self._work / "pytest.ini").write_text(_PYTEST_SETTINGS)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", str(file)],
            cwd=self._work,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _in_python(self, block: Block, runner: asyncio.Runner) -> str:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(block.code, "documented", "exec", flags=flags, dont_inherit=True)
        printed = io.StringIO()
        with redirect_stdout(printed):
            if code.co_flags & inspect.CO_COROUTINE:
                runner.run(eval(code, self._namespace))
            else:
                exec(code, self._namespace)
        return printed.getvalue()

    def _in_shell(self, commands: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self._work,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        return done.stdout
