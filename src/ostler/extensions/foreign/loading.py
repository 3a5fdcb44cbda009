"""Loading an extension in another language: its manifest is read, and its process started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ostler.extensions.calling import CodeFailed
from ostler.extensions.extension import Extension, Origin
from ostler.extensions.foreign.foreign_extension import ForeignExtension
from ostler.extensions.foreign.limits import Limits
from ostler.extensions.foreign.manifest import read_manifest
from ostler.vocabulary.errors import ConfigurationError


async def load_foreign(
    folder: Path, origin: Origin, *, limits: Limits | None = None, check: Callable[[], None] = lambda: None
) -> Extension:
    """The extension in a folder with an `extension.json`: ready, disabled, or failed with its problem.

    Each time before its process is started, `check` may raise `CodeFailed` with why that must not be.
    Its process ends when it leaves the last session that it was in. Whoever loads one and opens no session
    with it ends it with `ForeignExtension.close`.
    """
    try:
        manifest = read_manifest(folder)
    except ConfigurationError as error:
        return Extension(folder.name, origin, folder, standing="failed", problem=error.message)
    if not manifest.enabled:
        return Extension(manifest.name, origin, folder, standing="disabled", version=manifest.version)
    extension = ForeignExtension(manifest, folder, origin, limits or Limits(), check)
    try:
        await extension.start()
    except (CodeFailed, ConfigurationError) as error:
        extension.standing, extension.problem = "failed", str(error)
    return extension
