"""Every example in the documentation runs and prints what the page says."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from ostler.app.settings import Settings
from ostler.testkit.vendors import FakeVendor
from tests.docs.documented import PAGES, ROOT, Folder, Section, blocks_in, sections_of
from tests.support.needed import program

SECTIONS = [section for page in PAGES for section in sections_of(page)]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_the_code_of_a_section_runs(
    section: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if any(re.search(r"\bjq\b", block.code) for block in section.blocks):
        program("jq")
    for name in list(os.environ):
        if name.startswith("OSTLER_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    with FakeVendor(section.answers) as vendor:
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("OSTLER_MODEL", "anthropic/claude-sonnet-5-5")
        for vendors in ("ANTHROPIC", "OPENAI"):
            monkeypatch.setenv(f"{vendors}_API_KEY", "a-key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", vendor.anthropic_url)
        monkeypatch.setenv("OPENAI_BASE_URL", vendor.chat_url)
        folder = Folder(tmp_path, section.page)
        if section.has_tests:
            folder.run_tests(section)
        else:
            folder.run(section)
        answered = len([one for one in vendor.requests if one.json.get("stream")])
    assert answered == len(section.answers), (
        "the model was asked more or less often than the page has answers"
    )


@pytest.mark.parametrize(("page", "text"), blocks_in("toml"))
def test_a_documented_configuration_is_valid(page: str, text: str) -> None:
    assert msgspec.convert(tomllib.loads(text), Settings) != Settings()


def test_the_readme_shows_the_shortest_example() -> None:
    docstring, code = (ROOT / "examples" / "five_lines.py").read_text().split("\n\n", 1)
    assert docstring.startswith('"""')
    assert ("README.md", code) in blocks_in("python")
