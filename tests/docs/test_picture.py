"""The picture of the demo is current, and drawn as a terminal draws it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.support.paths import DOCS, ROOT

SCRIPTS = ROOT / "scripts"
PICTURES = DOCS / "pictures"


@pytest.fixture(scope="module")
def picture() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        yield importlib.import_module("picture")


def test_the_picture_of_the_demo_is_current() -> None:
    strict = ("-X", "warn_default_encoding", "-W", "error::EncodingWarning")  # it is UTF-8 in any locale
    checked = subprocess.run(
        [sys.executable, *strict, SCRIPTS / "picture.py", "--check"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_styles_last_until_they_are_reset(picture: ModuleType) -> None:
    written = "a \x1b[2mone\r\n  t\x1b[0m\x1b[2mwo\x1b[0m b\r\n\r\n"
    assert picture.lines_of(written) == [[(0, "a", ""), (2, "one", "2")], [(2, "two", "2"), (6, "b", "")]]


def test_an_unsupported_code_is_refused(picture: ModuleType) -> None:
    for code in ("\x1b[2J", "\x1b[95m"):
        with pytest.raises(SystemExit, match="no picture of the code"):
            picture.lines_of(f"a{code}b")


def test_values_that_change_between_runs_are_masked(picture: ModuleType) -> None:
    assert picture.masked("in ostler-demo-x1_y2: ses_01abc") == "in ostler-demo-1: ses_…"


def test_text_is_escaped_and_every_span_has_its_length(picture: ModuleType) -> None:
    root = ElementTree.fromstring(picture.draw([[(0, "a < b & c", "31")], [(4, "d", "")]], "<title>"))
    texts = [element for element in root if element.tag.endswith("text")]
    assert [text.text for text in texts] == ["<title>", "a < b & c", "d"]
    assert [text.get("textLength") for text in texts] == [None, "70.2", "7.8"]


@pytest.mark.parametrize("path", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_is_well_formed_and_has_a_description(path: Path) -> None:
    title = ElementTree.fromstring(path.read_text()).find("{http://www.w3.org/2000/svg}title")
    assert title is not None and title.text
