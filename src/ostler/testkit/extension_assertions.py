"""Assertions about an extension under test; the message of a failed one says what was there instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

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

_NOT_OPEN = "use it as `async with ExtensionTest(…) as test:`"


class ExtensionAssertions:
    """The state of an extension's session at this moment, and assertions about it."""

    face: FakeFrontEnd
    seen: list[Fact | Event]
    """All that happened in the session: facts, deltas and live values."""
    requests: list[AnyRequest]
    """The requests to all sessions, in order."""
    _session: Session | None = None
    _host: ExtensionHost | None = None

    @property
    def session(self) -> Session:
        if self._session is None:
            raise RuntimeError(_NOT_OPEN)
        return self._session

    @property
    def host(self) -> ExtensionHost:
        if self._host is None:
            raise RuntimeError(_NOT_OPEN)
        return self._host

    # --- what happened --------------------------------------------------------------------------------

    @property
    def facts(self) -> list[Event | UnknownEvent]:
        """The events of all facts since the test began."""
        return [fact.event for fact in self.seen if isinstance(fact, Fact)]

    @property
    def prints(self) -> list[str]:
        """All printed texts, of any level."""
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
        return dict(self.face.views("widget:", WidgetView))

    @property
    def status(self) -> dict[str, str]:
        """The texts by key, in their order."""
        return {key: view.text for key, view in self.face.views("status:", StatusView)}

    @property
    def header(self) -> BarView | None:
        return self.face.bar("header")

    @property
    def footer(self) -> BarView | None:
        return self.face.bar("footer")

    @property
    def state(self) -> dict[str, Any]:
        """The extension's state in the session; of several extensions, by their names."""
        stored = self.session.state.extension_state
        states = {name: dict(stored.get(name, {})) for name in self.host.extensions}
        return next(iter(states.values())) if len(states) == 1 else states

    @property
    def questions(self) -> list[QuestionAsked]:
        return self.face.questions

    @property
    def sent(self) -> list[str]:
        """The prompts that the extension has sent."""
        return [text_of(request.content) for request in self._own_requests() if isinstance(request, Prompt)]

    @property
    def steered(self) -> list[str]:
        """The steers that the extension has sent."""
        return [text_of(request.content) for request in self._own_requests() if isinstance(request, Steer)]

    @property
    def cancelled_and_sent(self) -> list[str]:
        """The prompts for which it cancelled a run."""
        return [
            text_of(after.content)
            for before, after in pairwise(self._own_requests())
            if isinstance(before, ReleasePrompts) and before.drop and isinstance(after, Prompt)
        ]

    def _own_requests(self) -> list[AnyRequest]:
        return [request for request in self.requests if request.by.startswith("extension ")]

    @property
    def registered(self) -> list[Registrations]:
        return [extension.registered for extension in self.host.loaded]

    # --- calls and prompts ----------------------------------------------------------------------------

    def assert_blocked(self, result: ToolResultFact | object, reason: str = "") -> None:
        """`result`, of `tool_call` or of `emit` with a `PlannedCall`, is a refusal for this reason."""
        refusal = _refusal(result)
        if refusal is None:
            raise AssertionError(f"the call was not refused; its result is {_describe(result)}")
        if reason not in refusal:
            raise AssertionError(f"the call was refused because of {refusal!r}, not {reason!r}")

    def assert_not_blocked(self, result: ToolResultFact | object) -> None:
        if (refusal := _refusal(result)) is not None:
            raise AssertionError(f"the call was refused: {refusal}")

    def assert_input_handled(self, result: object, text: str | None = None) -> None:
        """`result`, of `emit` with an `InputDraft`, answers with this text instead of starting a run."""
        if not isinstance(result, Handled):
            raise AssertionError(f"the input was not handled; its result is {_describe(result)}")
        if text is not None and result.text != text:
            raise AssertionError(f"the input was answered with {result.text!r}, not {text!r}")

    def assert_input_transformed(self, result: object, text: str) -> None:
        """`result`, of `emit` with an `InputDraft`, starts the run with this text."""
        if not isinstance(result, InputDraft) or result.text != text:
            raise AssertionError(f"the input became {_describe(result)}, not {text!r}")

    # --- output and screen ----------------------------------------------------------------------------

    def assert_printed(self, text: str) -> None:
        _is_among(text, self.prints, "printed")

    def assert_printed_contains(self, part: str) -> None:
        if not any(part in text for text in self.prints):
            raise AssertionError(
                f"{part!r} was not printed; these texts were: {_list(map(repr, self.prints))}"
            )

    def assert_printed_info(self, text: str) -> None:
        _is_among(text, self.infos, "printed as information")

    def assert_printed_error(self, text: str) -> None:
        _is_among(text, self.errors, "printed as an error")

    def assert_widget(self, id: str) -> None:
        self._widget(id)

    def assert_no_widget(self, id: str) -> None:
        if widget := self.widgets.get(id):
            raise AssertionError(f"there is a widget {id!r}: {_text(widget)!r}")

    def assert_widget_text(self, id: str, text: str) -> None:
        """Its text or its Markdown; what it draws itself is in `await face.screen()`."""
        if (current := _text(self._widget(id))) != text:
            raise AssertionError(f"the widget {id!r} shows {current!r}, not {text!r}")

    def assert_widget_contains(self, id: str, part: str) -> None:
        if part not in (text := _text(self._widget(id))):
            raise AssertionError(f"the widget {id!r} shows {text!r}, which does not contain {part!r}")

    def _widget(self, id: str) -> WidgetView:
        _is_present("widget", id, list(self.widgets))
        return self.widgets[id]

    def assert_header(self, text: str | None = None) -> None:
        _shows("header", self.header, text)

    def assert_footer(self, text: str | None = None) -> None:
        _shows("footer", self.footer, text)

    def assert_status(self, key: str) -> None:
        _is_present("status", key, list(self.status))

    def assert_status_text(self, key: str, text: str) -> None:
        self.assert_status(key)
        if self.status[key] != text:
            raise AssertionError(f"the status {key!r} says {self.status[key]!r}, not {text!r}")

    # --- registrations and requests -------------------------------------------------------------------

    def assert_handles(self, *what: type | str) -> None:
        """Types of events, names of events between extensions, or hook points."""
        handled = self._handled()
        if missing := [event for event in what if event not in handled]:
            raise AssertionError(f"nothing handles {_list(missing)}; it handles: {_list(handled)}")

    def assert_does_not_handle(self, *what: type | str) -> None:
        handled = self._handled()
        if present := [event for event in what if event in handled]:
            raise AssertionError(f"it handles {_list(present)}")

    def _handled(self) -> list[type | str]:
        handled: list[type | str] = []
        for registered in self.registered:
            hooks = [hook.point for hook in registered.hooks]
            handled += [*hooks, *registered.observers, *registered.custom]
        return list(dict.fromkeys(handled))

    def assert_tool(self, name: str) -> None:
        _is_present("tool", name, [name for registered in self.registered for name in registered.tools])

    def assert_command(self, name: str) -> None:
        _is_present("command", name.removeprefix("/"), list(self.host.commands()))

    def assert_sent(self, text: str) -> None:
        _is_among(text, self.sent, "sent")

    def assert_cancelled_and_sent(self, text: str) -> None:
        _is_among(text, self.cancelled_and_sent, "sent after a cancel")


def _refusal(result: object) -> str | None:
    """Why a call was refused; None if it was not."""
    if isinstance(result, Refuse):
        return result.reason
    if isinstance(result, ToolResultFact) and result.failed == "call_refused":
        return text_of(result.content)
    return None


def _describe(result: object) -> str:
    if isinstance(result, ToolResultFact):
        return repr(text_of(result.content))
    if isinstance(result, InputDraft):
        return repr(result.text)
    return "nothing" if result is None else repr(result)


def _text(view: BarView) -> str:
    return view.text or view.markdown


def _list(names: Iterable[Any]) -> str:
    return ", ".join(str(getattr(name, "__name__", name)) for name in names) or "none"


def _is_among(text: str, texts: Sequence[str], what: str) -> None:
    if text not in texts:
        raise AssertionError(f"{text!r} was not {what}; these texts were: {_list(map(repr, texts))}")


def _is_present(what: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise AssertionError(f"there is no {what} {name!r}; there are: {_list(names)}")


def _shows(bar: str, view: BarView | None, text: str | None) -> None:
    if view is None:
        raise AssertionError(f"there is no {bar}")
    if text is not None and _text(view) != text:
        raise AssertionError(f"the {bar} shows {_text(view)!r}, not {text!r}")
