"""What a row of a page claims: that a name is here, that a test shows it, that an example uses it."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from docs_tables import row

ROOT = Path(__file__).resolve().parent.parent
NOTHING = "–"

Entry = dict[str, Any]
"""A row: `here`, `by`, `example`, `note`, and `why_not` where there is nothing."""


def names_here(where: str, entry: Entry) -> str:
    """The names of a row, each of which can be imported."""
    for target in entry.get("here", ()):
        if not exists(target):
            raise SystemExit(f"{where}: there is no {target}")
    return "<br>".join(f"`{target}`" for target in entry.get("here", ())) or NOTHING


def shown_by(where: str, entry: Entry) -> str:
    """The tests of a row. One without any must say why, and what it says is here must be shown."""
    named: list[str] = entry.get("by", [])
    if not named and ("why_not" not in entry or "here" in entry):
        raise SystemExit(f"{where}: name a test that shows it, or say why there is none")
    for test in named:
        file, _, function = test.partition("::")
        if function not in tests_in(ROOT / file):
            raise SystemExit(f"{where}: there is no test {test}")
    return "<br>".join(f"`{test}`" for test in named) or NOTHING


def example_of(where: str, entry: Entry, page: Path) -> str:
    """A link to code that runs in the tests and has one of the names: a file, or a section of a page."""
    named: str | None = entry.get("example")
    if named is None:
        if "why_not" in entry:
            return NOTHING
        raise SystemExit(f"{where}: name an example that uses it")
    code = _code_of(named)
    if not code:
        raise SystemExit(f"{where}: there is no code in {named}")
    used = [target.rpartition(".")[2] for target in entry["here"]]
    if not any(re.search(rf"\b{re.escape(name)}\b", code) for name in used):
        raise SystemExit(f"{where}: {named} has none of the names {', '.join(used)}")
    file, _, anchor = named.partition("#")
    title = anchor.replace("-", " ") if anchor else Path(file).name
    return f"[{title}]({_address(ROOT / file, anchor, page)})"


def remark_of(entry: Entry) -> str:
    return " ".join(entry[key] for key in ("note", "why_not") if key in entry)


def in_words(entry: Entry) -> str:
    return ". ".join(entry[key] for key in ("here", "why_not") if key in entry)


def case_table(mapping: str, title: str, entries: Sequence[Entry]) -> Iterator[str]:
    """Numbered rows: what happens there, what happens here, and the tests that show it."""
    yield f"| | {title} | here | shown by |"
    yield "|---|---|---|---|"
    for number, entry in enumerate(entries, 1):
        where = f"{mapping}: {entry['theirs']}"
        yield row(str(number), entry["theirs"], in_words(entry), shown_by(where, entry))


@cache
def tests_in(file: Path) -> frozenset[str]:
    """The tests of a file, and its classes of tests."""
    if not file.is_file():
        return frozenset()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    named = [
        node.name for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, kinds)
    ]
    return frozenset(name for name in named if name.startswith(("test_", "Test")))


def exists(target: str) -> bool:
    """Whether `package.module.Class.member` is there, also if it is only declared, or set by `__init__`."""
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
    return next((kind for kind in kinds if name in _declared(kind)), None)


@cache
def _declared(kind: type) -> frozenset[str]:
    made = vars(kind).get("__init__")
    source = inspect.getsource(made) if inspect.isfunction(made) else ""
    return frozenset(
        [*getattr(kind, "__annotations__", {}), *re.findall(r"(?m)^\s*self\.(\w+)[^=\n]*=", source)]
    )


@cache
def _code_of(named: str) -> str:
    """What is executed of an example: a whole file, or the blocks under one heading of a page."""
    file, _, anchor = named.partition("#")
    path = ROOT / file
    if not path.is_file():
        return ""
    if not anchor:
        return path.read_text(encoding="utf-8")
    for part in re.split(r"(?m)^## ", path.read_text(encoding="utf-8"))[1:]:
        if _anchor(part.partition("\n")[0]) == anchor:
            return "\n".join(re.findall(r"(?ms)^```(?:python|sh)\n(.*?)^```$", part))
    return ""


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _address(file: Path, anchor: str, page: Path) -> str:
    """From the page to the file; pages and examples are in folders beside each other."""
    if file == page:
        return f"#{anchor}"
    beside = file.name if file.parent == page.parent else f"../{file.relative_to(ROOT).as_posix()}"
    return f"{beside}#{anchor}" if anchor else beside
