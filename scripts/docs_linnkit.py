"""The page for those who come from linnkit: where its names and cases are found here, and what shows it."""

from __future__ import annotations

import ast
import importlib
import inspect
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from docs_tables import row

ROOT = Path(__file__).resolve().parent.parent
MAPPING = ROOT / "docs" / "linnkit_mapping.toml"

INTRODUCTION = """\
# Coming from linnkit

linnkit declares the contracts of an agent runtime and leaves much of them to its host. Here the runtime keeps
them itself: there is no port that has to be filled in before something runs.

| start with | for |
|---|---|
| [sdk.md](sdk.md) | an agent in a few lines; hooks take the place of policies and enrichers |
| [tools.md](tools.md) | tools: what they declare, know and return |
| [runs.md](runs.md) | the life of a run: supervisor, questions, limits, children, crashes |
| [agents.md](agents.md) | named agents that work is handed to |
| [events.md](events.md#linnkit-runtimeevent) | where each of its events is found |
| [invariants.md](invariants.md#coming-from-linnkit) | where each of its invariants is found |
| [testkit.md](testkit.md) | the scripted model, fake contexts, suites for stores |

A conversation is a *session*, a turn is a *run*, and a step is one answer of the model with its calls. State
is not saved beside the events: it follows from them, so there is no checkpointer.

Below is a row for each of its names, for each group of its features, and for 71 cases in which both were
compared. A row names the tests that show what happens here, or says that there is nothing, and why.
"""


def linnkit_page(notice: str) -> str:
    mapping = tomllib.loads(MAPPING.read_text())
    parts = [notice, INTRODUCTION.strip(), "## Names"]
    for title, rows in mapping["names"].items():
        parts += [f"### {title}", "\n".join(name_table(rows))]
    parts += ["## Features", "\n".join(feature_table(mapping["features"]))]
    parts += ["## Cases", "\n".join(case_table(mapping["cases"]))]
    return "\n\n".join(parts) + "\n"


def name_table(rows: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    yield "| linnkit | here | shown by | |"
    yield "|---|---|---|---|"
    for name, entry in rows.items():
        for target in entry.get("here", ()):
            if not exists(target):
                raise SystemExit(f"{MAPPING.name}: {name}: there is no {target}")
        here = "<br>".join(f"`{target}`" for target in entry.get("here", ())) or "–"
        remark = " ".join(entry[key] for key in ("note", "why_not") if key in entry)
        yield row(f"`{name}`", here, shown_by(name, entry), remark)


def feature_table(entries: list[dict[str, Any]]) -> Iterator[str]:
    yield "| linnkit has | here | shown by |"
    yield "|---|---|---|"
    for entry in entries:
        yield row(entry["theirs"], in_words(entry), shown_by(entry["theirs"], entry))


def case_table(entries: list[dict[str, Any]]) -> Iterator[str]:
    yield "| | case | here | shown by |"
    yield "|---|---|---|---|"
    for number, entry in enumerate(entries, 1):
        yield row(str(number), entry["theirs"], in_words(entry), shown_by(entry["theirs"], entry))


def in_words(entry: dict[str, Any]) -> str:
    return ". ".join(entry[key] for key in ("here", "why_not") if key in entry)


def shown_by(name: str, entry: dict[str, Any]) -> str:
    """The tests of a row. One without any must say why, and what it says is here must be shown."""
    named: list[str] = entry.get("by", [])
    if not named and ("why_not" not in entry or "here" in entry):
        raise SystemExit(f"{MAPPING.name}: {name}: name a test that shows it, or say why there is none")
    for test in named:
        file, _, function = test.partition("::")
        if function not in tests_in(ROOT / file):
            raise SystemExit(f"{MAPPING.name}: {name}: there is no test {test}")
    return "<br>".join(f"`{test}`" for test in named) or "–"


@cache
def tests_in(file: Path) -> frozenset[str]:
    """The tests of a file, and its classes of tests."""
    if not file.is_file():
        return frozenset()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    named = [node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kinds)]
    return frozenset(name for name in named if name.startswith(("test_", "Test")))


def exists(target: str) -> bool:
    """Whether `package.module.Class.member` is there; members that are only declared count too."""
    parts = target.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        return all((found := _member(found, name)) is not None for name in parts[length:])
    return False


def _member(of: Any, name: str) -> Any:
    if hasattr(of, name):
        return getattr(of, name)
    kinds = inspect.getmro(of) if inspect.isclass(of) else ()
    return next((kind for kind in kinds if name in getattr(kind, "__annotations__", {})), None)
