"""The three points where an extension decides: what it is asked, and what its answer means."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from ostler.extensions.calling import CodeFailed
from ostler.extensions.context import ExtensionContext
from ostler.extensions.foreign import frames
from ostler.extensions.foreign.client import Client
from ostler.extensions.foreign.frames import Intercepted
from ostler.kernel.hooks import (
    DraftMessage,
    PlannedCall,
    Point,
    Refuse,
    Replace,
    Rewrite,
    StepPlan,
    Suppress,
)

POINTS: dict[Intercepted, Point] = {
    "tool_call": "before_tool",
    "turn_start": "before_step",
    "assistant_message": "before_message",
}

Decision = Refuse | Rewrite | Replace | Suppress | None


async def intercept(client: Client, extension: str, subject: Any, context: ExtensionContext) -> Decision:
    """Raises `CodeFailed` when it does not answer, or not with something that can be done here."""
    question = _question(client.new_id(), subject, context.session_id)
    if question is None:
        return None
    answer = await client.ask(question, frames.EventInterceptResponse, client.limits.intercept)
    return _decision(question.event, answer, extension)


def _question(id: str, subject: Any, session: str) -> frames.EventIntercept | None:
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
        reason = answer.reason or f"The extension {extension} does not allow it."
        return Suppress(reason) if event == "assistant_message" else Refuse(reason)
    if answer.modified_args is not UNSET:
        if event != "tool_call":
            raise CodeFailed(f"it answered with modified_args, which {event} does not have")
        return Rewrite(answer.modified_args)
    if answer.replace_text is not UNSET:
        if event != "assistant_message":
            raise CodeFailed(f"it answered with replace_text, which {event} does not have")
        return Replace(answer.replace_text)
    return None
