"""The table of what is audited."""

from __future__ import annotations

from collections.abc import Iterator

from docs_tables import row
from ostler.history.audit_decisions import ACTIONS, NO_DECISION
from ostler.schema.events import EVENT_TYPES


def action_table() -> Iterator[str]:
    tags = {kind: tag for tag, kind in EVENT_TYPES.items()}
    yield "| action | what it answers | usually by | outcome | told by |"
    yield "|---|---|---|---|---|"
    for name, action in ACTIONS.items():
        yield row(f"`{name}`", action.answers, action.actor, action.outcome, f"`{tags[action.fact]}`")


def facts_without_decision() -> str:
    return ", ".join(f"`{tag}`" for tag, kind in EVENT_TYPES.items() if kind in NO_DECISION)
