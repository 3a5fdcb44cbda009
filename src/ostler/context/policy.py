"""`ContextPolicy`: every rule about the model's context, in one object."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec

from ostler.core.validation import describe_mismatch
from ostler.schema.errors import ConfigurationError

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
Positive = Annotated[int, msgspec.Meta(gt=0)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
ResultMode = Literal["full", "cut", "dropped"]
Rules = dict[str, dict[str, Any]]
"""A part of the policy, as written in settings: `{"window": {"tokens": 60000}}`."""


class Window(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The size of the context."""

    tokens: Positive | None = None
    """Tokens of request and answer together; default: the model's window."""
    reserve: Positive | None = None
    """Tokens reserved for the answer; default: its output limit, at most 16,384 and half the window."""


class ToolHistory(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The calls of earlier runs. Those of the current run are included in full while there is room.

    A call and its result are always included together, or not at all.
    """

    results: ResultMode = "full"
    """Include results in full, shorten them, or drop them with their calls."""
    keep_runs: Natural = 1
    """The number of earlier runs that are included in full."""
    keep_calls: Natural = 0
    """The number of calls before those that are included in full, the newest first."""
    by_tool: dict[str, ResultMode] = {}
    """By tool name, in place of `results`."""
    cut_to: Positive = 200
    """Tokens that remain of a shortened result: its beginning and its end."""


class MustKeep(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is never dropped or shortened."""

    last_prompt: bool = True
    """The prompt of the current run, and messages sent while it was running."""
    first_prompt: bool = False
    """The prompt of the session's first run, until it is compacted."""
    tools: tuple[str, ...] = ()
    """Calls of these tools, with their results."""


class Reasoning(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    keep: Natural | None = None
    """The number of newest answers whose reasoning is included; default: all, as vendors require."""


class Results(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Limits of new results: a longer one is cut to its beginning and end. It is stored and can be read."""

    characters: Positive = 51_200
    """The maximum number of bytes; longer results are cut in the middle."""
    lines: Positive | None = None
    """The maximum number of lines; default: only the tools' own limits."""


class Summaries(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    automatic: bool = True
    """Whether to compact automatically before the context is full."""
    at: Share = 0.85
    """The share of the room at which a compaction is due."""
    keep: Share = 0.25
    """The share of the room for the newest messages, which stay verbatim."""
    model: str = ""
    """The summarising model; default: the session's model."""
    longest: Positive = 4_000
    """The maximum number of tokens of a summary."""


class Checkpoints(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The tool with which the model itself summarises its work."""

    offered: bool = False
    """The model has the tool `close_chapter`."""
    keep_calls: Natural = 2
    """The number of newest calls before it that stay verbatim."""


class Reminders(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Text at the end of one request that never becomes part of the conversation."""

    repetition: bool = True
    """Remind when the same call has the same result several times."""
    last_steps: Natural = 2
    """Remind when this many steps are left, in a run with a limit."""
    todo_every: Natural = 0
    """Steps after which an open to-do list is repeated; 0: never."""


class ContextPolicy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Merged from the defaults, the settings, the agent and the run; the trace lists the differences."""

    window: Window = Window()
    tool_history: ToolHistory = ToolHistory()
    must_keep: MustKeep = MustKeep()
    reasoning: Reasoning = Reasoning()
    results: Results = Results()
    summaries: Summaries = Summaries()
    checkpoints: Checkpoints = Checkpoints()
    reminders: Reminders = Reminders()


def merged(*layers: Rules, places: Sequence[str] = ()) -> ContextPolicy:
    """The defaults, overridden by each layer in turn. `places` names the layers, for errors."""
    policy = check_rules(combined(*layers))
    for less, more in _ORDERED:
        low, high = attrgetter(less, more)(policy)
        if low is not None and high is not None and low >= high:
            origins = origins_of(places, layers)
            raise ConfigurationError(
                f"context.{less} ({low}, from {origins.get(less, 'the defaults')}) must be less than "
                f"context.{more} ({high}, from {origins.get(more, 'the defaults')})"
            )
    return policy


def combined(*layers: Rules) -> Rules:
    """Merges field by field; the later one wins. Lists are replaced, tables merged by name."""
    fields: Rules = {}
    for layer in layers:
        for group, changes in layer.items():
            if not isinstance(changes, dict):
                raise ConfigurationError(f"context.{group} must be a table")
            known = fields.get(group, {})
            joined = {
                name: {**known[name], **value}
                for name, value in changes.items()
                if isinstance(value, dict) and isinstance(known.get(name), dict)
            }
            fields[group] = {**known, **changes, **joined}
    return fields


def origins_of(places: Sequence[str], layers: Sequence[Rules]) -> dict[str, str]:
    """The layer that has set each rule."""
    return {
        f"{group}.{name}": place
        for place, layer in zip(places, layers, strict=False)
        for group, changes in layer.items()
        for name in changes
    }


def rules_in(values: dict[str, Any]) -> Rules:
    """Rules from a format without floats, where a share is a string. Raises as `check_rules` does."""
    policy = check_rules(values, strict=False)
    return {
        group: {name: msgspec.to_builtins(getattr(getattr(policy, group), name)) for name in changes}
        for group, changes in values.items()
    }


def check_rules(fields: dict[str, Any], *, strict: bool = True) -> ContextPolicy:
    """Checks each rule. Raises for an unknown one, or for a value of the wrong type."""
    try:
        return msgspec.convert(fields, ContextPolicy, strict=strict)
    except msgspec.ValidationError:
        raise ConfigurationError(describe_mismatch(fields, ContextPolicy, "context", strict=strict)) from None


_ORDERED = (("window.reserve", "window.tokens"), ("summaries.keep", "summaries.at"))
"""The first of the two must be the lesser one."""
