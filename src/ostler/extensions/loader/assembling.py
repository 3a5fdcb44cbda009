"""Putting together which extensions run: what is found, trusted and can be loaded, version by version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from msgspec.structs import replace

from ostler.context.text_files import Unusable, printable_path, quoted_path
from ostler.extensions.loader.code_files import CodeFiles
from ostler.extensions.loader.finding import Found, Search, find_extensions
from ostler.extensions.loader.loading import Version
from ostler.extensions.loader.trusting import ToTrust

Versions = dict[str, Version]
"""By name, in the order of the extensions."""

Consent = Callable[[Sequence[ToTrust]], bool]
"""Asks a person to look at extensions, and whether they may run."""


class Assembly:
    """Makes the versions that shall run of those that do, and tells of what is left out."""

    def __init__(
        self,
        search: Search,
        tell: Callable[[str], None],
        consent: Consent | None = None,
        own: Sequence[Version] = (),
    ) -> None:
        self.search = search
        self.tell = tell
        self._consent = consent
        self._own = own
        """Of the program that embeds us: they come first, and stay."""
        self._told: dict[str, str] = {}
        """What was told last, by what it is about: files are looked at often, and change seldom."""

    async def renew(self, old: Versions, *, anew: bool = False) -> Versions:
        """The versions as the files are now. What has not changed is kept, unless all is wanted `anew`.

        A version that runs is kept when the new one is not trusted, or cannot be loaded.
        """
        new: Versions = {one.found.name: one for one in self._own}
        fresh: Versions = {}
        found = find_extensions(self.search)
        trusted = self._look_at([one for one in found if one.project and not one.problem])
        for one in found:
            if one.name in new:
                why = one.problem or f"the program has one of that name, {one.name}, itself"
                self._say(str(one.path), f"the extension {printable_path(one.path)} is left out: {why}")
                continue
            before = old.get(one.name)
            if before and not anew and _is_current(before, one):
                before.extension.standing = "loaded"
                new[one.name] = before
            elif one.project and not one.problem and one not in trusted:
                new[one.name] = self._held_back(one, before)
            else:
                new[one.name] = fresh[one.name] = _version(one, trusted.get(one))
        await _load(fresh.values())
        for name, version in fresh.items():
            new[name] = await self._put_to_use(version, old.get(name))
        self._tell_untrusted(new)
        self._consent = None  # a person is asked once, at the beginning
        return new

    # --- trust ----------------------------------------------------------------------------------------

    def _look_at(self, found: Sequence[Found]) -> dict[Found, CodeFiles | Unusable]:
        """Of a project's extensions those that may run, with their files; or why they cannot be judged."""
        looked: dict[Found, CodeFiles | Unusable] = {}
        unknown: list[ToTrust] = []
        for one in found:
            try:
                files = ToTrust(one)
            except Unusable as problem:
                looked[one] = problem
                continue
            if self.search.trusts or files.is_trusted:
                looked[one] = files.code
            else:
                unknown.append(files)
        if unknown and self._consent and self._consent(unknown):
            for files in unknown:
                files.trust()
                looked[files.found] = files.code
        return looked

    def _held_back(self, found: Found, before: Version | None) -> Version:
        if before is None or not _runs(before):
            version = Version(found, CodeFiles(found, {}))
            version.extension.standing = "untrusted"
            version.extension.problem = f"not trusted: `ostler trust {quoted_path(_folder(found))}`"
            return version
        before.extension.standing = "changed"
        self._say(
            found.name,
            f"the extension {found.name} was changed: its old version runs on until you look at it and say "
            f"`ostler trust {quoted_path(_folder(found))}`",
        )
        return before

    def _tell_untrusted(self, versions: Versions) -> None:
        held = [one.found for one in versions.values() if one.extension.standing == "untrusted"]
        if not held:
            self._told.pop("", None)
            return
        names = ", ".join(one.name for one in held)
        folders = dict.fromkeys(quoted_path(_folder(one)) for one in held)
        how = " and ".join(f"`ostler trust {folder}`" for folder in folders)
        self._say(
            "", f"extensions of this project are left out until you look at them and say {how}: {names}"
        )

    # --- loading --------------------------------------------------------------------------------------

    async def _put_to_use(self, version: Version, before: Version | None) -> Version:
        """What was loaded, or the version before it if that cannot be."""
        found = version.found
        if version.extension.standing != "failed":
            self._told.pop(found.name, None)
            return version
        about = f"the extension {found.name} ({printable_path(found.path)})"
        if before is None or not _runs(before):
            self._say(found.name, f"{about} is not loaded: {version.extension.problem}")
            return version
        await version.forget()
        self._say(
            found.name, f"{about} was changed, but its old version runs on: {version.extension.problem}"
        )
        return before

    def _say(self, about: str, text: str) -> None:
        if self._told.get(about) != text:
            self._told[about] = text
            self.tell(text)


def _version(found: Found, files: CodeFiles | Unusable | None) -> Version:
    if isinstance(files, Unusable):
        return Version(replace(found, problem=str(files)), CodeFiles(found, {}))
    return Version(found, files or CodeFiles(found))


async def _load(versions: Collection[Version]) -> None:
    """Programs start side by side. Python's modules meet in this process: they are run in order."""

    async def in_order() -> None:
        for one in versions:
            if one.found.kind != "foreign":
                await one.load()

    programs = (one.load() for one in versions if one.found.kind == "foreign")
    try:
        await asyncio.gather(in_order(), *programs)
    except asyncio.CancelledError:
        for one in versions:
            await one.forget()
        raise


def _runs(version: Version) -> bool:
    return version.extension.standing in ("loaded", "changed")


def _is_current(version: Version, found: Found) -> bool:
    return version.found == found and _runs(version) and not version.code.has_changed()


def _folder(found: Found) -> Path:
    assert found.project is not None
    return found.project
