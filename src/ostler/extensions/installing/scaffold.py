"""An extension to begin with, and a test for it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal

from ostler.extensions.installing.sources import package_name
from ostler.vocabulary.errors import UsageError

Language = Literal["python", "node", "any"]

_SUFFIX = ".txt"


def write_scaffold(folder: Path, language: Language) -> list[Path]:
    """Writes it into a new folder, whose name is the extension's. Nothing that is there is touched."""
    name = package_name(folder.name)
    templates = files(__package__) / "scaffolds"
    texts = {
        _named(one.name.removesuffix(_SUFFIX), name): _named(one.read_text(encoding="utf-8"), name)
        for kind in (language, "every")
        for one in sorted((templates / kind).iterdir(), key=lambda one: one.name)
    }
    try:
        folder.mkdir(parents=True)
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise UsageError(f"{folder} is there already: choose another name, or move it away") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None
    return [folder / file for file in texts]


def _named(text: str, name: str) -> str:
    return text.replace("@NAME@", name)
