"""The blobs that facts name, read in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

from ostler.kernel.store import BlobPart, Store
from ostler.vocabulary.events import ToolResultFact
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import BlobRef

PIECE = 192 * 1024
"""So that a line of an export with a piece in base64 has about 256 KiB."""


def blobs_named_by(facts: Iterable[Fact]) -> dict[str, None]:
    """Their names, in the order of the facts, each once."""
    return {output.id: None for output in outputs_named_by(facts)}


def outputs_named_by(facts: Iterable[Fact]) -> Iterator[BlobRef]:
    for fact in facts:
        if fact.type == "tool_result" and isinstance(fact.event, ToolResultFact) and fact.event.output:
            yield fact.event.output


async def read_in_parts(store: Store, session: str, blob: str) -> AsyncIterator[BlobPart]:
    """A whole blob; nothing when there is none of that name."""
    found = await store.blob(session, blob)
    if found is None:
        return
    for start in range(0, max(found.size, 1), PIECE):
        size = min(PIECE, found.size - start)
        yield BlobPart(blob, await store.read_blob(session, blob, start, size), found.media_type)
