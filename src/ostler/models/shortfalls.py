"""What was asked of a model that it cannot do, in the words that a person is told."""

from __future__ import annotations

from collections.abc import Callable

from ostler.kernel.model import ModelRequest, Transcript
from ostler.vocabulary.messages import Block, ToolResult

Hidden = Callable[[Block], str]
"""What a block is, where the vendor is not shown it; nothing for one that it is shown."""


def shortfalls(
    name: str, request: ModelRequest, *, level: bool, schema: bool, choice: bool, hidden: Hidden
) -> list[str]:
    """A sentence for each thing that is asked of the model `name` and that it does not take.

    The later steps of a run would only repeat them: what concerns the whole request is said where the
    person's own message is the newest, and what concerns a block where that block is new.
    """
    transcript = request.transcript
    said = [f"{name} is not shown {what}" for what in _hidden_blocks(transcript, hidden)]
    if len(transcript) and transcript[-1].role != "user":
        return said
    if request.reasoning not in (None, "off") and not level:
        said.append(f"{name} takes no level of reasoning; it is asked without one")
    if request.answer_schema is not None and not schema:
        said.append(f"{name} cannot be held to a schema; its answer may not fit")
    if request.tools and request.tool_choice != "auto" and not choice:
        said.append(f"{name} cannot be told which tool to call; it chooses for itself")
    return said


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
