"""Translates between a session and protocol frames: events, hook questions, tools and panels."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from ostler.core.hooks import DraftMessage, PlannedCall, Point, Refuse, Replace, Rewrite, StepPlan, Suppress
from ostler.core.json_schema import schema_error, schema_problem
from ostler.core.tool import ToolContext, ToolSpec
from ostler.extensions.executor import ExtensionError
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.extension_session import LIFECYCLE_EVENTS, SessionOpened
from ostler.extensions.protocol import frames
from ostler.extensions.protocol.client import Client
from ostler.extensions.protocol.frames import Intercepted
from ostler.schema import events
from ostler.schema.errors import InvalidArguments, ToolFailed, UsageError
from ostler.schema.live_events import snake_case
from ostler.schema.messages import Image, PlainBlock, Text, text_of
from ostler.schema.outcomes import Failed, Ok, Outcome
from ostler.tools.media import image_type

SUMMARISED: dict[str, tuple[type, ...]] = {
    "session_start": (SessionOpened,),
    "turn_start": (events.StepStarted,),
    "tool_call": (events.ToolCalled,),
    "assistant_message": (events.AssistantMessage,),
    "turn_end": (events.StepEnded, events.AssistantMessage, events.ModelFailed),
}
"""Events with fields of their own beside `data`, and the types that they are made of."""

_LIFECYCLE_EVENTS: dict[str, type] = {snake_case(kind.__name__): kind for kind in LIFECYCLE_EVENTS}
_TAGS: dict[type, str] = {
    kind: name for name, kind in (*events.EVENT_TYPES.items(), *_LIFECYCLE_EVENTS.items())
}


def types_behind(name: str) -> Iterable[type]:
    """The types to observe for an event of the protocol; none for an unknown name."""
    if name in SUMMARISED:
        return SUMMARISED[name]
    kind = events.EVENT_TYPES.get(name) or _LIFECYCLE_EVENTS.get(name)
    return (kind,) if kind else ()


def is_live(event: Any) -> bool:
    """Whether it may be dropped for an extension that reads too slowly."""
    return isinstance(event, events.Delta | events.LiveEvent)


class EventTranslator:
    """Makes frames of the events that an extension has subscribed to."""

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
                    "tool_call", session, event, step=step, tool_id=call, tool_name=name, tool_args=arguments
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
                return  # it would answer itself forever
        yield from self._of(_TAGS[type(event)], session, event)

    def session_start(self, context: ExtensionContext, reason: str) -> Iterator[frames.Event]:
        position = context.session.position
        data = {
            "session": context.session_id,
            "reason": reason,
            "cwd": str(context.cwd),
            "model": context.model,
            "parent_run": position.parent if position else "",
        }
        yield from self._of("session_start", context.session_id, data)

    def forget(self, session: str) -> None:
        self._stops.pop(session, None)
        self._errors.pop(session, None)

    def _of(self, name: str, session: str, event: Any, **fields: Any) -> Iterator[frames.Event]:
        if name in self.subscribed:
            yield frames.Event(name, session, data=event, **fields)


POINTS: dict[Intercepted, Point] = {
    "tool_call": "before_tool",
    "turn_start": "before_step",
    "assistant_message": "before_message",
}

Decision = Refuse | Rewrite | Replace | Suppress | None


async def intercept(client: Client, extension: str, subject: Any, context: ExtensionContext) -> Decision:
    """Asks for a decision. Raises `ExtensionError` without a valid answer."""
    request = _intercept_frame(client.new_id(), subject, context.session_id)
    if request is None:
        return None
    answer = await client.ask(request, frames.EventInterceptResponse, client.limits.intercept)
    return _decision(request.event, answer, extension)


def _intercept_frame(id: str, subject: Any, session: str) -> frames.EventIntercept | None:
    match subject:
        case PlannedCall(call=call, name=name, arguments=arguments, step=step):
            return frames.EventIntercept(
                id, "tool_call", session, step=step, tool_id=call, tool_name=name, tool_args=arguments
            )
        case StepPlan(number=number):
            return frames.EventIntercept(id, "turn_start", session, step=number)
        case DraftMessage(text=text) if text:
            return frames.EventIntercept(id, "assistant_message", session, text=text)
    return None  # an answer without text, such as one that only calls tools


def _decision(event: Intercepted, answer: frames.EventInterceptResponse, extension: str) -> Decision:
    if answer.block:
        reason = answer.reason or f"The extension {extension} blocked it."
        return Suppress(reason) if event == "assistant_message" else Refuse(reason)
    if answer.modified_args is not UNSET:
        if event != "tool_call":
            raise ExtensionError("it answered with modified_args, which is only for tool_call")
        return Rewrite(answer.modified_args)
    if answer.replace_text is not UNSET:
        if event != "assistant_message":
            raise ExtensionError("it answered with replace_text, which is only for assistant_message")
        return Replace(answer.replace_text)
    return None


NO_CONTENT = "(the extension returned no content)"
_SNIFFED = 64


class ProcessTool:
    """A `Tool` of a process. It validates arguments, so the process gets only those that fit the schema."""

    def __init__(self, registered: frames.RegisterTool, client: Client, extension: str) -> None:
        self.spec = ToolSpec(
            registered.name,
            registered.description,
            _checked_schema(registered),
            kind=registered.kind,
            parallel=registered.parallel,
            timeout=registered.timeout,
        )
        self._client = client
        self._extension = extension

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if problem := schema_error(arguments, self.spec.schema, where="the object of arguments"):
            raise InvalidArguments(f"invalid arguments for {self.spec.name}: {problem}")
        return arguments

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Outcome:
        client = self._client
        call = frames.ToolCall(client.new_id(), self.spec.name, arguments, context.session, context.call)
        try:
            result = await client.ask(
                call, frames.ToolResult, on_output=lambda one: context.output(one.text, one.stream)
            )
        except ExtensionError as failure:
            raise ToolFailed(f"the extension {self._extension} failed: {failure}") from None
        except asyncio.CancelledError:
            client.send(frames.ToolCancel(call.id, context.cancel.reason or "it took too long"))
            raise
        content = tuple(map(_block, result.content)) or (Text(NO_CONTENT),)
        return Failed("tool_failed", content) if result.is_error else Ok(content)


def _checked_schema(registered: frames.RegisterTool) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}, **registered.schema}
    try:
        problem = schema_problem(schema)
        schema_error({}, schema)
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
    if not problem and schema["type"] != "object":
        problem = "its type must be object"
    if problem:
        raise UsageError(f"the tool {registered.name} was not registered: its schema is invalid: {problem}")
    return schema


def _block(block: frames.ContentBlock) -> PlainBlock:
    if block.type == "text":
        return Text(block.text)
    if block.type != "image":
        return Text(f"(the extension returned a block of unknown type {block.type!r:.60})")
    try:
        content = base64.b64decode(block.data, validate=True)
    except (binascii.Error, ValueError):
        raise ToolFailed("the extension returned an image that is not base64") from None
    media_type = image_type(content[:_SNIFFED])
    if media_type is None:
        raise ToolFailed("the extension returned an image that is not PNG, JPEG, GIF or WebP")
    return Image(media_type, data=block.data)


class OpenPanel(msgspec.Struct, frozen=True):
    """A panel as front ends get it."""

    title: str
    lines: list[str]
    footer: str


class Panels:
    """The open panels of an extension. Each is a live value `panel:<extension>/<id>` of its session."""

    def __init__(self, extension: str, client: Client) -> None:
        self._extension = extension
        self._client = client
        self._open: dict[tuple[str, str], tuple[ExtensionContext, frames.Panel]] = {}

    def open(self, context: ExtensionContext, panel: frames.Panel) -> None:
        self._open[context.session_id, panel.id] = context, panel
        self._show(context, panel)
        if (size := context.face.size()) != (0, 0):
            self.resize(context.session_id, *size)

    def render(self, frame: frames.PanelRender) -> None:
        """Updates an open panel; an empty title keeps the old one. A closed panel stays closed."""
        for key in self._keys(frame.session, frame.panel_id):
            context, old = self._open[key]
            panel = frames.Panel(old.id, frame.title or old.title, frame.lines, frame.footer)
            self._open[key] = context, panel
            self._show(context, panel)

    def close(self, session: str, panel: str, *, by_user: bool = False) -> bool:
        """Closes a panel, and notifies the extension if the user closed it; False if it is not open."""
        keys = self._keys(session, panel)
        for key in keys:
            context, _ = self._open.pop(key)
            context.extension_session.live_values.remove(self._name(panel))
            if by_user:
                self._client.send(frames.PanelClosed(panel, context.session_id))
        return bool(keys)

    def close_all(self, session: str = "") -> None:
        for owner, panel in tuple(self._open):
            if session in ("", owner):
                self.close(owner, panel)

    def key(self, session: str, panel: str, key: str, text: str = "") -> bool:
        """Sends a key to a panel; False if it is not open."""
        if (session, panel) not in self._open:
            return False
        self._client.send(frames.PanelKey(panel, key, text, session))
        return True

    def resize(self, session: str, width: int, height: int) -> None:
        if any(owner == session for owner, _ in self._open):
            self._client.send(frames.PanelResize(width, height, session))

    def _keys(self, session: str, panel: str) -> list[tuple[str, str]]:
        return [key for key in self._open if key[1] == panel and session in ("", key[0])]

    def _show(self, context: ExtensionContext, panel: frames.Panel) -> None:
        view = OpenPanel(panel.title, list(panel.lines), panel.footer)
        context.extension_session.live_values.put(self._name(panel.id), view, self)

    def _name(self, panel: str) -> str:
        return f"panel:{self._extension}/{panel}"
