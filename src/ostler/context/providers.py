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
"""After the system prompt; before the current run's prompt; or at the end, if it changes often."""

_KIND = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class ProviderRequest(msgspec.Struct, frozen=True):
    """What a context provider gets to decide on its text."""

    session: str
    run: str
    model: str
    room: int
    """The maximum number of tokens."""


Content = str | None
Source = Callable[[ProviderRequest], Content | Awaitable[Content]]


class ContextProvider(msgspec.Struct, frozen=True):
    """A kind of injected context. Without content, nothing is injected, not even its tag."""

    kind: str
    source: Source
    placement: Placement = "prompt"
    priority: int = 0
    """A higher priority comes first, and is dropped last."""
    share: float = 0.25
    """The share of the room that it may use; longer text is cut at the end."""
    must_keep: bool = False
    """It may be cut, but not dropped, if there is too little room."""

    def __post_init__(self) -> None:
        if not _KIND.fullmatch(self.kind):
            raise UsageError(f"a context provider's kind looks like `open-files`, not {self.kind!r}")
        if not 0 < self.share <= 1:
            problem = f"has the share {self.share}: use above 0, at most 1"
            raise UsageError(f"the context provider {self.kind!r} {problem}")


class ProviderText(msgspec.Struct, frozen=True):
    """A context provider with its text, as the model gets it."""

    provider: ContextProvider
    text: str
    tokens: int
    is_cut: bool


def in_order(providers: Iterable[ContextProvider]) -> tuple[ContextProvider, ...]:
    """Sorts by priority; raises for two of one kind."""
    ordered = tuple(sorted(providers, key=lambda provider: (-provider.priority, provider.kind)))
    kinds = [provider.kind for provider in ordered]
    if twice := next((kind for kind in kinds if kinds.count(kind) > 1), ""):
        raise UsageError(f"there are two context providers of the kind {twice!r}")
    return ordered


async def provider_texts(
    provider: ContextProvider, request: ProviderRequest, count: Callable[[str], int]
) -> ProviderText | None:
    """The provider's text in its tags, cut to its share; None if there is none."""
    content = provider.source(request)
    if inspect.isawaitable(content):
        content = await content
    if not content or not content.strip():
        return None
    text, is_cut = content, False
    tokens = count(_tagged(provider.kind, text))
    while tokens > request.room and len(text) > 1:
        is_cut = True
        text = text[: min(len(text) - 1, len(text) * request.room // tokens)]
        tokens = count(_tagged(provider.kind, f"{text}\n[cut]"))
    tagged = _tagged(provider.kind, f"{text}\n[cut]" if is_cut else text)
    return ProviderText(provider, tagged, tokens, is_cut)


def within_limit(texts: list[ProviderText], room: int) -> list[ProviderText]:
    """The texts that fit: the lowest priority is dropped first, unless it is required."""
    texts = list(texts)
    while sum(one.tokens for one in texts) > room:
        weakest = next((one for one in reversed(texts) if not one.provider.must_keep), None)
        if weakest is None:
            break
        texts.remove(weakest)
    return texts


def _tagged(kind: str, text: str) -> str:
    return f"<{kind}>\n{text}\n</{kind}>"


def as_message(texts: Iterable[ProviderText]) -> tuple[Message, ...]:
    """One message with all of them, if there are any."""
    text = "\n\n".join(one.text for one in texts)
    return (Message("user", (Text(text),)),) if text else ()


Rule = Callable[[SessionState], str | None]
"""A host's own reminder: its text for this request, or nothing. It must not have side effects."""


class Reminder(msgspec.Struct, frozen=True):
    rule: str
    text: str


def due_reminders(state: SessionState, policy: Reminders, own: dict[str, Rule]) -> Iterator[Reminder]:
    """The reminders that are due, in a fixed order."""
    run = state.run
    if run is None:
        return
    if policy.repetition and (text := repetition(run)):
        yield Reminder("repetition", text)
    limit = run.started.limits.steps
    if policy.last_steps and limit is not None and 0 < (left := limit - run.steps + 1) <= policy.last_steps:
        steps = "This is the last step" if left == 1 else f"{left} steps are left, including this one"
        yield Reminder("last_steps", f"{steps}: finish, and report what is not done.")
    items = state.todo.get("main", ())
    is_open = any(item.status in ("open", "active") for item in items)
    if policy.todo_every and is_open and run.steps % policy.todo_every == 0:
        rows = "\n".join(f"- {item.text} ({item.status})" for item in items)
        yield Reminder("todo", f"Your to-do list:\n{rows}")
    for name, rule in own.items():
        try:
            text = rule(state)
        except Exception as error:  # a host's own code: the run continues without it
            text = f"(the reminder {name} failed: {type(error).__name__})"
        if text:
            yield Reminder(name, text)


def as_reminder_message(reminders: list[Reminder]) -> tuple[Message, ...]:
    """One message with all of them, if there are any."""
    if not reminders:
        return ()
    lines = "\n".join(f"- {one.text}" for one in reminders)
    return (Message("user", (Text(f"<system-reminder>\n{lines}\n</system-reminder>"),)),)
