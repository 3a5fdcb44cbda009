"""`context.history`: the messages, entries and tree of a session. Texts are what the model receives, which
may differ from what users see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.core.state import SessionState, path_of
from ostler.extensions.context_api.models import complete, lease_held
from ostler.history.tree import SessionTree
from ostler.schema import events
from ostler.schema.errors import NotFound, SessionBusy, UsageError
from ostler.schema.facts import Fact, storage_problem
from ostler.schema.messages import (
    Block,
    PlainBlock,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    as_content,
    text_of,
)
from ostler.schema.requests import Navigate
from ostler.sessions.branches import SYSTEM, handle_tree_request, is_entry, record_of

if TYPE_CHECKING:
    from ostler.extensions.extension_context import ExtensionContext


class HistoryMessage(msgspec.Struct, frozen=True):
    """A message of the user, the model or a tool."""

    entry: int
    """The number of its entry."""
    parent: int
    """The number of the entry before it; 0 for the first."""
    role: str
    text: str
    model: str
    """`provider/id`, for messages of a model."""
    provider: str
    time_ms: int


class HistoryEntry(msgspec.Struct, frozen=True):
    """An entry of an extension."""

    entry: int
    extension: str
    name: str
    data: Any
    told: str
    """The text of it for the model."""
    time_ms: int


class TreeNode(msgspec.Struct, frozen=True):
    """An entry of any kind, and its children."""

    entry: int
    parent: int
    kind: str
    """The type of its fact: `user_message`, `assistant_message`, `compacted`, `extension_entry` …"""
    role: str
    """`user`, `assistant` or `tool` for messages, else empty."""
    text: str
    """All of it as text, with reasoning, `[call NAME …]` and results."""
    model: str
    provider: str
    time_ms: int
    children: tuple[int, ...]
    is_current: bool
    """Whether it is on the current branch."""
    label: str


class Tree:
    """The entries of a session at one point in time."""

    def __init__(self, facts: Sequence[Fact], state: SessionState) -> None:
        tree = SessionTree(facts)
        self._entries = {fact.seq: fact for fact in facts if fact.parent is not None}
        self._labels = state.labels
        self._path = tree.path
        self._children = tree.children
        calls = [fact.event for fact in facts if fact.type == "model_called"]
        self._models = {one.id: one.model for one in calls if isinstance(one, events.ModelCalled)}

    def node(self, entry: int) -> TreeNode | None:
        fact = self._entries.get(entry)
        if fact is None:
            return None
        model = self._model(fact)
        return TreeNode(
            entry,
            fact.parent or 0,
            fact.type,
            _ROLES.get(fact.type, ""),
            _fact_text(fact),
            model,
            model.partition("/")[0],
            fact.time_ms,
            tuple(self._children.get(entry, ())),
            entry in self._path,
            self._labels.get(entry, ""),
        )

    def branch(self) -> list[TreeNode]:
        return list(self._nodes(sorted(self._path)))

    def children(self, entry: int) -> list[TreeNode]:
        return list(self._nodes(self._children.get(entry, ())))

    def _nodes(self, entries: Sequence[int]) -> Iterator[TreeNode]:
        for entry in entries:
            if (node := self.node(entry)) is not None:
                yield node

    def messages(self) -> list[HistoryMessage]:
        return [message for entry in sorted(self._path) for message in self._messages(self._entries[entry])]

    def _messages(self, fact: Fact) -> Iterator[HistoryMessage]:
        if isinstance(fact.event, events.HistoryReplaced):
            for message in fact.event.messages:
                yield self._message(fact, message.role, _text(message.content))
        elif fact.type in _ROLES:
            content = getattr(fact.event, "content", ())
            yield self._message(fact, _ROLES[fact.type], text_of(content))

    def _message(self, fact: Fact, role: str, text: str) -> HistoryMessage:
        model = self._model(fact)
        parent, provider = fact.parent or 0, model.partition("/")[0]
        return HistoryMessage(fact.seq, parent, role, text, model, provider, fact.time_ms)

    def _model(self, fact: Fact) -> str:
        """The model that was called; in a copy of a session, which has no calls, the one that was
        reported."""
        event = fact.event
        if not isinstance(event, events.AssistantMessage):
            return ""
        return self._models.get(event.call) or event.model

    def extension_entries(self, extension: str, name: str) -> list[HistoryEntry]:
        return [
            HistoryEntry(fact.seq, extension, one.name, one.data, text_of(one.told), fact.time_ms)
            for fact in (self._entries[entry] for entry in sorted(self._path))
            if isinstance(one := fact.event, events.ExtensionEntry)
            and one.extension == extension
            and name in ("", one.name)
        ]


_ROLES = {"user_message": "user", "assistant_message": "assistant", "tool_result": "tool"}


def _fact_text(fact: Fact) -> str:
    match fact.event:
        case events.UserMessage(content=content) | events.AssistantMessage(content=content):
            return _text(content)
        case events.ToolCalled(name=name, arguments=arguments):
            return f"[call {name} {msgspec.json.encode(arguments).decode()}]"
        case events.ToolResultFact(content=content):
            return text_of(content)
        case events.HistoryReplaced(messages=messages):
            return "\n\n".join(f"{one.role}: {_text(one.content)}" for one in messages)
        case events.Compacted(summary=summary) | events.BranchCollapsed(summary=summary):
            return summary
        case events.CompactionUndone(compaction=compaction):
            return f"[compaction {compaction} undone]"
        case events.ExtensionEntry(name=name, told=told):
            return text_of(told) or f"[{name}]"
        case events.TodoUpdated(items=items):
            return "\n".join(f"[{one.status}] {one.text}" for one in items)
    return ""


def _text(content: Sequence[Block]) -> str:
    return "\n".join(filter(None, map(_block, content)))


def _block(block: Block) -> str:
    match block:
        case Text(text=text) | Reasoning(text=text):
            return text
        case ToolCall(name=name, arguments=arguments):
            return f"[call {name} {arguments}]"
        case ToolResult(name=name, content=content):
            return f"[result {name}] {text_of(content)}"
    return f"[{block.media_type}]"


class NavigationResult(msgspec.Struct, frozen=True):
    """The session's current entry, and the one before the navigation."""

    leaf: int
    previous: int


class History:
    """`context.history`. Entries have numbers; 0 is before the first."""

    def __init__(self, context: ExtensionContext) -> None:
        self._context = context
        self._journal = context.journal

    @property
    def leaf(self) -> int:
        """The number of the session's current entry."""
        return self._journal.state.leaf

    @property
    def path(self) -> Path | None:
        """The file of the session; None for one in memory."""
        return getattr(self._journal.store, "path", None)

    async def messages(self) -> list[HistoryMessage]:
        """The messages of the current branch."""
        return (await self._tree()).messages()

    async def entries(self, name: str = "", *, extension: str = "") -> list[HistoryEntry]:
        """This extension's entries on the current branch, or another's; all of them, or those of one name."""
        own = extension or self._context.extension.name
        return (await self._tree()).extension_entries(own, name)

    async def node(self, entry: int) -> TreeNode | None:
        return (await self._tree()).node(entry)

    async def branch(self) -> list[TreeNode]:
        """All entries of the current branch."""
        return (await self._tree()).branch()

    async def children(self, entry: int) -> list[TreeNode]:
        """The entries that follow an entry, more than one where branches begin; of 0, the first entries."""
        return (await self._tree()).children(entry)

    async def _tree(self) -> Tree:
        return Tree(await self._journal.history(), self._journal.state)

    def append(self, name: str, data: Any = None, *, told: str | Sequence[str | PlainBlock] = ()) -> int:
        """Adds an entry of this extension to the current branch; returns its number. The model gets `told`
        with its next call; no run is started for it. The entry is stored by the time the handler returns."""
        try:
            plain = msgspec.to_builtins(data)
        except TypeError as error:
            raise UsageError(f"the entry {name!r} cannot be stored: {error}") from None
        entry = events.ExtensionEntry(self._context.extension.name, name, plain, as_content(told))
        if problem := storage_problem(entry):
            raise UsageError(f"the entry {name!r} cannot be stored: {problem}")
        return self._context.calls.call(lambda: self._journal.record(entry).seq)

    async def navigate(self, entry: int) -> NavigationResult:
        """Moves the session to another entry, where it continues; 0 is the beginning. Raises `SessionBusy`
        while a run is open, and `NotFound` for an unknown entry."""
        async with lease_held(self._context):
            await self._check_idle("the session cannot go to another entry")
            if entry and not await is_entry(self._journal, entry):
                raise NotFound(f"there is no entry {entry}")
            return await self._move(entry)

    async def _move(self, entry: int) -> NavigationResult:
        previous = self.leaf
        request = Navigate(id=self._journal.world.new_id("req"), by=self._context.extension.name, entry=entry)
        await handle_tree_request(self._journal, request)
        return NavigationResult(self.leaf, previous)

    async def summarize(self, first: int, last: int, instructions: str = "") -> str:
        """The model's summary of the entries from one to a later one on the same branch. Raises what
        `context.models.complete` raises, and `NotFound` if they are not on one branch."""
        return await self._summary(_between(await self._journal.history(), first, last), instructions)

    async def collapse(self, first: int, last: int, summary: str = "") -> int:
        """Adds a summary of the entries from `first` to `last`; returns the number of its entry. They are on
        another branch, or reach to the current entry; then the session moves to before `first`. Nothing is
        deleted. Without a summary, the model writes one. Raises what `navigate` and `summarize` do."""
        async with lease_held(self._context):
            await self._check_idle("a branch cannot be collapsed")
            facts = await self._journal.history()
            branch = _between(facts, first, last)
            current = path_of(facts)
            is_current = last in current
            if is_current and last != self.leaf:
                hint = "collapse up to there, or compact the context"
                raise UsageError(f"the session continues after entry {last}, to {self.leaf}: {hint}")
            collapsed = branch if is_current else [fact for fact in branch if fact.seq not in current]
            text = summary.strip() or await self._summary(collapsed)
            if is_current:
                await self._check_idle("a branch cannot be collapsed")
                await self._move(branch[0].parent or 0)
            entry = self._journal.record(events.BranchCollapsed(text, last))
            await self._journal.commit()
            return entry.seq

    async def _summary(self, branch: Sequence[Fact], instructions: str = "") -> str:
        record = record_of(branch, instructions).messages
        summary = (await complete(self._context, SYSTEM, record, purpose="summary")).text.strip()
        if not summary:
            raise UsageError("the model wrote no summary: its answer is empty")
        return summary

    async def _check_idle(self, what: str) -> None:
        await self._journal.commit()
        if self._journal.state.run is not None:
            raise SessionBusy(f"{what} while a run is open")


def _between(facts: Sequence[Fact], first: int, last: int) -> list[Fact]:
    """The entries from one to the other on a branch, both included."""
    entries = {fact.seq for fact in facts if fact.parent is not None}
    for number in (first, last):
        if number not in entries:
            raise NotFound(f"there is no entry {number}")
    path = path_of(facts, last)
    if first not in path:
        raise NotFound(f"entry {first} does not lead to entry {last}")
    return [fact for fact in facts if fact.seq in path and fact.seq >= first]
