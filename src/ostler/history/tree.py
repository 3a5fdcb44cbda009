"""The tree of a session: its entries as nodes, and as lines that draw the branches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec

from ostler.core.state import leaf_of, path_of
from ostler.history.item_builder import ItemBuilder
from ostler.history.items import CallItem, Item, NoticeItem, SummaryItem, TextItem, UserItem
from ostler.schema import events
from ostler.schema.facts import Fact
from ostler.schema.messages import text_of
from ostler.schema.text import one_line

_TEXT_LENGTH = 100
_NAMES = {
    "user_message": "you",
    "assistant_message": "assistant",
    "tool_called": "call",
    "tool_result": "result",
    "compacted": "summary",
}


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of the tree."""

    seq: int
    parent: int
    type: str
    text: str = ""
    label: str = ""
    on_path: bool = False
    """It lies between the root and the leaf: the model receives it."""
    leaf: bool = False
    """The next entry follows this one."""


class SessionTree:
    """All entries of a session, also those off the path."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self.leaf = leaf_of(facts)
        """The entry that the next one follows; 0 before the first."""
        self.path = path_of(facts)
        self.labels: dict[int, str] = {}
        self._facts = facts
        for fact in facts:
            if isinstance(fact.event, events.Labelled):
                self.labels[fact.event.entry] = fact.event.label

    @cached_property
    def nodes(self) -> list[Node]:
        builder = ItemBuilder()
        builder.apply(self._facts)
        return [
            Node(
                fact.seq,
                fact.parent,
                fact.type,
                _text(builder.items_at(fact.seq)),
                self.labels.get(fact.seq, ""),
                fact.seq in self.path,
                fact.seq == self.leaf,
            )
            for fact in self._facts
            if fact.parent is not None
        ]

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """The entries that follow each entry; 0 has the first ones."""
        children: dict[int, list[int]] = {}
        for fact in self._facts:
            if fact.parent is not None:
                children.setdefault(fact.parent, []).append(fact.seq)
        return children

    def rows(self) -> Iterator[str]:
        return (row for _, row in placed(self.nodes))


def _text(items: Sequence[Item]) -> str:
    texts: list[str] = []
    names: list[str] = []
    for item in items:
        match item:
            case UserItem(hidden=True) | NoticeItem(code="withheld"):
                return "(not shown)"
            case UserItem(content=content):
                texts.append(text_of(content))
            case TextItem(complete=True, text=text) | SummaryItem(source="compaction" | "branch", text=text):
                texts.append(text)
            case CallItem(call=call, name=name) if call:
                names.append(name)
    text = one_line("\n".join(texts) or ", ".join(names))
    return text if len(text) <= _TEXT_LENGTH else text[: _TEXT_LENGTH - 1] + "…"


def placed(nodes: Sequence[Node], *, is_whole: bool = False) -> Iterator[tuple[Node, str]]:
    """Each node with its line. Calls and results have one only if they have a branch, a label or the leaf;
    or with `is_whole`."""
    below: dict[int, list[Node]] = {}
    for node in nodes:
        below.setdefault(node.parent, []).append(node)
    waiting = [(node, "", "") for node in reversed(below.get(0, []))]
    if len(waiting) > 1:
        waiting = _branches(below[0], "")
    while waiting:
        node, before, indent = waiting.pop()
        children = below.get(node.seq, [])
        is_message = node.type not in ("tool_called", "tool_result")
        if is_whole or is_message or before != indent or len(children) > 1 or node.label or node.leaf:
            yield node, before + _row(node)
            before = indent
        if len(children) == 1:
            waiting.append((children[0], before, indent))
        else:
            waiting += _branches(children, indent)


def _branches(children: Sequence[Node], indent: str) -> list[tuple[Node, str, str]]:
    """The children in reverse order, as they are popped from the end of a list."""
    rows = [(node, f"{indent}├─ ", f"{indent}│  ") for node in children]
    rows[-1:] = [(node, f"{indent}└─ ", f"{indent}   ") for node in children[-1:]]
    return rows[::-1]


def _row(node: Node) -> str:
    label = f"  [{one_line(node.label)}]" if node.label else ""
    leaf = "  ← leaf" if node.leaf else ""
    name = _NAMES.get(node.type, node.type)
    return f"#{node.seq} {name}{': ' if node.text else ''}{node.text}{label}{leaf}"
