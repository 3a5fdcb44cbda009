"""Every name that is stored or sent: `python -m tests.support.golden_names --write` records them.

A module, class or function may be renamed freely. What is listed here may not: sessions of last year,
clients, extensions and scripts read it. Types are found by what the code does with them (a tag, a `decode`,
an `encode`), not by where they are.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import pkgutil
import re
import runpy
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from msgspec import inspect

import ostler
from ostler.cli.session_runner import TERMINATED, exit_code
from ostler.extensions.protocol import adapters
from ostler.schema.errors import OstlerError, kind_of
from ostler.schema.events import RunEnded, RunWaiting
from tests.support.paths import GOLDEN, ROOT

GOLDEN_FILE = GOLDEN / "names.json"
SOURCE = Path(ostler.__file__).parent
NOT_OURS = ("ostler.testkit",)
"""Only tests use it."""

COMMANDS = """
    permissions allow bash(git_--version)
    permissions list --json
    permissions test --json bash:_ls
    -p --json --model demo --yes hi
    sessions list --json
    sessions search --json script
    sessions tree --json SESSION
    -p --json --model demo --permissions ask --on-question wait Write_a_small_program_that_greets_the_world,\
_run_it,_and_tell_me_what_it_printed.
    runs --json
    cancel --json SESSION
    cost --json
    audit --json SESSION
    context --json SESSION
    replay --json SESSION
    models --json claude
    key list --json
    token new --json laptop
    token list --json
    agents --json
    prompts --json
    skills --json
    ext list --json
    doctor --json
"""
"""Commands with JSON output, in this order, in one home and one folder; `_` is a space within an argument."""
FILES = {
    ".ostler/agents/critic.md": "---\nname: critic\ndescription: Reads.\n---\nRead.\n",
    ".ostler/prompts/fix.md": "---\ndescription: Fix it.\n---\nFix $1.\n",
    "../home/ostler/skills/speak/SKILL.md": "---\nname: speak\ndescription: Speaks.\n---\nSpeak.\n",
    ".ostler/extensions/small.py": "def setup(ostler):\n    pass\n",
}

Names = dict[str, Any]


def names() -> Names:
    modules = list(_modules())
    with tempfile.TemporaryDirectory() as folder:
        types = tagged()
        lab = _Lab(Path(folder).resolve(), types["type"])
        printed = {command: lab.printed_by(command) for command in COMMANDS.strip().splitlines()}
        return {
            "tagged": types,
            "decoded": decoded(modules),
            "json output": {command.strip(): types for command, types in printed.items()},
            "files of a home": lab.files(),
            "tables": tables(),
            "errors": errors(),
            "exit codes": exit_codes(),
            "lifecycle events": lifecycle(),
            "live values": live_values(),
            "environment": environment(),
            "http": lab.http("serve", "--openapi"),
            "agentapi": lab.http("serve", "--print-openapi", "--", "echo"),
            "agentapi paths": agentapi_paths(),
        }


# --- types ------------------------------------------------------------------------------------------


def shape(kind: Any) -> Any:
    """The names in the JSON of a type: fields, tags, and possible values."""
    try:
        return _Shapes().of(inspect.type_info(kind))
    except NameError:  # it is only encoded, and uses a type that only the type checker imports
        return dict.fromkeys(kind.__struct_encode_fields__, "any")


class _Shapes:
    def __init__(self) -> None:
        self._within: list[type] = []

    def of(self, kind: inspect.Type) -> Any:
        match kind:
            case inspect.StructType(cls=cls):
                if cls in self._within:
                    return "(again)"
                self._within.append(cls)
                fields = {field.encode_name: self.of(field.type) for field in kind.fields}
                self._within.pop()
                return [*fields.items()] if kind.array_like else fields
            case inspect.TypedDictType(fields=fields) | inspect.DataclassType(fields=fields):
                return {field.encode_name: self.of(field.type) for field in fields}
            case inspect.UnionType(types=types):
                return self._union(types)
            case inspect.LiteralType(values=values):
                return "|".join(sorted(map(str, values)))
            case inspect.EnumType(cls=cls):
                return "|".join(sorted(str(one.value) for one in cls))
            case inspect.ListType(item_type=item) | inspect.SetType(item_type=item):
                return [self.of(item)]
            case inspect.VarTupleType(item_type=item) | inspect.FrozenSetType(item_type=item):
                return [self.of(item)]
            case inspect.TupleType(item_types=items):
                return [self.of(item) for item in items]
            case inspect.DictType(value_type=value):
                return {"*": self.of(value)}
            case inspect.Metadata(type=inner):
                return self.of(inner)
            case inspect.CustomType(cls=cls):
                return cls.__name__.lower()
        return type(kind).__name__.removesuffix("Type").lower()

    def _union(self, types: Iterable[inspect.Type]) -> Any:
        """Tagged types appear only as their tags here."""
        named = [
            one.tag if isinstance(one, inspect.StructType) and one.tag else self.of(one) for one in types
        ]
        parts = sorted({json.dumps(one, sort_keys=True): one for one in named}.items())
        return [one for _, one in parts] if len(parts) > 1 else parts[0][1]


def tagged() -> Names:
    """Events, requests, outcomes, blocks, frames and dialogs, by the field of their tag and the tag."""
    tags_by_field: Names = {}
    for kind in _all_below(msgspec.Struct):
        config = kind.__struct_config__
        if config.tag is None or not _is_ours(kind) or list(_all_below(kind)):
            continue
        shapes = tags_by_field.setdefault(config.tag_field, {}).setdefault(str(config.tag), [])
        if (one := shape(kind)) not in shapes:
            shapes.append(one)
    return {
        field: {tag: _sorted(shapes) for tag, shapes in tags.items()} for field, tags in tags_by_field.items()
    }


def decoded(modules: Iterable[ModuleType]) -> list[Any]:
    """The types that modules decode from JSON, TOML or msgpack: stored files, and requests and responses."""
    shapes: list[Any] = []
    for module in modules:
        for written in _types_read(ast.parse(Path(str(module.__file__)).read_bytes())):
            try:
                kind = eval(compile(ast.Expression(written), "type", "eval"), vars(module))
            except NameError:  # a variable of a function: its caller names the type
                continue
            for struct in _structs_in(kind):
                if not struct.__struct_config__.tag and (one := shape(struct)) not in shapes:
                    shapes.append(one)
    return _sorted(shapes)


def _types_read(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name = node.func.attr
        if name == "Decoder":
            yield from node.args[:1]
        if name == "convert":
            yield from node.args[1:2]
        if name in ("decode", "convert", "Decoder"):
            yield from (one.value for one in node.keywords if one.arg == "type")


def _structs_in(kind: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for one in getattr(kind, "__args__", ()):
        yield from _structs_in(one)


def _modules() -> Iterator[ModuleType]:
    for one in pkgutil.walk_packages(ostler.__path__, "ostler."):
        if not one.name.endswith("__main__") and not one.name.startswith(NOT_OURS):
            yield importlib.import_module(one.name)


def _all_below(kind: type) -> Iterator[Any]:
    for one in kind.__subclasses__():
        yield one
        yield from _all_below(one)


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("ostler.") and not kind.__module__.startswith(NOT_OURS)


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda one: json.dumps(one, sort_keys=True))


# --- names of errors, events and values ---------------------------------------------------------------


def errors() -> Names:
    kinds = [OstlerError, *(kind for kind in _all_below(OstlerError) if _is_ours(kind))]
    return {kind_of(kind): {"exit": kind.exit_code, "http": kind.http_status} for kind in kinds}


def exit_codes() -> Names:
    ended = {status: exit_code(RunEnded(status)) for status in _statuses()}
    return ended | {
        "terminated": exit_code(RunEnded("cancelled", TERMINATED)),
        "waiting": exit_code(RunWaiting("question")),
    }


def _statuses() -> list[Any]:
    return sorted(shape(RunEnded)["status"].split("|"))


def lifecycle() -> Names:
    """The lifecycle events of extensions, and the summaries of facts in the protocol."""
    events = {name: shape(kind) for name, kind in adapters._LIFECYCLE_EVENTS.items()}
    return events | dict.fromkeys(adapters.SUMMARISED, "a summary")


def live_values() -> list[str]:
    """Literal names, and the prefixes of names that contain an extension's own."""
    written = r"header|footer|visibility|theme|(widget|status|panel):|terminal:[a-z]+"
    return sorted({text for text in _literals() if re.fullmatch(written, text)})


def environment() -> list[str]:
    texts = (path.read_text(encoding="utf-8") for path in _sources())
    return sorted({name for text in texts for name in re.findall(r"\bOSTLER_[A-Z_]+", text)})


def agentapi_paths() -> list[str]:
    """Also those that the document omits."""
    return sorted(
        {
            text
            for text in _literals()
            if re.fullmatch(r"/(internal|docs|schemas|openapi)[\w/.-]*|/chat", text)
        }
    )


def tables() -> Names:
    """The columns of every table."""
    columns_by_table: Names = {}
    for text in _literals():
        if "create table" not in text or not sqlite3.complete_statement(text):
            continue
        with sqlite3.connect(":memory:") as connection:
            connection.executescript(text)
            for name in re.findall(r"create (?:virtual )?table (?:if not exists )?(\w+)", text):
                columns = connection.execute(f"pragma table_info({name})").fetchall()
                columns_by_table[name] = [column[1] for column in columns]
        connection.close()
    return columns_by_table


def _literals() -> Iterator[str]:
    """The strings in the code except docstrings, with the constant parts of f-strings."""
    for path in _sources():
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _sources() -> Iterator[Path]:
    for path in sorted(SOURCE.rglob("*.py")):
        if not path.is_relative_to(SOURCE / "testkit"):
            yield path


# --- the output of the program ----------------------------------------------------------------------


class _Lab:
    """Runs the real program in one home and one folder."""

    def __init__(self, folder: Path, events: Names) -> None:
        self._events = events
        self._folder, self._home, self._work = folder, folder / "home", folder / "work"
        for name, content in FILES.items():
            path = self._work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        self._session = ""

    def printed_by(self, command: str) -> list[Any]:
        """The types of its JSON output, with the fields that are omitted if they have their default."""
        record = self._folder / "record.json"
        arguments = [one.replace("_", " ").replace("SESSION", self._session) for one in command.split()]
        output = self._run("-m", "tests.support.golden_names", "--record", str(record), *arguments)
        lines = [json.loads(line) for line in output if "--json" in arguments]
        if "-p" in arguments:
            self._session = lines[0]["session"]
        types = [(set(keys), fields) for keys, fields in json.loads(record.read_bytes())]
        objects: list[Any] = []
        for line in lines:
            fitting = [fields for keys, fields in types if keys == line.keys()]
            within = [fields for keys, fields in types if keys < line.keys() and len(keys) > 1]
            event = self._events[line["type"]] if "-p" in arguments else ()  # already recorded by its tag
            beside = sorted(line.keys() - {name for fields in event for name in fields})
            objects += fitting or [beside, *within]
        return _sorted({json.dumps(one): one for one in objects}.values())

    def http(self, *arguments: str) -> Names:
        """The OpenAPI document without its descriptions and the names of its components."""
        document = json.loads("".join(self._run("-m", "ostler", *arguments)))
        routes = {
            f"{method.upper()} {path}": {
                "id": operation["operationId"],
                "parameters": sorted(f"{one['in']} {one['name']}" for one in operation.get("parameters", ())),
                "responses": sorted(operation["responses"]),
            }
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        }
        return {"routes": routes, "fields": _fields(document)}

    def files(self) -> list[str]:
        """Without SQLite's temporary files."""
        files = (path.relative_to(self._home) for path in self._home.rglob("*") if path.is_file())
        return sorted(str(path) for path in files if path.suffix not in (".db-wal", ".db-shm"))

    def _run(self, *arguments: str) -> list[str]:
        environment = {"PATH": os.defpath, "HOME": str(self._home), "OSTLER_HOME": str(self._home / "ostler")}
        environment |= {"PYTHONPATH": str(ROOT), "ANTHROPIC_API_KEY": "sk-none"}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self._work, env=environment, capture_output=True, timeout=60
        )
        assert done.returncode in (0, exit_code(RunWaiting("question"))), (
            f"{arguments}: {done.stderr.decode()}"
        )
        return done.stdout.decode().splitlines()


def _fields(document: Any) -> list[list[str]]:
    """The properties of every object in a document."""
    fields: set[tuple[str, ...]] = set()

    def look(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(properties := value.get("properties"), dict):
                fields.add(tuple(sorted(properties)))
            if isinstance(values := value.get("enum"), list):
                fields.add(("enum", *sorted(map(str, values))))
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            look(one)

    look(document)
    return sorted(map(list, fields))


def _record(path: Path, arguments: list[str]) -> None:
    """Runs the program in this process, and writes the keys of its JSON objects and of their types."""
    seen: list[Any] = []

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def replaced(value: Any, *more: Any, **options: Any) -> Any:
            if isinstance(value, msgspec.Struct):
                seen.append((list(to_builtins(value)), shape(type(value))))
                path.write_text(json.dumps(seen))  # now, because the program ends with os._exit
            return function(value, *more, **options)

        return replaced

    path.write_text("[]")
    to_builtins = msgspec.to_builtins
    msgspec.json.encode, msgspec.to_builtins = noting(msgspec.json.encode), noting(msgspec.to_builtins)
    sys.argv = ["ostler", *arguments]
    runpy.run_module("ostler", run_name="__main__")


def text(content: Names) -> str:
    """One line for each name, so that a difference is easy to read."""
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        _record(Path(sys.argv[2]), sys.argv[3:])
    elif sys.argv[1:] == ["--write"]:
        GOLDEN_FILE.write_text(text(names()), encoding="utf-8")
    else:
        sys.exit("python -m tests.support.golden_names --write")
