"""The policy: every rule about what a model is told, in one object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from ostler.core.validation import describe_mismatch
from ostler.schema.errors import ConfigurationError

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
Positive = Annotated[int, msgspec.Meta(gt=0)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
ResultMode = Literal["full", "cut", "dropped"]
Rules = dict[str, dict[str, Any]]
"""Some of the policy, as it is written down: `{"window": {"tokens": 60000}}`."""


class Window(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How much there is room for."""

    tokens: Positive | None = None
    """All that is sent and answered; by default the model's own window."""
    reserve: Positive | None = None
    """Kept free for the answer; by default the model's longest answer, at most 16,384 and half of all."""


class ToolHistory(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What becomes of calls of earlier runs. Those of the present run are told in full while there is room.

    A call and its result are always told together, or not at all.
    """

    results: ResultMode = "full"
    """Told in full, cut to their ends, or left out with their calls."""
    keep_runs: Natural = 1
    """Of the runs before the present one, this many are told in full."""
    keep_calls: Natural = 0
    """And so are this many calls before those, the newest first."""
    by_tool: dict[str, ResultMode] = {}
    """For tools of that name, in place of `results`."""
    cut_to: Positive = 200
    """Tokens that are left of a result that is cut: its beginning and its end."""


class MustKeep(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is never left out nor cut for want of room."""

    last_prompt: bool = True
    """The prompt of the present run, and what was said while it was under way."""
    first_prompt: bool = False
    """That of the session's first run, as long as it is not compacted."""
    tools: tuple[str, ...] = ()
    """Calls of these tools, with their results."""


class Reasoning(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    keep: Natural | None = None
    """The newest answers whose reasoning is told; by default all, as vendors want their own data back."""


class Results(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is told of a result at first: its beginning and its end. The whole is kept, and can be read."""

    characters: Positive = 51_200
    """More than that is cut in the middle."""
    lines: Positive | None = None
    """More than so many are, too; by default only what the tools bound themselves."""


class Summaries(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    automatic: bool = True
    """Compacted by itself, before it would be too much."""
    at: Share = 0.85
    """The share of the room at which a compaction is due."""
    keep: Share = 0.25
    """The share of the room that the newest messages keep, word for word."""
    model: str = ""
    """Who writes them; by default the model at work."""
    longest: Positive = 4_000
    """Tokens that a summary may have."""


class Checkpoints(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The tool by which the model itself closes a chapter."""

    offered: bool = False
    """The model has the tool `close_chapter`."""
    keep_calls: Natural = 2
    """The newest calls before it that stay word for word."""


class Reminders(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Said to the model at the end of one request, and never part of the conversation."""

    repetition: bool = True
    """Said when the same call had the same result several times."""
    last_steps: Natural = 2
    """Said when so many steps are left, of a run that has a limit."""
    todo_every: Natural = 0
    """Steps after which an open to-do list is shown again; 0: never."""


class ContextPolicy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Merged from the defaults, the settings, the agent's and the run's; the trace names what differs."""

    window: Window = Window()
    tool_history: ToolHistory = ToolHistory()
    must_keep: MustKeep = MustKeep()
    reasoning: Reasoning = Reasoning()
    results: Results = Results()
    summaries: Summaries = Summaries()
    checkpoints: Checkpoints = Checkpoints()
    reminders: Reminders = Reminders()


def merged(*layers: Rules, places: Sequence[str] = ()) -> ContextPolicy:
    """The defaults, changed by each layer in turn. `places` say where each is from, if it must be said."""
    policy = check_rules(combined(*layers))
    for less, more in _ORDERED:
        low, high = _value(policy, less), _value(policy, more)
        if low is not None and high is not None and low >= high:
            origins = origins_of(places, layers)
            raise ConfigurationError(
                f"context.{less} ({low}, from {origins.get(less, 'the defaults')}) must be less than "
                f"context.{more} ({high}, from {origins.get(more, 'the defaults')})"
            )
    return policy


def combined(*layers: Rules) -> Rules:
    """Field by field, the later one wins: lists in whole, tables name by name."""
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
    """Which of the layers has set each rule at last."""
    return {
        f"{group}.{name}": place
        for place, layer in zip(places, layers, strict=False)
        for group, changes in layer.items()
        for name in changes
    }


def rules_in(values: dict[str, Any]) -> Rules:
    """Rules from a text without types, where a share is a text as well. Raises as `check_rules` does."""
    policy = check_rules(values, strict=False)
    return {
        group: {name: msgspec.to_builtins(getattr(getattr(policy, group), name)) for name in changes}
        for group, changes in values.items()
    }


def check_rules(fields: dict[str, Any], *, strict: bool = True) -> ContextPolicy:
    """Each rule by itself. Raises for one that there is not, or that has a value of the wrong kind."""
    try:
        return msgspec.convert(fields, ContextPolicy, strict=strict)
    except msgspec.ValidationError:
        raise ConfigurationError(describe_mismatch(fields, ContextPolicy, "context", strict=strict)) from None


_ORDERED = (("window.reserve", "window.tokens"), ("summaries.keep", "summaries.at"))
"""The first of the two must be the lesser one."""


def _value(policy: ContextPolicy, rule: str) -> float | None:
    group, _, name = rule.partition(".")
    value: float | None = getattr(getattr(policy, group), name)
    return value
