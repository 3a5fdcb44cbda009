"""The tool by which a model closes a chapter: its own summary takes the place of what came before."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.context.estimating import estimated_tokens
from ostler.context.planning import Conversation
from ostler.kernel.tool import ToolContext, ToolSpec, checked
from ostler.vocabulary.display import Display
from ostler.vocabulary.errors import InvalidArguments
from ostler.vocabulary.messages import ToolCall, ToolResult
from ostler.vocabulary.outcomes import Ok, ok

NAME = "close_chapter"


class Chapter(msgspec.Struct, frozen=True):
    summary: str


class ClosedChapter(msgspec.Struct, frozen=True):
    """A summary in place of all messages before `place`."""

    summary: str
    place: int


class ChapterTool:
    """Changes nothing itself: while a call is open, nothing can be told in another way."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        about = (
            "the task and what the person said about it, what was done and decided, what was learnt, files, "
            f"what is next; at most {longest} tokens"
        )
        self.spec = ToolSpec(
            name=NAME,
            description="Closes a chapter of your work, when a part is done and its details are not needed "
            "any more: from the next step on you are told your summary in place of what came before.",
            schema={
                "type": "object",
                "properties": {"summary": {"type": "string", "minLength": 1, "description": about}},
                "required": ["summary"],
                "additionalProperties": False,
            },
            kind="agent",
            display=Display(view="markdown", title="Chapter closed", icon="bookmark"),
        )

    def validate(self, arguments: dict[str, Any]) -> Chapter:
        chapter = checked(arguments, Chapter, NAME)
        if not chapter.summary.strip():
            raise InvalidArguments("the summary is empty: say what you need to go on")
        if (tokens := estimated_tokens(chapter.summary)) > self._longest:
            raise InvalidArguments(
                f"the summary has about {tokens} tokens, and may have {self._longest}: make it shorter"
            )
        return chapter

    async def run(self, arguments: Chapter, context: ToolContext) -> Ok:
        return ok("From the next step on, your summary stands for what came before.")


def closed_chapter(told: Conversation, keep_calls: int) -> ClosedChapter | None:
    """What the newest answer has closed, if it has; the newest calls before it stay as they are.

    None when it was taken up already, and when fewer than two messages lie before what stays.
    """
    messages = told.messages
    place = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].role == "assistant"), -1)
    if place + 1 >= len(messages) or told.sources[0] > told.sources[place]:
        return None
    results = [block for block in messages[place + 1].content if isinstance(block, ToolResult)]
    done = {result.call for result in results if not result.failed}
    closing = [call for call in messages[place].calls if call.name == NAME and call.id in done]
    if not closing:
        return None
    calls = [at for at in range(place) if messages[at].calls]
    if keep_calls and calls:
        place = calls[-keep_calls:][0]
    summary = _summary_of(closing[-1])
    return ClosedChapter(summary, place) if summary and place >= 2 else None


def _summary_of(call: ToolCall) -> str:
    """Empty where a hook has changed what the model said into something that fits."""
    try:
        return msgspec.json.decode(call.arguments, type=Chapter).summary.strip()
    except msgspec.DecodeError:
        return ""
