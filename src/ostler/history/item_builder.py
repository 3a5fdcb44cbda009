"""The one projection of events to transcript items: facts and live events in, changes of items out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.core.lazy import lazy_module
from ostler.history.answer_items import AnswerItems
from ostler.history.call_items import CallItems, shell_item
from ostler.history.item_store import ItemStore
from ostler.history.items import (
    Change,
    ExtensionItem,
    Grown,
    Item,
    PrintedItem,
    RunEndItem,
    SummaryItem,
    TodoListItem,
    UserItem,
)
from ostler.schema import events
from ostler.schema.events import EVENT_TYPES, Event
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.messages import text_of

if TYPE_CHECKING:
    from ostler.sessions import inbox
else:
    inbox = lazy_module("ostler.sessions.inbox")


NOT_SHOWN: dict[str, str] = {
    "session_renamed": "a title is shown with the session, not in its transcript",
    "extension_state": "only its extension reads it",
    "prompts_released": "the prompts themselves follow",
    "step_started": "its calls and messages are shown",
    "usage": "sums are shown at the end of the run",
    "run_resumed": "what follows is shown",
    "audited": "`ostler audit` shows it",
    "live_value": "state of a status row, a widget or a screen",
    "caught_up": "it is about the stream",
    "session_listed": "it is about the list of sessions",
}
"""The types of events that make and change no item, and why."""


class ItemBuilder:
    """Applies events to the items of one session.

    With `keep="open"` it forgets closed items, so a long session takes no more memory than a short one. It
    then ignores branches and labels, and the only closed item that can change is the last message of a
    terminal agent.
    """

    def __init__(
        self, keep: Literal["all", "open"] = "all", now: Callable[[], float] = time.monotonic
    ) -> None:
        self.session = ""
        self._store = ItemStore(keeps_all=keep == "all")
        self._calls = CallItems(self._store)
        self._answers = AnswerItems(self._store, self._calls, now)
        self._settings = {"model": "", "reasoning": ""}
        self._printed = 0
        self.handlers: dict[type, Callable[[Any, Fact | None], None]] = {UnknownEvent: self._unknown}
        """By type of event: the methods `on_<tag>` of this object and its parts."""
        for part in (self, self._answers, self._calls):
            for tag, event_type in EVENT_TYPES.items():
                if handler := getattr(part, f"on_{tag}", None):
                    self.handlers[event_type] = handler

    @property
    def model(self) -> str:
        """The model that was called last."""
        return self._answers.model

    # --- reading --------------------------------------------------------------------------------------

    def items(self, *, all_branches: bool = False) -> list[Item]:
        """The items on the path to the leaf, or all, in the order in which they first appeared."""
        return self._store.items(all_branches=all_branches)

    def open_items(self) -> list[Item]:
        return [record.item() for record in self._store.records()]

    def items_at(self, seq: int) -> list[Item]:
        """The items that a fact made or changed: a message, a call, its result."""
        return self._store.items_at(seq)

    # --- applying -------------------------------------------------------------------------------------

    def apply(self, batch: Iterable[Fact | Event]) -> list[Change]:
        changes: list[Change] = []
        self._store.changes = changes
        answers = self._answers
        event: Any
        for event in batch:
            growing = answers.growing
            if (
                growing is not None
                and type(event) is growing.delta
                and event.offset == growing.length
                and event.block == growing.block
                and event.message == growing.message
            ):
                text = event.text
                growing.append(text)
                changes.append(Grown(growing.key, "text", text))
            elif isinstance(event, Fact):
                self._apply_fact(event)
            elif (handler := self.handlers.get(type(event))) is not None:
                handler(event, None)
        return changes

    def _apply_fact(self, fact: Fact) -> None:
        if fact.type in NOT_SHOWN:
            return
        if fact.parent is not None:
            self._store.append_entry(fact.seq, fact.parent)
        self.session = fact.session
        event = fact.event
        if (handler := self.handlers.get(type(event))) is not None:
            handler(event, fact)

    # --- messages to the model ------------------------------------------------------------------------

    def on_user_message(self, event: events.UserMessage, fact: Fact | None) -> None:
        about: dict[str, Any] = {"source": event.source, "request": event.request, "hidden": event.hidden}
        self._store.close(UserItem(**self._store.base(fact), content=event.content, **about))

    def on_delivered(self, event: events.Delivered, fact: Fact | None) -> None:
        for item in self._store.items_at(event.message):
            if isinstance(item, UserItem):
                self._store.change(msgspec.structs.replace(item, delivered=True))

    def on_compacted(self, event: events.Compacted, fact: Fact | None) -> None:
        before, after = event.tokens_before, event.tokens_after
        base = self._store.base(fact)
        self._store.close(SummaryItem(**base, text=event.summary, tokens_before=before, tokens_after=after))

    def on_branch_collapsed(self, event: events.BranchCollapsed, fact: Fact | None) -> None:
        self._store.close(SummaryItem(**self._store.base(fact), source="branch", text=event.summary))

    def on_history_replaced(self, event: events.HistoryReplaced, fact: Fact | None) -> None:
        text = f"The model receives {len(event.messages)} messages instead of the earlier ones."
        self._store.close(SummaryItem(**self._store.base(fact), source="history", text=text))

    def on_compaction_undone(self, event: events.CompactionUndone, fact: Fact | None) -> None:
        for item in self._store.items_at(event.compaction):
            if isinstance(item, SummaryItem):
                self._store.change(msgspec.structs.replace(item, undone=True))
        text = "The model receives the earlier messages again."
        self._store.notice("compaction_undone", text, fact, "info", {"compaction": event.compaction})

    def on_todo_updated(self, event: events.TodoUpdated, fact: Fact | None) -> None:
        self._store.close(TodoListItem(**self._store.base(fact), list=event.list, items=event.items))

    # --- runs -----------------------------------------------------------------------------------------

    def on_run_started(self, event: events.RunStarted, fact: Fact | None) -> None:
        self._settings["model"] = event.model or self._settings["model"]

    def on_step_ended(self, event: events.StepEnded, fact: Fact | None) -> None:
        if event.refused:
            self._store.notice("step_refused", f"the step was refused: {event.refused}", fact, "warning")

    def on_run_waiting(self, event: events.RunWaiting, fact: Fact | None) -> None:
        details = {"reason": event.reason}
        self._store.notice("waiting", f"the run waits: {event.reason}", fact, details=details)

    def on_run_ended(self, event: events.RunEnded, fact: Fact | None) -> None:
        self._answers.abandon()
        self._calls.abandon()
        about: dict[str, Any] = {"status": event.status, "reason": event.reason, "failure": event.failure}
        base = self._store.base(fact)
        self._store.close(RunEndItem(**base, **about, own=event.own, children=event.children))

    # --- the session ----------------------------------------------------------------------------------

    def on_session_started(self, event: events.SessionStarted, fact: Fact | None) -> None:
        self._answers.driver = event.driver

    def on_labelled(self, event: events.Labelled, fact: Fact | None) -> None:
        for item in self._store.items_at(event.entry):
            if item.seq == event.entry:
                self._store.change(msgspec.structs.replace(item, label=event.label))

    def on_leaf_moved(self, event: events.LeafMoved, fact: Fact | None) -> None:
        self._store.move_leaf(event.to)

    def on_settings_changed(self, event: events.SettingsChanged, fact: Fact | None) -> None:
        new = {"model": event.model, "reasoning": event.reasoning}
        changed = {name: value for name, value in new.items() if value and value != self._settings[name]}
        self._settings |= changed
        if event.permissions:
            changed["permissions"] = event.permissions
        if changed:
            text = ", ".join([f"{name} {value}" for name, value in changed.items()])
            self._store.notice("settings", text, fact)

    def on_request_refused(self, event: events.RequestRefused, fact: Fact | None) -> None:
        if event.reason != inbox.TAKEN_BACK:  # the person who did that knows
            self._store.notice("request_refused", event.reason, fact, "warning", request=event.request)

    def on_prompts_held(self, event: events.PromptsHeld, fact: Fact | None) -> None:
        text = f"prompts wait until you send a message: {event.reason}"
        self._store.notice("prompts_held", text, fact, "warning")

    def on_permission_remembered(self, event: events.PermissionRemembered, fact: Fact | None) -> None:
        details = {"effect": event.effect, "rule": event.rule, "scope": event.scope}
        text = f"{event.effect} {event.rule} ({event.scope})"
        self._store.notice("permission", text, fact, details=details)

    def on_warned(self, event: events.Warned, fact: Fact | None) -> None:
        self._store.notice("warned", event.text, fact, "warning", {"about": event.about})

    def on_store_failed(self, event: events.StoreFailed, fact: Fact | None) -> None:
        self._store.notice("store_failed", event.failure.message, fact, "error")

    def on_stream_incomplete(self, event: events.StreamIncomplete, fact: Fact | None) -> None:
        self._store.notice("stream_incomplete", event.reason, fact, "warning")

    def _unknown(self, event: UnknownEvent, fact: Fact | None) -> None:
        if fact is not None and fact.parent is not None:
            self._store.notice("unknown", f"{event.type}, written by a newer version", fact)

    # --- extensions -----------------------------------------------------------------------------------

    def on_extension_entry(self, event: events.ExtensionEntry, fact: Fact | None) -> None:
        base = self._store.base(fact)
        if (call := shell_item(event, base)) is not None:
            self._store.close(call)
            return
        about: dict[str, Any] = {"extension": event.extension, "name": event.name, "data": event.data}
        self._store.close(ExtensionItem(**base, **about, text=text_of(event.told)))

    def on_command_ran(self, event: events.CommandRan, fact: Fact | None) -> None:
        command = f"/{event.name} {event.arguments}".strip()
        about: dict[str, Any] = {"extension": event.extension, "name": event.name, "failed": event.failed}
        self._store.close(ExtensionItem(**self._store.base(fact), **about, command=command, text=event.text))

    def on_printed(self, event: events.Printed, fact: Fact | None) -> None:
        self._printed += 1
        base = self._store.base(fact, f"printed:{self._printed}")
        self._store.close(PrintedItem(**base, printed=event))


def items_of(facts: Sequence[Fact], *, all_branches: bool = False) -> list[Item]:
    """The items of a stored session: those on the path to its leaf, or all."""
    builder = ItemBuilder()
    builder.apply(facts)
    return builder.items(all_branches=all_branches)
