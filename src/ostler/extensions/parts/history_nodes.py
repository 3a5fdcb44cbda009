"""The tree of a session's entries as data for extensions, made of its facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ostler.kernel.state import SessionState, path_of
from ostler.vocabulary import events
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import Block, Reasoning, Text, ToolCall, ToolResult, text_of


class HistoryMessage(msgspec.Struct, frozen=True):
    """Something that was said: by a person, by the model, or by a tool."""

    entry: int
    """The number of its entry."""
    parent: int
    """Of the entry before it; 0 for the first."""
    role: str
    text: str
    model: str
    """`provider/id` of who answered; empty for those that no model said."""
    provider: str
    time_ms: int


class KeptEntry(msgspec.Struct, frozen=True):
    """An entry that an extension has added."""

    entry: int
    extension: str
    name: str
    data: Any
    told: str
    """What the model is told of it."""
    time_ms: int


class TreeNode(msgspec.Struct, frozen=True):
    """An entry of any kind, and what it leads to."""

    entry: int
    parent: int
    kind: str
    """The type of its fact: `user_message`, `assistant_message`, `compacted`, `extension_entry` …"""
    role: str
    """`user`, `assistant` or `tool` for what was said, else empty."""
    text: str
    """All of it in words, with the model's thoughts, `[call NAME …]` and results."""
    model: str
    provider: str
    time_ms: int
    children: tuple[int, ...]
    is_current: bool
    """It lies on the way to where the session stands."""
    label: str


class Tree:
    """The entries of one moment."""

    def __init__(self, facts: Sequence[Fact], state: SessionState) -> None:
        self._entries = {fact.seq: fact for fact in facts if fact.parent is not None}
        self._labels = state.labels
        self._path = path_of(facts)
        self._children: dict[int, list[int]] = {}
        for fact in self._entries.values():
            self._children.setdefault(fact.parent or 0, []).append(fact.seq)
        called = [fact.event for fact in facts if fact.type == "model_called"]
        self._models = {one.id: one.model for one in called if isinstance(one, events.ModelCalled)}

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
            _words(fact),
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
        return [message for entry in sorted(self._path) for message in self._said(self._entries[entry])]

    def _said(self, fact: Fact) -> Iterator[HistoryMessage]:
        if isinstance(fact.event, events.HistoryReplaced):
            for message in fact.event.messages:
                yield self._message(fact, message.role, _text(message.content))
        elif fact.type in _ROLES:
            content = getattr(fact.event, "content", ())
            yield self._message(fact, _ROLES[fact.type], text_of(content))

    def _message(self, fact: Fact, role: str, text: str) -> HistoryMessage:
        model = self._model(fact)
        return HistoryMessage(
            fact.seq, fact.parent or 0, role, text, model, model.partition("/")[0], fact.time_ms
        )

    def _model(self, fact: Fact) -> str:
        """Who was asked; in a copy of a session, where no calls are, what the vendor reported."""
        event = fact.event
        if not isinstance(event, events.AssistantMessage):
            return ""
        return self._models.get(event.call) or event.model

    def kept(self, extension: str, name: str) -> list[KeptEntry]:
        found = [self._entries[entry] for entry in sorted(self._path)]
        return [
            KeptEntry(fact.seq, extension, one.name, one.data, text_of(one.told), fact.time_ms)
            for fact in found
            if isinstance(one := fact.event, events.ExtensionEntry)
            and one.extension == extension
            and name in ("", one.name)
        ]


_ROLES = {"user_message": "user", "assistant_message": "assistant", "tool_result": "tool"}


def _words(fact: Fact) -> str:
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
