"""What was asked of a model that it cannot do, in the words that a person is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from ostler.kernel.model import ModelRequest, ReasoningLevel, Transcript
from ostler.models.reasoning_levels import Level
from ostler.models.settings import ModelSettings
from ostler.vocabulary.messages import Block, ToolResult

Hidden = Callable[[Block], str]
"""What a block is, where the vendor is not shown it; nothing for one that it is shown."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a request on its wire."""

    level: Level | None
    """The level of reasoning that is sent; nothing where none can be."""
    stopped: bool = False
    """Whether the model may not reason because it is made to call a tool."""
    schema: bool = True
    choice: Literal["as_asked", "any", "free"] = "as_asked"
    """Whether the model is made to call the tool that was asked for, any tool, or none."""
    output_tokens: int | None = None
    """The limit of the answer, where it had to be raised for the reasoning."""


def shortfalls(
    name: str, request: ModelRequest, taken: Taken, settings: ModelSettings, hidden: Hidden
) -> list[str]:
    """A sentence for each thing that is asked of the model `name` and that it does not take.

    The later steps of a run would only repeat them: what concerns the whole request is said where the
    person's own message is the newest, and what concerns a block where that block is new.
    """
    transcript = request.transcript
    said = [f"{name} is not shown {what}" for what in _hidden_blocks(transcript, hidden)]
    if len(transcript) and transcript[-1].role != "user":
        return said
    if request.tools and settings.tools is False:
        said.append(f"{name} takes no tools; it is offered none")
    if taken.stopped:
        said.append(f"{name} cannot reason while it is made to call a tool; it is asked not to")
    elif request.reasoning is not None:
        said += _level(name, request.reasoning, taken.level, settings.reasons)
    if taken.output_tokens:
        said.append(f"{name} needs room to reason; its answer may have {taken.output_tokens:,} tokens")
    if request.answer_schema is not None and not taken.schema:
        said.append(f"{name} cannot be held to a schema; its answer may not fit")
    if taken.choice == "any":
        said.append(f"{name} cannot be made to call {request.tool_choice}; it is made to call any tool")
    elif taken.choice == "free":
        said.append(f"{name} cannot be told which tool to call; it chooses for itself")
    return said


def _level(name: str, asked: ReasoningLevel, sent: Level | None, reasons: bool | None) -> list[str]:
    if sent == asked:
        return []
    if sent is not None:
        cannot = "be stopped from reasoning" if asked == "off" else f"reason at the level {asked}"
        instead = "not to" if sent == "off" else f"for {sent}"
        return [f"{name} cannot {cannot}; it is asked {instead}"]
    if asked != "off":
        return [f"{name} takes no level of reasoning; it is asked without one"]
    return [f"nobody knows how {name} is stopped from reasoning; it is not asked to"] if reasons else []


def _hidden_blocks(transcript: Transcript, hidden: Hidden) -> list[str]:
    if not len(transcript):
        return []
    found: dict[str, None] = {}
    for block in transcript[-1].content:
        for part in block.content if isinstance(block, ToolResult) else (block,):
            what = hidden(part)
            if what:
                found[what] = None
    return list(found)
