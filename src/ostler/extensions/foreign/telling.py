"""What an extension is told of a session: the events it subscribed to, as frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ostler.extensions.context import ExtensionContext
from ostler.extensions.foreign import frames
from ostler.extensions.moments import MOMENTS, SessionOpened
from ostler.vocabulary import events
from ostler.vocabulary.event_kinds import snake_case
from ostler.vocabulary.messages import text_of

SUMMARISED: dict[str, tuple[type, ...]] = {
    "session_start": (SessionOpened,),
    "turn_start": (events.StepStarted,),
    "tool_call": (events.ToolCalled,),
    "assistant_message": (events.AssistantMessage,),
    "turn_end": (events.StepEnded, events.AssistantMessage, events.ModelFailed),
}
"""Events with fields of their own beside `data`, and what they are made of."""

_MOMENTS: dict[str, type] = {snake_case(moment.__name__): moment for moment in MOMENTS}
_TAGS: dict[type, str] = {kind: name for name, kind in (*events.EVENT_TYPES.items(), *_MOMENTS.items())}


def types_behind(name: str) -> Iterable[type]:
    """What has to be observed to tell of these events; nothing for a name that does not exist."""
    if name in SUMMARISED:
        return SUMMARISED[name]
    kind = events.EVENT_TYPES.get(name) or _MOMENTS.get(name)
    return (kind,) if kind else ()


def is_live(event: Any) -> bool:
    """Whether it may be left out for an extension that reads too slowly."""
    return isinstance(event, events.Delta | events.LiveEvent)


class Telling:
    """Makes frames of events, by what was subscribed."""

    def __init__(self, extension: str) -> None:
        self._extension = extension
        self.subscribed: set[str] = set()
        self._stops: dict[str, str] = {}
        self._errors: dict[str, str] = {}

    def frames_of(self, event: Any, context: ExtensionContext) -> Iterator[frames.Event]:
        session = context.session_id
        match event:
            case SessionOpened(reason=reason):
                yield from self.session_start(context, reason)
            case events.StepStarted(number=number):
                self._stops[session] = self._errors[session] = ""
                yield from self._of("turn_start", session, event, step=number)
            case events.ToolCalled(call=call, name=name, arguments=arguments, step=step):
                yield from self._of(
                    "tool_call",
                    session,
                    event,
                    step=step,
                    tool_id=call,
                    tool_name=name,
                    tool_args=arguments,
                )
            case events.AssistantMessage(content=content, shown=shown, stop_reason=stop):
                self._stops[session], self._errors[session] = stop, ""
                text = "" if event.suppressed else text_of(content if shown is None else shown)
                yield from self._of("assistant_message", session, event, text=text)
                return
            case events.ModelFailed(failure=failure):
                self._errors[session] = failure.message
            case events.StepEnded(number=number, refused=refused):
                stopped = "refused" if refused else self._stops.pop(session, "")
                error = refused or self._errors.pop(session, "")
                yield from self._of("turn_end", session, event, step=number, stop=stopped, error=error)
            case events.Printed(extension=self._extension):
                return  # it would answer itself for ever
        yield from self._of(_TAGS[type(event)], session, event)

    def session_start(self, context: ExtensionContext, reason: str) -> Iterator[frames.Event]:
        harness = context.session.harness
        started = {
            "session": context.session_id,
            "reason": reason,
            "cwd": str(context.cwd),
            "model": context.model,
            "parent_run": harness.place.parent if harness.place else "",
        }
        yield from self._of("session_start", context.session_id, started)

    def forget(self, session: str) -> None:
        self._stops.pop(session, None)
        self._errors.pop(session, None)

    def _of(self, name: str, session: str, event: Any, **fields: Any) -> Iterator[frames.Event]:
        if name in self.subscribed:
            yield frames.Event(name, session, data=event, **fields)
