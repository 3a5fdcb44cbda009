"""The tree of a session, an entry a line; a branch is set in from where it begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ostler.core.state import leaf_of, path_of
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
    """An entry in its place."""

    seq: int
    parent: int
    type: str
    text: str = ""
    label: str = ""
    on_path: bool = False
    """It lies between the leaf and the root: the model is told it."""
    leaf: bool = False
    """The next entry follows this one."""


def nodes_of(facts: Sequence[Fact]) -> list[Node]:
    leaf, path = leaf_of(facts), path_of(facts)
    labels = {fact.event.entry: fact.event.label for fact in facts if isinstance(fact.event, events.Labelled)}
    return [
        Node(
            fact.seq,
            fact.parent,
            fact.type,
            _text(fact),
            labels.get(fact.seq, ""),
            fact.seq in path,
            fact.seq == leaf,
        )
        for fact in facts
        if fact.parent is not None
    ]


def _text(fact: Fact) -> str:
    match fact.event:
        case events.UserMessage(hidden=True) | events.AssistantMessage(suppressed=True):
            text = "(not shown)"
        case events.UserMessage(content=content):
            text = text_of(content)
        case events.AssistantMessage(content=content, shown=shown):
            text = text_of(content if shown is None else shown) or ", ".join(_calls(content))
        case events.ToolCalled(name=name) | events.ToolResultFact(name=name):
            text = name
        case events.Compacted(summary=summary) | events.BranchCollapsed(summary=summary):
            text = summary
        case _:
            text = ""
    text = one_line(text)
    return text if len(text) <= _TEXT_LENGTH else text[: _TEXT_LENGTH - 1] + "…"


def _calls(content: Sequence[object]) -> list[str]:
    return [name for block in content if (name := getattr(block, "name", ""))]


def rows(nodes: Sequence[Node]) -> Iterator[str]:
    return (row for _, row in placed(nodes))


def placed(nodes: Sequence[Node], *, is_whole: bool = False) -> Iterator[tuple[Node, str]]:
    """Each with its line. Calls and results have one only where something hangs on them: a branch, a label or
    the leaf; or with `is_whole`."""
    below: dict[int, list[Node]] = {}
    for node in nodes:
        below.setdefault(node.parent, []).append(node)
    waiting = [(node, "", "") for node in reversed(below.get(0, []))]
    if len(waiting) > 1:
        waiting = _branches(below[0], "")
    while waiting:
        node, before, indent = waiting.pop()
        children = below.get(node.seq, [])
        is_told = is_whole or node.type not in ("tool_called", "tool_result")
        if is_told or before != indent or len(children) > 1 or node.label or node.leaf:
            yield node, before + _row(node)
            before = indent
        if len(children) == 1:
            waiting.append((children[0], before, indent))
        else:
            waiting += _branches(children, indent)


def _branches(children: Sequence[Node], indent: str) -> list[tuple[Node, str, str]]:
    """In the order to take them from the end of a list."""
    last = children[-1:]
    return [
        (
            node,
            f"{indent}{'└─' if [node] == last else '├─'} ",
            f"{indent}{'   ' if [node] == last else '│  '}",
        )
        for node in reversed(children)
    ]


def _row(node: Node) -> str:
    label = f"  [{one_line(node.label)}]" if node.label else ""
    leaf = "  ← leaf" if node.leaf else ""
    name = _NAMES.get(node.type, node.type)
    return f"#{node.seq} {name}{': ' if node.text else ''}{node.text}{label}{leaf}"
