"""`extension.json`: what an extension in another language is called, and how it is started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ostler.vocabulary.errors import ConfigurationError

MANIFEST = "extension.json"


class Manifest(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    exec: Annotated[str, Meta(min_length=1)]
    args: tuple[str, ...] = ()
    version: str = ""
    language: str = ""
    description: str = ""
    enabled: bool = True


def read_manifest(folder: Path) -> Manifest:
    """Raises `ConfigurationError` for one that is missing or wrong."""
    path = folder / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise ConfigurationError(f"there is no {path}") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


def command_of(manifest: Manifest, folder: Path) -> list[str]:
    """The program and its arguments: an absolute path, one from the manifest's folder, or a name in PATH.

    Raises `ConfigurationError` where there is no such program.
    """
    from shutil import which  # only for extensions that are there

    named = manifest.exec
    if os.sep in named:
        program = str(folder / named)
        if not os.access(program, os.X_OK) or Path(program).is_dir():
            raise ConfigurationError(f"{program} is no program: is it there, and executable (chmod +x)?")
    else:
        program = which(named) or ""
        if not program:
            raise ConfigurationError(
                f"there is no program {named!r} in PATH; write ./{named} for a file here"
            )
    return [program, *manifest.args]


def named_outside(manifest: Manifest, folder: Path, project: Path) -> Path | None:
    """A file of the project that the command names and that is not the extension's own: it could change
    without anybody being asked."""
    words = [word for named in (manifest.exec, *manifest.args) for word in (named, named.partition("=")[2])]
    for word in filter(None, words):
        path = (folder / word).resolve()
        if path.exists() and path.is_relative_to(project) and not path.is_relative_to(folder):
            return path
    return None
