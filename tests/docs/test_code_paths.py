"""The code paths of docs/how-it-works.md are those that the programs take."""

from __future__ import annotations

import re
import sys

import pytest

from tests.support.paths import DOCS, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from trace_code_paths import PATHS, trace_path

LIMITS = {"prompt": 12, "question": 20, "refusal": 8, "screen": 12}


def documented(name: str) -> list[str]:
    page = (DOCS / "how-it-works.md").read_text()
    section = page.partition(f"<!-- path: {name} -->")[2].partition("\n#")[0]
    return re.findall(r"^\d+\. \[`([^`]+)`\]", section, re.M)


@pytest.mark.parametrize("name", PATHS)
def test_the_page_names_the_files_of_a_code_path(name: str) -> None:
    files = documented(name)
    assert 0 < len(files) <= LIMITS[name]
    traced = trace_path(name)
    if name == "question":  # two processes work at once
        files, traced = sorted(files), sorted(traced)
    assert files == traced
