"""Fences of extensions: told as those of a host are, while their code is called as all code of extensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.context.fences import Fence, FenceRequest
from ostler.extensions.calling import CodeFailed, call_within, place_of, takes
from ostler.extensions.extension import Extension
from ostler.extensions.registrations import BroughtFence
from ostler.kernel.context import Context
from ostler.runs.contexts import KeptContext

if TYPE_CHECKING:
    from ostler.extensions.host import ExtensionHost


def bring_fences(host: ExtensionHost, context: Context | None) -> list[str]:
    """Those of all extensions, in place of those before. Returns what is to be said of those that are not
    told."""
    found: dict[str, tuple[Extension, BroughtFence]] = {}
    notices = []
    for extension in host.loaded:
        for kind, one in extension.registered.fences.items():
            if kind in found:
                notices.append(_is_taken(extension, kind))
            else:
                found[kind] = (extension, one)
    if not isinstance(context, KeptContext):
        return [
            f"the extension {extension.name} brings a fence {kind!r}, but the host's own context has none"
            for kind, (extension, _) in found.items()
        ]
    taken = context.bring(_guarded(host, extension, one) for extension, one in found.values())
    return [*notices, *(_is_taken(found[kind][0], kind) for kind in taken)]


def _is_taken(extension: Extension, kind: str) -> str:
    return f"the extension {extension.name} brings a fence {kind!r}, but that name is taken"


def _guarded(host: ExtensionHost, extension: Extension, brought: BroughtFence) -> Fence:
    source: Callable[..., Any] = brought.fence.source

    async def ask(request: FenceRequest) -> str | None:
        attending = host.sessions.get(request.session)
        channel = attending.channels.get(extension.name) if attending else None
        if attending is None or channel is None:
            return None  # removed a moment ago
        attending.hand_on()
        await channel.catch_up()
        arguments = (request, channel.context)[: takes(source)]
        try:
            said = await call_within(brought.time_limit, extension.worker, source, *arguments)
            if said is not None and not isinstance(said, str):
                raise CodeFailed(f"it returned {said!r:.60}, not a text{place_of(source)}")
        except CodeFailed as failure:
            attending.report(extension, f"the fence {brought.fence.kind}", str(failure))
            return None
        finally:
            await attending.commit()
        return said

    return msgspec.structs.replace(brought.fence, source=ask)
