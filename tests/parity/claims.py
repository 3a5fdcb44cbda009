"""Checks that the names in a row of the parity tables exist, and its tests, each once.

A public name has its short path (`ostler.extensions.Widget`), with attributes where needed
(`ostler.extensions.ExtensionContext.ui.select`). A name without a package is internal: any module of `src`
may define it. So a moved module or test changes no row.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import ostler
from tests.support.paths import TESTS

SOURCE = Path(ostler.__file__).parent

_KINDS_OF_TESTS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

Row = dict[str, Any]
"""`here`: names, or a sentence; `by`: tests; `why_not`: for what is not here."""


def problems(row: Row) -> Iterator[str]:
    """What is wrong with a row. One without tests must say why not, and what it has must be tested."""
    here, tests = row.get("here", []), row.get("by", [])
    if not tests and ("why_not" not in row or here):
        yield "name a test that shows it, or say why there is none"
    for name in here if isinstance(here, list) else ():
        if not exists(name):
            yield f"there is no {name}"
    for test in tests:
        if (count := named_tests()[test]) != 1:
            yield f"there are {count} tests {test}"


@cache
def named_tests() -> Counter[str]:
    """How many tests, and classes of tests, have a name, also those that the test kit ships."""
    files = [*TESTS.rglob("*.py"), *(SOURCE / "testkit").rglob("*.py")]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_bytes())))
    named = (node.name for node in nodes if isinstance(node, _KINDS_OF_TESTS))
    return Counter(name for name in named if name.startswith(("test_", "Test")))


def exists(name: str) -> bool:
    """Whether it can be imported, member by member."""
    first, *members = name.split(".")
    if first == "ostler":
        value: Any = ostler
    elif len(modules := _definitions().get(first, ())) == 1:
        value = getattr(importlib.import_module(modules[0]), first)
    else:
        return False
    return all((value := _member(value, member)) is not None for member in members)


@cache
def _definitions() -> dict[str, list[str]]:
    """The modules that define a name at their top level."""
    value: dict[str, list[str]] = {}
    for file in SOURCE.rglob("*.py"):
        module = ".".join(["ostler", *file.relative_to(SOURCE).with_suffix("").parts])
        for node in ast.parse(file.read_bytes()).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
            for target in targets:
                if name := getattr(target, "name", getattr(target, "id", "")):
                    value.setdefault(name, []).append(module)
    return value


def _member(of: Any, name: str) -> Any:
    """An attribute, a submodule, a parameter of a function, or a field of a class."""
    of = _held_by(of)
    if hasattr(of, name):
        return getattr(of, name)
    if inspect.ismodule(of):
        return _submodule(f"{of.__name__}.{name}")
    if inspect.isfunction(of):
        return inspect.signature(of).parameters.get(name)
    kinds = inspect.getmro(of) if inspect.isclass(of) else ()
    return next((field for kind in kinds if (field := _fields(kind).get(name))), None)


def _submodule(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


class _Field(NamedTuple):
    owner: Any
    annotation: str


def _fields(kind: type) -> dict[str, _Field]:
    """Those of a class that have an annotation, and those that `__init__` sets."""
    made = vars(kind).get("__init__")
    source = inspect.getsource(made) if inspect.isfunction(made) else ""
    fields = dict.fromkeys(re.findall(r"(?m)^\s*self\.(\w+)[^=\n]*=", source), "Any")
    return {name: _Field(kind, str(of)) for name, of in (fields | inspect.get_annotations(kind)).items()}


def _held_by(of: Any) -> Any:
    """Of a property or a field the type that its annotation names, even if only type checkers import it."""
    match of:
        case property(fget=owner) | cached_property(func=owner):
            annotation = owner.__annotations__["return"]
        case _Field(owner=owner, annotation=annotation):
            pass
        case _:
            return of
    module, dotted = inspect.getmodule(owner), re.findall(r"[\w.]+", annotation)[-1]
    assert module is not None
    alias, _, name = dotted.rpartition(".")
    if alias:  # of a module that is imported lazily
        return getattr(getattr(module, alias), name)
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and name in [one.name for one in node.names]:
            return getattr(importlib.import_module(str(node.module)), name)
    return getattr(module, name, None)
