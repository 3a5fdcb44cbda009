"""The tree of a session as rows: all of it, or only what somebody looks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ostler.faces.cli.tree_rows import Node, nodes_of, placed
from ostler.faces.tui.pickers.picker import Choice
from ostler.vocabulary.events import AssistantMessage, UserMessage
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import text_of

_CALLS = ("tool_called", "tool_result")


def _has_words(node: Node, fact: Fact) -> bool:
    if isinstance(fact.event, AssistantMessage):
        return bool(text_of(fact.event.content).strip())
    return node.type not in _CALLS


def _is_own(node: Node, fact: Fact) -> bool:
    return isinstance(fact.event, UserMessage) and not fact.event.hidden


FILTERS: dict[str, Callable[[Node, Fact], bool] | None] = {
    "what was said": None,
    "no tools": _has_words,
    "your prompts": _is_own,
    "labelled": lambda node, fact: bool(node.label),
    "everything": lambda node, fact: True,
}
"""What may be shown, one after the other. The first leaves calls and their results out where nothing hangs
on them."""


def tree_choices(facts: Sequence[Fact], shown: str) -> list[Choice]:
    """The entries with their numbers. Where the session stands is marked, or the nearest one before it."""
    nodes = nodes_of(facts)
    is_wanted = FILTERS[shown]
    rows = list(placed(nodes) if is_wanted is None else placed(_kept(nodes, facts, is_wanted), is_whole=True))
    present = max((node.seq for node, _ in rows if node.on_path), default=0)
    return [
        Choice(
            row, node.seq, about=aim(node.seq, node.type == "user_message"), is_present=node.seq == present
        )
        for node, row in rows
    ]


def _kept(
    nodes: Sequence[Node], facts: Sequence[Fact], is_wanted: Callable[[Node, Fact], bool]
) -> list[Node]:
    """The wanted ones. What hung on one that is left out hangs on the one before it."""
    by_number = {fact.seq: fact for fact in facts}
    above = {0: 0}
    """For each entry the nearest that is kept, itself included."""
    kept = []
    for node in nodes:
        parent = above[node.parent]
        if is_wanted(node, by_number[node.seq]):
            kept.append(msgspec.structs.replace(node, parent=parent))
            parent = node.seq
        above[node.seq] = parent
    return kept


def aim(entry: int, is_prompt: bool) -> str:
    """What choosing an entry does."""
    if is_prompt:
        return f"goes back to before #{entry}, and lets you say it anew"
    return f"goes to #{entry}: what you say next follows it"
