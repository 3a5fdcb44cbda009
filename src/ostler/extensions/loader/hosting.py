"""From a search to a host: the extensions that are there are loaded, and hold in a harness from then on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ostler.extensions.loader.finding import Search, check_named, find_extensions
from ostler.extensions.lookout import Lookout
from ostler.kernel.harness import Harness

if TYPE_CHECKING:  # where there are no extensions, nothing of this is loaded
    from ostler.extensions.face import Face
    from ostler.extensions.host import ExtensionHost
    from ostler.extensions.loader.assembling import Assembly, Consent, Versions


async def extend(
    harness: Harness,
    search: Search,
    *,
    say: Callable[[str], None],
    options: Mapping[str, str] | None = None,
    consent: Consent | None = None,
    face: Face | None = None,
) -> ExtensionHost | None:
    """Loads what is found. None if that is nothing: then the first extension is waited for.

    Raises `UsageError` when something that was named is not there.
    """
    check_named(search)
    if not find_extensions(search):
        if search.automatic:
            harness.attendant = Lookout(harness, lambda: without_any(search, say, options, face))
        return None
    from ostler.extensions.loader.assembling import Assembly

    assembly = Assembly(search, say, consent)
    host = host_of(assembly, await assembly.renew({}), say, options, face)
    host.equip(harness)
    return host


def host_of(
    assembly: Assembly,
    versions: Versions,
    say: Callable[[str], None],
    options: Mapping[str, str] | None = None,
    face: Face | None = None,
) -> ExtensionHost:
    """A host that follows the files of its extensions."""
    from ostler.extensions.host import ExtensionHost
    from ostler.extensions.loader.reloading import Reloading

    extensions = [one.extension for one in versions.values()]
    host = ExtensionHost(extensions, face=face, say=say, options=dict(options or {}))
    host.reloading = Reloading(host, assembly, versions)
    assembly.tell = host.warn
    return host


def without_any(
    search: Search,
    say: Callable[[str], None],
    options: Mapping[str, str] | None = None,
    face: Face | None = None,
) -> ExtensionHost:
    """A host that has yet to look for its extensions."""
    from ostler.extensions.loader.assembling import Assembly

    return host_of(Assembly(search, say), {}, say, options, face)
