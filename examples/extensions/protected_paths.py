"""Protects files from tools that edit files.

    OSTLER_OPT_PROTECTED="*.lock,.env*,migrations/*" ostler -e examples/extensions/protected_paths.py -p "…"

Patterns are shell globs, matched against the path from the working directory and against the file name.
A shell command could still write anywhere: use permissions to limit those.
"""

from fnmatch import fnmatch
from pathlib import Path

from ostler.extensions import ExtensionAPI, ExtensionContext, PlannedCall, Refuse

DEFAULT = ".env*,*.pem,*.key,.git/*,.ssh/*"


def setup(ostler: ExtensionAPI) -> None:
    ostler.option("protected", description="Globs of paths that must not be edited", default=DEFAULT)

    @ostler.before_tool
    def protect(call: PlannedCall, context: ExtensionContext) -> Refuse | None:
        if call.kind != "edit" or "path" not in call.arguments:
            return None
        here = context.cwd.resolve()
        path = (here / str(call.arguments["path"])).resolve()
        place = path.relative_to(here) if path.is_relative_to(here) else path
        patterns = [one.strip() for one in context.option("protected").split(",") if one.strip()]
        hit = next((one for one in patterns if _matches(place, one)), None)
        return Refuse(f"{place} is protected ({hit}): do not edit it.") if hit else None


def _matches(path: Path, pattern: str) -> bool:
    return fnmatch(str(path), pattern) or fnmatch(path.name, pattern)
