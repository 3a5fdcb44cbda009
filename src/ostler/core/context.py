"""The Context and Tokenizer contracts: what a model gets in a step, and how much of its window that takes.

Prompt caches depend on the prefix of a request, so the trace says why it differs from the previous prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ostler.core.hooks import RunPlan
from ostler.core.model import Model, ModelRequest, ToolOffer, ToolOffers
from ostler.core.transcript import Transcript
from ostler.schema.ids import blake2b
from ostler.schema.messages import Message, as_content

if TYPE_CHECKING:
    from ostler.core.harness import Harness
    from ostler.core.journal import Journal


CompactionReason = Literal["automatic", "overflow", "user", "checkpoint"]
"""It is nearly full, the vendor refused it as too long, the user asked, or the model did."""


class CompactionRequest(msgspec.Struct, frozen=True):
    """A request to compact the context: why, with which instructions, and by which request."""

    occasion: CompactionReason
    instructions: str = ""
    request: str = ""


class ContextInput(msgspec.Struct, frozen=True):
    """Everything on the session's path, and what the agent works with."""

    system: str
    transcript: Transcript
    sources: Sequence[int]
    """The entry of each message."""
    prompts: Set[int]
    tools: ToolOffers
    model: Model
    steers: Set[int] = frozenset()
    appended: tuple[Message, ...] = ()
    """Messages that a hook appends to each request of a run."""


class BuiltContext(msgspec.Struct, frozen=True):
    """The content of a request."""

    system: str
    transcript: Transcript
    tail: tuple[Message, ...] = ()
    trace: dict[str, Any] | None = None
    problem: str = ""
    """Why it cannot fit: then nothing is sent."""


class Context(Protocol):
    """Chooses what the model gets, by rules. Each session has its own; it may cache counts.

    - The same session and policy give the same bytes, whatever was counted before.
    - The content of the previous step does not change, unless the trace says why.
    - A call is never separated from its result.
    """

    async def build(self, journal: Journal, content: ContextInput) -> BuiltContext: ...

    def for_child(self) -> Context:
        """A new one with the same rules, for a child's session."""

    async def needs_compaction(self, journal: Journal, content: ContextInput) -> bool:
        """Whether a compaction is due before the next call."""

    async def compact(
        self, journal: Journal, harness: Harness, content: ContextInput, order: CompactionRequest
    ) -> str:
        """Records and commits a `compacted`. Returns the problem if it did not."""


def context_input(
    journal: Journal, harness: Harness, model: Model, tools: ToolOffers, plan: RunPlan | None = None
) -> ContextInput:
    builder, system = journal.state.builder, harness.system
    added: tuple[Message, ...] = ()
    if plan is not None:
        system = "\n\n".join(part for part in (system, plan.system) if part)
        added = tuple(Message("user", as_content(text)) for text in plan.messages)
    return ContextInput(
        system, builder.transcript, builder.sources, builder.prompts, tools, model, builder.steers, added
    )


FIRST = "it is the first"
ANOTHER_SYSTEM = "the system prompt is another one"
WITH_A_HOOK = f"{ANOTHER_SYSTEM}, with what a hook adds before the run"
BY_A_HOOK = "by a hook that is asked for each context"


class RequestPrefix(msgspec.Struct, frozen=True):
    """The prefix of a request. A transcript only grows, so its length identifies its content."""

    system: str
    transcript: Transcript
    length: int
    is_hooked: bool


def trace_with_prefix(journal: Journal, built: BuiltContext, request: ModelRequest) -> Any:
    """The trace of a call, with why its prefix changed. It has a digest of the system prompt in the first
    call of a process and whenever the prompt has changed."""
    before, transcript = journal.last_prefix, request.transcript
    is_hooked = transcript is not built.transcript
    now = journal.last_prefix = RequestPrefix(request.system, transcript, len(transcript), is_hooked)
    if built.trace is None:
        return None
    added: dict[str, str] = {}
    if before is None or before.system != now.system:
        added["system"] = blake2b(now.system.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    if before is not None and (why := _why_it_changed(before, now, built)):
        changed = built.trace.get("changed", FIRST)
        added["changed"] = why if changed == FIRST else changed
    return {**built.trace, **added} if added else built.trace


def _why_it_changed(before: RequestPrefix, now: RequestPrefix, built: BuiltContext) -> str:
    prefix = before.transcript.messages[: before.length]
    if (before.is_hooked or now.is_hooked) and now.transcript.messages[: before.length] != prefix:
        return BY_A_HOOK
    if before.system == now.system:
        return ""
    if now.system != built.system:
        return BY_A_HOOK
    adds = (built.trace or {}).get("before_run", {})
    return WITH_A_HOOK if adds.get("system") else ANOTHER_SYSTEM


Source = Literal["estimated", "calibrated", "tokenizer", "reported"]
"""By a rule; by a rule and the vendor's reports; by the model's vocabulary; by the vendor. The last is the
most certain."""

Confidence = Literal["low", "medium", "high"]
"""The error may be half; a fifth; a few percent."""


class Count(msgspec.Struct, frozen=True):
    """A number of tokens."""

    tokens: int
    source: Source
    confidence: Confidence

    def __add__(self, other: Count) -> Count:
        """The sum, which is no more certain than the less certain part."""
        return Count(
            self.tokens + other.tokens,
            min(self.source, other.source, key=_SOURCES.__getitem__),
            min(self.confidence, other.confidence, key=_CONFIDENCES.__getitem__),
        )


_SOURCES: dict[Source, int] = {"estimated": 0, "calibrated": 1, "tokenizer": 2, "reported": 3}
_CONFIDENCES: dict[Confidence, int] = {"low": 0, "medium": 1, "high": 2}

NO_TOKENS = Count(0, "reported", "high")
"""The start of every sum."""


def total(counts: Iterable[Count]) -> Count:
    """The sum of many counts, fast enough for all messages of a session."""
    tokens = 0
    kinds: set[tuple[Source, Confidence]] = set()
    for count in counts:
        tokens += count.tokens
        kinds.add((count.source, count.confidence))
    return sum((Count(0, *kind) for kind in kinds), Count(tokens, "reported", "high"))


class Tokenizer(Protocol):
    """Counts tokens to keep a request within the model's window; never for billing.

    - `model` is `PROVIDER/ID`, so that one tokenizer can serve all; an unknown one gets an estimate.
    - It never fails and never blocks: it is called on the event loop.
    - A count is never negative, that of an empty text is 0, and the same arguments give the same count.
    - A message is counted with everything that is sent for it: its frame on the wire, calls with their ids,
      names and arguments, results with their ids, names and content, images and files, and reasoning if the
      vendor gets it back. A tokenizer that leaves these out makes windows overflow.
    - Tools are counted with their names, descriptions and schemas; without tools the count is 0.
    """

    def text(self, text: str, model: str) -> Count: ...

    def message(self, message: Message, model: str) -> Count: ...

    def tools(self, offers: Sequence[ToolOffer], model: str) -> Count: ...
