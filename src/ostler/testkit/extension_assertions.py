"""What a test says of an extension; when that is wrong, the message says what was there instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import msgspec

from ostler.core.hooks import Handled, InputDraft, Refuse
from ostler.extensions.extension import Registrations
from ostler.extensions.host import ExtensionHost
from ostler.extensions.ui.types import BarView, StatusView, WidgetView
from ostler.schema.events import Event, QuestionAsked, ToolResultFact
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.messages import text_of
from ostler.schema.requests import AnyRequest, Prompt, ReleasePrompts, Steer
from ostler.sessions.session import Session
from ostler.testkit.front_end import FakeFrontEnd

Kind = TypeVar("Kind", bound=BarView | StatusView)


class ExtensionAssertions:
    """What happened, and what must have happened. All of it is about the moment when it is asked."""

    face: FakeFrontEnd
    seen: list[Fact | Event]

    @property
    def session(self) -> Session:
        raise NotImplementedError

    @property
    def host(self) -> ExtensionHost:
        raise NotImplementedError

    @property
    def requests(self) -> list[AnyRequest]:
        raise NotImplementedError

    # --- what happened --------------------------------------------------------------------------------

    @property
    def facts(self) -> list[Event | UnknownEvent]:
        """Those of the session since the test began."""
        return [one.event for one in self.seen if isinstance(one, Fact)]

    def events_since(self, number: int) -> list[Event | UnknownEvent]:
        """All events behind so many of `seen`."""
        return [one.event if isinstance(one, Fact) else one for one in self.seen[number:]]

    @property
    def prints(self) -> list[str]:
        """What was printed, however."""
        return self.face.texts()

    @property
    def infos(self) -> list[str]:
        return self.face.texts("info")

    @property
    def errors(self) -> list[str]:
        return self.face.texts("error")

    @property
    def blocks(self) -> list[str]:
        return self.face.texts("block")

    @property
    def widgets(self) -> dict[str, WidgetView]:
        """By id, in their order."""
        return dict(sorted(self._shown("widget:", WidgetView).items(), key=_place))

    @property
    def status(self) -> dict[str, str]:
        """The texts by key, in their order."""
        shown = sorted(self._shown("status:", StatusView).items(), key=_place)
        return {key: one.text for key, one in shown}

    @property
    def header(self) -> BarView | None:
        return self._bar("header")

    @property
    def footer(self) -> BarView | None:
        return self._bar("footer")

    @property
    def state(self) -> dict[str, Any]:
        """What the extension keeps in the session; of several, by their names."""
        kept = self.session.state.extension_state
        names = list(self.host.extensions)
        return (
            dict(kept.get(names[0], {})) if len(names) == 1 else {name: kept.get(name, {}) for name in names}
        )

    @property
    def questions(self) -> list[QuestionAsked]:
        """What people were asked."""
        return self.face.questions

    @property
    def sent(self) -> list[str]:
        """The prompts that the extension has sent."""
        return [text_of(one.content) for one in self._own_requests() if isinstance(one, Prompt)]

    @property
    def steered(self) -> list[str]:
        """What it said to the model in between."""
        return [text_of(one.content) for one in self._own_requests() if isinstance(one, Steer)]

    @property
    def cancelled_and_sent(self) -> list[str]:
        """The prompts for which it ended what was under way."""
        return [
            text_of(after.content)
            for before, after in pairwise(self._own_requests())
            if isinstance(before, ReleasePrompts) and before.drop and isinstance(after, Prompt)
        ]

    def _own_requests(self) -> list[AnyRequest]:
        return [one for one in self.requests if one.by.startswith("extension ")]

    def _shown(self, prefix: str, kind: type[Kind]) -> dict[str, Kind]:
        values = self.face.values.items()
        return {
            name.partition("/")[2]: msgspec.convert(value, kind)
            for name, value in values
            if name.startswith(prefix)
        }

    def _bar(self, name: str) -> BarView | None:
        value = self.face.values.get(name)
        return None if value is None else msgspec.convert(value, BarView)

    @property
    def registered(self) -> list[Registrations]:
        return [one.registered for one in self.host.loaded]

    # --- calls and prompts ----------------------------------------------------------------------------

    def assert_blocked(self, decided: ToolResultFact | object, reason: str = "") -> None:
        """Of what `tool_call`, or `emit` of a `PlannedCall`, returned: refused, for such a reason."""
        refused = _refusal(decided)
        if refused is None:
            raise AssertionError(f"the call was not refused; it came to {_told(decided)}")
        if reason not in refused:
            raise AssertionError(f"the call was refused because of {refused!r}, not {reason!r}")

    def assert_not_blocked(self, decided: ToolResultFact | object) -> None:
        if (refused := _refusal(decided)) is not None:
            raise AssertionError(f"the call was refused: {refused}")

    def assert_input_handled(self, decided: object, text: str | None = None) -> None:
        """Of what `emit` of an `InputDraft` returned: no model is asked, and this is said instead."""
        if not isinstance(decided, Handled):
            raise AssertionError(f"the input was not dealt with; it came to {_told(decided)}")
        if text is not None and decided.text != text:
            raise AssertionError(f"the input was answered with {decided.text!r}, not {text!r}")

    def assert_input_transformed(self, decided: object, text: str) -> None:
        """Of what `emit` of an `InputDraft` returned: the run begins with this."""
        if not isinstance(decided, InputDraft) or decided.text != text:
            raise AssertionError(f"the input became {_told(decided)}, not {text!r}")

    # --- what is printed and shown --------------------------------------------------------------------

    def assert_printed(self, text: str) -> None:
        _is_among(text, self.prints, "was printed")

    def assert_printed_contains(self, part: str) -> None:
        _is_in_one(part, self.prints, "was printed")

    def assert_printed_info(self, text: str) -> None:
        _is_among(text, self.infos, "was printed as information")

    def assert_printed_error(self, text: str) -> None:
        _is_among(text, self.errors, "was printed as an error")

    def assert_widget(self, id: str) -> None:
        self._widget(id)

    def assert_no_widget(self, id: str) -> None:
        if shown := self.widgets.get(id):
            raise AssertionError(f"there is a widget {id!r}: {_text(shown)!r}")

    def assert_widget_text(self, id: str, text: str) -> None:
        """Its text or its Markdown; what it draws itself is on the face's screen (`await face.screen()`)."""
        if (shown := _text(self._widget(id))) != text:
            raise AssertionError(f"the widget {id!r} shows {shown!r}, not {text!r}")

    def assert_widget_contains(self, id: str, part: str) -> None:
        if part not in (shown := _text(self._widget(id))):
            raise AssertionError(f"the widget {id!r} shows {shown!r}, which does not have {part!r}")

    def _widget(self, id: str) -> WidgetView:
        if id not in self.widgets:
            raise AssertionError(f"there is no widget {id!r}; there are: {_list(self.widgets)}")
        return self.widgets[id]

    def assert_header(self, text: str | None = None) -> None:
        _shows("header", self.header, text)

    def assert_footer(self, text: str | None = None) -> None:
        _shows("footer", self.footer, text)

    def assert_status(self, key: str) -> None:
        if key not in self.status:
            raise AssertionError(f"there is no status {key!r}; there are: {_list(self.status)}")

    def assert_status_text(self, key: str, text: str) -> None:
        self.assert_status(key)
        if self.status[key] != text:
            raise AssertionError(f"the status {key!r} says {self.status[key]!r}, not {text!r}")

    # --- what it registered and asked for -------------------------------------------------------------

    def assert_handles(self, *what: type | str) -> None:
        """Types of events, names of events between extensions, or hook points."""
        handled = self._handled()
        if missing := [one for one in what if one not in handled]:
            names = _list(getattr(one, "__name__", one) for one in handled)
            missed = _list(getattr(one, "__name__", one) for one in missing)
            raise AssertionError(f"nothing handles {missed}; it handles: {names}")

    def assert_does_not_handle(self, *what: type | str) -> None:
        if there := [one for one in what if one in self._handled()]:
            raise AssertionError(f"it handles {_list(getattr(one, '__name__', one) for one in there)}")

    def _handled(self) -> list[type | str]:
        handled: dict[type | str, None] = {}
        for registered in self.registered:
            hooks = [hook.point for hook in registered.hooks]
            handled |= dict.fromkeys([*hooks, *registered.observers, *registered.custom])
        return list(handled)

    def assert_tool(self, name: str) -> None:
        tools = [name for one in self.registered for name in one.tools]
        _is_registered("tool", name, tools)

    def assert_command(self, name: str) -> None:
        _is_registered("command", name.removeprefix("/"), list(self.host.commands()))

    def assert_sent(self, text: str) -> None:
        _is_among(text, self.sent, "was sent")

    def assert_cancelled_and_sent(self, text: str) -> None:
        _is_among(text, self.cancelled_and_sent, "was sent after a cancel")


def _place(item: tuple[str, WidgetView | StatusView]) -> tuple[int, int]:
    return item[1].priority, item[1].order


def _refusal(decided: object) -> str | None:
    """Why a call was refused; None if it was not."""
    if isinstance(decided, Refuse):
        return decided.reason
    if isinstance(decided, ToolResultFact) and decided.failed == "call_refused":
        return text_of(decided.content)
    return None


def _told(decided: object) -> str:
    if isinstance(decided, ToolResultFact):
        return repr(text_of(decided.content))
    if isinstance(decided, InputDraft):
        return repr(decided.text)
    return "nothing" if decided is None else repr(decided)


def _text(shown: BarView) -> str:
    return shown.text or shown.markdown


def _list(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names)) or "none"


def _is_among(text: str, there: Sequence[str], what: str) -> None:
    if text not in there:
        raise AssertionError(f"{text!r} is not what {what}; that is: {_list(map(repr, there))}")


def _is_in_one(part: str, there: Sequence[str], what: str) -> None:
    if not any(part in one for one in there):
        raise AssertionError(f"{part!r} is in nothing that {what}; that is: {_list(map(repr, there))}")


def _is_registered(what: str, name: str, there: Sequence[str]) -> None:
    if name not in there:
        raise AssertionError(f"there is no {what} {name!r}; there are: {_list(there)}")


def _shows(where: str, shown: BarView | None, text: str | None) -> None:
    if shown is None:
        raise AssertionError(f"there is no {where}")
    if text is not None and _text(shown) != text:
        raise AssertionError(f"the {where} shows {_text(shown)!r}, not {text!r}")
