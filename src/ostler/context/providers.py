"""Context providers: text that a host or an extension adds to the context; and one-request reminders."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Literal

import msgspec

from ostler.context.policy import Reminders
from ostler.core.run_state import reminder as repetition
from ostler.core.state import SessionState
from ostler.schema.errors import UsageError
from ostler.schema.messages import Message, Text

Placement = Literal["system", "prompt", "end"]
"""Behind the system prompt; before the present run's prompt; or after everything, if it changes often."""


_KIND = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class ProviderRequest(msgspec.Struct, frozen=True):
    """What a fence may look at."""

    session: str
    run: str
    model: str
    room: int
    """Tokens that it may have."""


Content = str | None

Source = Callable[[ProviderRequest], Content | Awaitable[Content]]


class ContextProvider(msgspec.Struct, frozen=True):
    """A kind of injected context. Nothing is told, and no tag is left, when it has no content."""

    kind: str
    source: Source
    placement: Placement = "prompt"
    priority: int = 0
    """The higher one is told first, and is the last to be left out."""
    share: float = 0.25
    """Of the room; what is longer is cut at the end."""
    must_keep: bool = False
    """It is not left out for want of room, only cut."""

    def __post_init__(self) -> None:
        if not _KIND.fullmatch(self.kind):
            raise UsageError(f"a fence's kind is like `open-files`, not {self.kind!r}")
        if not 0 < self.share <= 1:
            raise UsageError(
                f"the fence {self.kind!r} has a share of {self.share}: it must be above 0, at most 1"
            )


class ProviderText(msgspec.Struct, frozen=True):
    """A fence with its content, as it is told."""

    fence: ContextProvider
    text: str
    tokens: int
    is_cut: bool


def in_order(fences: Iterable[ContextProvider]) -> tuple[ContextProvider, ...]:
    """By priority; refuses two of a kind."""
    ordered = tuple(sorted(fences, key=lambda fence: (-fence.priority, fence.kind)))
    kinds = [fence.kind for fence in ordered]
    if twice := next((kind for kind in kinds if kinds.count(kind) > 1), ""):
        raise UsageError(f"there are two fences of the kind {twice!r}")
    return ordered


async def provider_texts(
    fence: ContextProvider, request: ProviderRequest, count: Callable[[str], int]
) -> ProviderText | None:
    """The fence's content in its tags, cut to its share; None when there is none."""
    content = fence.source(request)
    if inspect.isawaitable(content):
        content = await content
    if not content or not content.strip():
        return None
    text, is_cut = content, False
    tokens = count(_tagged(fence.kind, text))
    while tokens > request.room and len(text) > 1:
        is_cut = True
        text = text[: min(len(text) - 1, len(text) * request.room // tokens)]
        tokens = count(_tagged(fence.kind, f"{text}\n[cut]"))
    told = _tagged(fence.kind, f"{text}\n[cut]" if is_cut else text)
    return ProviderText(fence, told, tokens, is_cut)


def within_limit(found: list[ProviderText], room: int) -> list[ProviderText]:
    """Those that there is room for: the weakest is left out first, unless it must be kept."""
    told = list(found)
    while sum(one.tokens for one in told) > room:
        weakest = next((one for one in reversed(told) if not one.fence.must_keep), None)
        if weakest is None:
            break
        told.remove(weakest)
    return told


def _tagged(kind: str, text: str) -> str:
    return f"<{kind}>\n{text}\n</{kind}>"


def as_message(fenced_ones: Iterable[ProviderText]) -> tuple[Message, ...]:
    """One message for all of them, if there are any."""
    text = "\n\n".join(one.text for one in fenced_ones)
    return (Message("user", (Text(text),)),) if text else ()


Rule = Callable[[SessionState], str | None]
"""A host's own: what to say now, or nothing. It must not change anything."""


class Reminder(msgspec.Struct, frozen=True):
    rule: str
    text: str


def due_reminders(state: SessionState, policy: Reminders, own: dict[str, Rule]) -> Iterator[Reminder]:
    """Those whose time is now, in a fixed order."""
    run = state.run
    if run is None:
        return
    if policy.repetition and (text := repetition(run)):
        yield Reminder("repetition", text)
    limit = run.started.limits.steps
    if policy.last_steps and limit is not None and 0 < (left := limit - run.steps + 1) <= policy.last_steps:
        steps = "This is the last step" if left == 1 else f"{left} steps are left, with this one"
        yield Reminder("last_steps", f"{steps}: come to an end, and say what is not done.")
    items = state.todo.get("main", ())
    is_open = any(item.status in ("open", "active") for item in items)
    if policy.todo_every and is_open and run.steps % policy.todo_every == 0:
        rows = "\n".join(f"- {item.text} ({item.status})" for item in items)
        yield Reminder("todo", f"Your to-do list:\n{rows}")
    for name, rule in own.items():
        try:
            said = rule(state)
        except Exception as error:  # a host's own code: nothing is said then, but that it failed
            said = f"(the reminder {name} failed: {type(error).__name__})"
        if said:
            yield Reminder(name, said)


def as_text(reminders: list[Reminder]) -> str:
    lines = "\n".join(f"- {one.text}" for one in reminders)
    return f"<system-reminder>\n{lines}\n</system-reminder>"
