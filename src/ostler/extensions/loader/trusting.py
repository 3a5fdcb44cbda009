"""Trust in a project's extensions: none runs before its user has looked at all of its files as they are."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ostler.context.text_files import Unusable, printable_path
from ostler.extensions.loader.code_files import CodeFiles, all_files
from ostler.extensions.loader.finding import Found, Search, find_extensions
from ostler.runs.permission_memory import project_folder
from ostler.runs.trust import is_trusted, trust, trusts_edits


class ToTrust:
    """An extension that came with a project, and every file of it. Raises `Unusable` when that cannot be."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.files = all_files(found)
        self.content = listing(self.files, found.path.parent)
        """What is trusted: each file's name and digest."""

    @property
    def code(self) -> CodeFiles:
        return CodeFiles(self.found, self.files)

    @property
    def is_trusted(self) -> bool:
        assert self.found.project is not None
        return trusts_edits(project_folder(self.found.project)) or is_trusted(self.found.path, self.content)

    def trust(self) -> None:
        trust(self.found.path, self.content)

    def lines(self) -> list[str]:
        """What there is to look at, a line for each file."""
        folder = self.found.path.parent
        return [
            f"{printable_path(path.relative_to(folder))}: {counted(len(content.splitlines()))}"
            for path, content in self.files.items()
        ]


def counted(lines: int) -> str:
    return f"{lines:,} line{'' if lines == 1 else 's'}"


def extensions_to_trust(cwd: Path) -> list[ToTrust]:
    """What a project brings to be run in that folder, trusted or not; without what cannot be used at all."""
    from ostler.runs.settings import paths_of, read_project_file

    project = read_project_file(cwd)
    wanted = paths_of(project.values, project.path.parent) if project else ()
    found: list[ToTrust] = []
    for one in find_extensions(Search(cwd, configured=tuple(map(Path, wanted)))):
        if one.project is not None and not one.problem:
            with suppress(Unusable):
                found.append(ToTrust(one))
    return found


def listing(files: Mapping[Path, bytes], folder: Path) -> bytes:
    from hashlib import sha256  # which loads OpenSSL; most projects have nothing to trust

    rows = (f"{path.relative_to(folder)}\0{sha256(content).hexdigest()}" for path, content in files.items())
    return "\n".join(sorted(rows)).encode(errors="surrogateescape")
