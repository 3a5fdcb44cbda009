"""The history of a session, as an extension reads it and changes it: messages, entries, the tree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.extensions.parts.completing import complete, lease_held
from ostler.extensions.parts.history_nodes import HistoryMessage, KeptEntry, Tree, TreeNode
from ostler.kernel.state import path_of
from ostler.runs.collapsing import SYSTEM, record_of
from ostler.runs.tree_requests import is_entry, take_up
from ostler.vocabulary import events
from ostler.vocabulary.errors import NotFound, SessionBusy, UsageError
from ostler.vocabulary.facts import Fact, storing_problem
from ostler.vocabulary.messages import PlainBlock, as_content
from ostler.vocabulary.requests import Navigate

if TYPE_CHECKING:
    from ostler.extensions.context import ExtensionContext


class Moved(msgspec.Struct, frozen=True):
    """The session stands elsewhere now."""

    leaf: int
    previous: int


class History:
    """`context.history`. An entry is named by its number; 0 is before the first."""

    def __init__(self, context: ExtensionContext) -> None:
        self._context = context
        self._journal = context.journal

    # --- reading --------------------------------------------------------------------------------------

    @property
    def leaf(self) -> int:
        """The entry where the session stands."""
        return self._journal.state.leaf

    @property
    def path(self) -> Path | None:
        """The file that holds the session; None for one that is in memory."""
        return getattr(self._journal.store, "path", None)

    async def messages(self) -> list[HistoryMessage]:
        """What was said on the way from the beginning to where the session stands."""
        return (await self._tree()).messages()

    async def entries(self, name: str = "", *, extension: str = "") -> list[KeptEntry]:
        """This extension's own entries on that way, or another's; all of them, or those of one name."""
        own = extension or self._context.extension.name
        return (await self._tree()).kept(own, name)

    async def node(self, entry: int) -> TreeNode | None:
        return (await self._tree()).node(entry)

    async def branch(self) -> list[TreeNode]:
        """All entries from the first to where the session stands."""
        return (await self._tree()).branch()

    async def children(self, entry: int) -> list[TreeNode]:
        """What follows an entry: more than one where somebody went back. Of 0, the first entries."""
        return (await self._tree()).children(entry)

    async def _tree(self) -> Tree:
        return Tree(await self._journal.history(), self._journal.state)

    # --- adding ---------------------------------------------------------------------------------------

    def append(self, name: str, data: Any = None, *, told: str | Sequence[str | PlainBlock] = ()) -> int:
        """Adds an entry of this extension where the session stands; returns its number.

        `told` is what the model is told of it, from its next call on: no run is started for it. It is
        stored at the latest when the handler that added it returns.
        """
        try:
            plain = msgspec.to_builtins(data)
        except TypeError as error:
            raise UsageError(f"the entry {name!r} cannot be kept: {error}") from None
        entry = events.ExtensionEntry(self._context.extension.name, name, plain, as_content(told))
        if problem := storing_problem(entry):
            raise UsageError(f"the entry {name!r} cannot be kept: {problem}")
        return self._context.calls.do(lambda: self._journal.record(entry).seq)

    # --- moving ---------------------------------------------------------------------------------------

    async def navigate(self, entry: int) -> Moved:
        """Goes back, or over to another branch: what comes next follows that entry. 0 is the beginning.

        Raises `SessionBusy` while a run is open, and `NotFound` where there is no such entry.
        """
        async with lease_held(self._context):
            await self._check_is_at_rest("the session cannot go to another entry")
            if entry and not await is_entry(self._journal, entry):
                raise NotFound(f"there is no entry {entry}")
            return await self._move(entry)

    async def _move(self, entry: int) -> Moved:
        previous = self.leaf
        request = Navigate(id=self._journal.world.new_id("req"), by=self._context.extension.name, entry=entry)
        await take_up(self._journal, request)
        return Moved(self.leaf, previous)

    async def summarize(self, first: int, last: int, instructions: str = "") -> str:
        """What happened from one entry to another that followed from it, in the model's words.

        Raises what `context.models.complete` raises, and `NotFound` where one does not lead to the other.
        """
        return await self._summary(_between(await self._journal.history(), first, last), instructions)

    async def collapse(self, first: int, last: int, summary: str = "") -> int:
        """Tells a summary in place of the entries from `first` to `last`; returns the number of its entry.

        They are a branch that was left, or reach to where the session stands: then it goes back to before
        `first`. Nothing is deleted. Without a summary, the model writes one. Raises as the others do.
        """
        async with lease_held(self._context):
            await self._check_is_at_rest("a branch cannot be collapsed")
            facts = await self._journal.history()
            branch = _between(facts, first, last)
            present = path_of(facts)
            is_here = last in present
            if is_here and last != self.leaf:
                raise UsageError(
                    f"the session goes on after entry {last}, to {self.leaf}: collapse up to there, "
                    "or compact the context"
                )
            left = branch if is_here else [fact for fact in branch if fact.seq not in present]
            told = summary.strip() or await self._summary(left)
            if is_here:
                await self._check_is_at_rest("a branch cannot be collapsed")
                await self._move(branch[0].parent or 0)
            entry = self._journal.record(events.BranchCollapsed(told, last))
            await self._journal.commit()
            return entry.seq

    async def _summary(self, branch: Sequence[Fact], instructions: str = "") -> str:
        record = record_of(branch, instructions).messages
        written = await complete(self._context, SYSTEM, record, purpose="summary")
        if not written.text.strip():
            raise UsageError("the model wrote no summary: its answer is empty")
        return written.text.strip()

    async def _check_is_at_rest(self, what: str) -> None:
        await self._journal.commit()
        if self._journal.state.run is not None:
            raise SessionBusy(f"{what} while a run is open")


def _between(facts: Sequence[Fact], first: int, last: int) -> list[Fact]:
    """The entries on the way from one to the other, both included."""
    entries = {fact.seq for fact in facts if fact.parent is not None}
    for number in (first, last):
        if number not in entries:
            raise NotFound(f"there is no entry {number}")
    way = path_of(facts, last)
    if first not in way:
        raise NotFound(f"entry {first} does not lead to entry {last}")
    return [fact for fact in facts if fact.seq in way and fact.seq >= first]
