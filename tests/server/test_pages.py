"""The page's built files: made from the sources that are here, and asking nobody else for anything."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from ostler.sessions.inbox import TAKEN_BACK
from tests.support.paths import ROOT

PAGE = ROOT / "src" / "ostler" / "server" / "page"
SOURCES = ("index.html", "package-lock.json", "package.json", "src", "tsconfig.json", "vite.config.ts")


def test_the_page_was_built_from_the_sources_that_are_here() -> None:
    web = ROOT / "web"
    paths: list[Path] = []
    for name in SOURCES:
        path = web / name
        paths += [one for one in path.rglob("*") if one.is_file()] if path.is_dir() else [path]
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(web).as_posix()}\n"
        for path in sorted(paths, key=lambda path: path.relative_to(web).as_posix())
    ]
    built_from = (PAGE / "sources.sha256").read_text().strip()
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == built_from, "say `make web`"


def test_the_page_loads_nothing_from_elsewhere() -> None:
    page = (PAGE / "index.html").read_text()
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert loaded
    for address in loaded:
        assert address.startswith("./assets/"), address
        assert (PAGE / address).is_file()
    assert "<script>" not in page
    for sheet in PAGE.glob("assets/*.css"):
        assert not re.search(r"url\(\s*['\"]?(?:https?:)?//", sheet.read_text())


def test_the_page_knows_the_words_of_what_was_taken_back() -> None:
    assert any(TAKEN_BACK in script.read_text() for script in PAGE.glob("assets/index-*.js"))
