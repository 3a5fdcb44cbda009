"""The Context contract: what a model is told in one step, and what is recorded of how that was chosen."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ostler.kernel.hooks import RunPlan
from ostler.kernel.model import Model, ToolOffer, Transcript
from ostler.vocabulary.messages import Message, as_content

if TYPE_CHECKING:  # which hold a context themselves
    from ostler.kernel.harness import Harness
    from ostler.kernel.journal import Journal

Occasion = Literal["automatic", "overflow", "user", "checkpoint"]
"""Why it is compacted: it is about to be full, the vendor says so, a person or the model wants it."""


class Order(msgspec.Struct, frozen=True):
    """That the context shall be compacted: why, with what in mind, and at whose request."""

    occasion: Occasion
    wish: str = ""
    request: str = ""


class Told(msgspec.Struct, frozen=True):
    """What could be told: all that is on the session's path, and what the agent works with."""

    system: str
    transcript: Transcript
    sources: Sequence[int]
    """The number of the entry that each message comes from."""
    prompts: Set[int]
    """Those of them that began a run."""
    tools: tuple[ToolOffer, ...]
    model: Model
    steers: Set[int] = frozenset()
    """Those of them that people said while a run was under way."""
    said: tuple[Message, ...] = ()
    """What a hook adds behind the messages, in each request of a run."""


class Built(msgspec.Struct, frozen=True):
    """What is told."""

    system: str
    transcript: Transcript
    tail: tuple[Message, ...] = ()
    trace: dict[str, Any] | None = None
    problem: str = ""
    """Why it cannot be made to fit: nothing is sent then."""


class Context(Protocol):
    """Chooses by rule what the model is told. One for each session; it may keep what it has counted.

    - The same session and policy give the same bytes, whatever was counted before.
    - What was told in the step before stays as it was, unless the trace says why not.
    - A call is never parted from its result.
    """

    async def build(self, journal: Journal, told: Told) -> Built: ...

    def anew(self) -> Context:
        """Another one by the same rules, for a child's session."""
        ...

    async def is_full(self, journal: Journal, told: Told) -> bool:
        """Whether a compaction is due before the next call."""
        ...

    async def compact(self, journal: Journal, harness: Harness, told: Told, order: Order) -> str:
        """Records a `compacted`, and commits it. Returns why not, if it did not."""
        ...


def all_told(
    journal: Journal,
    harness: Harness,
    model: Model,
    tools: tuple[ToolOffer, ...],
    plan: RunPlan | None = None,
) -> Told:
    """Everything on the session's path, and what a hook has planned to tell besides."""
    state, system = journal.state, harness.system
    said: tuple[Message, ...] = ()
    if plan is not None:
        system = "\n\n".join(part for part in (system, plan.system) if part)
        said = tuple(Message("user", as_content(text)) for text in plan.told)
    return Told(system, state.transcript, state.sources, state.prompts, tools, model, state.steers, said)
