"""The shape of the source: how modules are named, how large they are, and where their tests are."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import DOCS, ROOT, TESTS

SOURCE = ROOT / "src" / "ostler"
MODULES = sorted(SOURCE.rglob("*.py"))

MOST_LINES = 500
LEAST_MEAN_LINES = 210

FIELD_NOUNS = {"routing", "streaming", "pricing", "caching", "typing", "string", "keyring", "recording"}
"""Words of the field that end in -ing and are no gerunds."""

REJECTED_WORDS = [
    "told",
    "said",
    "shown",
    "kept",
    "found",
    "brought",
    "rest",
    "quiet",
    "settled",
    "aside",
    "attending",
    "whoever",
    "somebody",
]
"""Participles and riddles that say nothing about what a module, class or function does."""

SHARED_NAMES = {
    "agent": "the SDK's agent; the simulator's agent",
    "agents": "named agents; their routes",
    "anthropic": "Anthropic's wire; the fake vendor that speaks it",
    "app": "an ASGI application",
    "chat": "the Chat Completions wire; the fake vendor that speaks it",
    "children": "child runs: their contract; how sessions run them",
    "client": "the client side of a protocol",
    "command": "the command line of one front end",
    "completion": "completing text: by a model, or what a person types",
    "conversation": "a conversation in the terminal, in the full UI and in plain lines",
    "diff": "the difference of two texts; its rows in the terminal",
    "events": "the events of a session; the routes and streams that send them",
    "extensions": "extensions in one front end, and in tests",
    "files": "helpers for files, in each layer that has its own",
    "front_end": "what a front end offers to extensions, and each front end's implementation",
    "gemini": "Gemini's wire; the fake vendor that speaks it",
    "harness": "the harness; building one from the settings",
    "history": "what is computed from logs, in one front end",
    "inbox": "the inbox of a session, of a model or of a driven agent",
    "items": "the items of a conversation, and their renderers",
    "main": "the entry of a program or front end",
    "markdown": "Markdown: its front matter; its rows in the terminal",
    "memory": "what is remembered: a store in memory; the answers to permission questions",
    "models": "models in one front end",
    "openapi": "the OpenAPI document of one API",
    "options": "the options of one command line",
    "process": "a process around an extension, or a simulated one",
    "providers": "providers of models; providers of context",
    "questions": "questions to people, of a session or of a driven agent",
    "reports": "the reports of `ostler X`; the commands `/X` that print them",
    "requests": "requests to a session; their routes",
    "resources": "agents, skills, prompts and models, in one front end",
    "responses": "the Responses wire; the fake vendor that speaks it",
    "rules": "the rules that a store keeps; permission rules",
    "session": "a session, of a model or of a driven agent",
    "session_view": "a session as one front end shows it",
    "sessions": "sessions in one front end, and in the store's test suite",
    "skills": "skills; what extensions can do with them",
    "state": "the state of a session; the state of a server",
    "store": "the store's contract; a store over HTTP",
    "streams": "live streams: publish and subscribe; as HTTP responses",
    "submit": "submitting a request to a session, here or over HTTP",
    "templates": "prompt templates; what extensions can do with them",
    "themes": "themes of the terminal; themes of extensions",
    "transcript": "the transcript for the model; its view in the terminal",
    "tree": "the tree of a session; its commands",
    "uploads": "uploads over one API",
}
"""Base names in more than one package, and the idea that they share."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (ast.ClassDef, *_FUNCTIONS)

OTHER_TESTS = ("agents", "docs", "golden", "parity", "server/browser", "support", "system")
"""Folders of tests that are about no single module."""


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def definitions(path: Path) -> Iterator[str]:
    """The classes and public functions of a module, and the public methods of its classes."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, _DEFINITIONS) and not (node.name.startswith("_") and node.name.islower()):
            yield node.name


def is_rejected(name: str) -> bool:
    words = re.findall(r"[A-Z]?[a-z0-9]+", name)
    return bool(words) and words[0].lower() in REJECTED_WORDS


def imports_in_functions(path: Path) -> Iterator[str]:
    """The modules of `ostler` that a function imports. They go through `core/lazy.py` instead."""
    functions = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, _FUNCTIONS)]
    for node in [node for function in functions for node in ast.walk(function)]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "ostler")
        elif isinstance(node, ast.ImportFrom) and (node.level or str(node.module).split(".")[0] == "ostler"):
            yield node.module or "."


def test_modules_are_neither_many_and_short_nor_long() -> None:
    lengths = {name_of(path): len(path.read_bytes().splitlines()) for path in MODULES}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}
    assert sum(lengths.values()) / len(MODULES) >= LEAST_MEAN_LINES


def test_no_function_imports_ostler() -> None:
    importing = {name_of(path): list(imports_in_functions(path)) for path in MODULES}
    assert {name: modules for name, modules in importing.items() if modules} == {}


def test_no_module_is_named_by_a_gerund() -> None:
    stems = {name_of(path): set(path.stem.split("_")) - FIELD_NOUNS for path in MODULES}
    assert [name for name, words in stems.items() if any(word.endswith("ing") for word in words)] == []


def test_a_base_name_is_shared_only_by_one_idea() -> None:
    packages = defaultdict(list)
    for path in MODULES:
        if not path.stem.startswith("__"):
            packages[path.stem].append(name_of(path))
    shared = {stem for stem, names in packages.items() if len(names) > 1}
    assert shared == set(SHARED_NAMES)
    assert len(SHARED_NAMES) <= 50


@pytest.mark.parametrize("name", ["told_steps", "_Kept", "Shown", "rest"])
def test_rejected_words_are_recognised(name: str) -> None:
    assert is_rejected(name)
    assert not is_rejected("not_found")
    assert not is_rejected("NotFound")
    assert not is_rejected("restart")


def test_nothing_is_named_by_a_rejected_word() -> None:
    rejected = [name_of(path) for path in MODULES if is_rejected(path.stem)]
    rejected += [
        f"{name_of(path)}: {name}" for path in MODULES for name in definitions(path) if is_rejected(name)
    ]
    assert rejected == []


def test_every_test_file_names_the_module_that_it_tests() -> None:
    strangers = []
    for path in TESTS.rglob("test_*.py"):
        folder = path.relative_to(TESTS).parent
        if folder == Path() or folder.as_posix().startswith(OTHER_TESTS):
            continue
        home = SOURCE / folder
        stems = [one.stem.strip("_") for one in home.iterdir()] if home.is_dir() else []
        name = path.stem.removeprefix("test_")
        if not any(name == stem or name.startswith(f"{stem}_") for stem in stems):
            strangers.append(path.relative_to(TESTS).as_posix())
    assert strangers == []


def test_the_glossary_is_short_and_names_modules_that_exist() -> None:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| `([^`]+)` \|$", (DOCS / "glossary.md").read_text(), re.M)
    assert 20 <= len(rows) <= 40
    assert [path for _, path in rows if not (SOURCE / path).exists()] == []
