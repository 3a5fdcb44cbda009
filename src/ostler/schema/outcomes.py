"""What came of a tool call: done, failed, waiting for a person, or finishing later."""
# MERGED: How a tool wants its calls to be shown, so that a face can show tools that it does not know.

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ostler.schema.messages import PlainBlock, as_content

FailureKind = Literal[
    "unknown_tool",
    "invalid_arguments",
    "call_refused",
    "tool_timed_out",
    "tool_cancelled",
    "tool_interrupted",
    "tool_failed",
]


PROTOCOL_ERRORS: frozenset[FailureKind] = frozenset({"unknown_tool", "invalid_arguments"})
"""The call could not be understood, and nothing ran; the other kinds are failures of a call that could be."""


ResumeStrategy = Literal["", "result", "again"]
"""What an answer does: it is the `result`, or the tool is called `again` with it; else as the tool says."""


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something asked of a person: a permission, a choice, a form or free text."""

    text: str
    kind: Literal["permission", "choice", "form", "text"] = "text"
    choices: tuple[str, ...] = ()
    form: dict[str, Any] | None = None
    """A JSON Schema of the answer, for `form`."""
    details: dict[str, Any] | None = None
    """What the person should see to judge: the command, the diff."""
    secret: bool = False
    """The answer is never stored."""
    reason: str = ""
    questionnaire: str = ""
    """The host's own id of what is asked, for a face that has a form of its own for it."""


class Ok(msgspec.Struct, frozen=True, tag_field="status", tag="ok", omit_defaults=True):
    """`content` is told to the model; `details` and `summary` are for people and programs only."""

    content: tuple[PlainBlock, ...] = ()
    details: dict[str, Any] | None = None
    summary: str = ""
    ends_run: bool = False


class Failed(msgspec.Struct, frozen=True, tag_field="status", tag="failed", omit_defaults=True):
    """`content` says to the model what went wrong."""

    kind: FailureKind
    content: tuple[PlainBlock, ...] = ()
    details: dict[str, Any] | None = None
    summary: str = ""
    ends_run: bool = False


class NeedUser(msgspec.Struct, frozen=True, tag_field="status", tag="need_user", omit_defaults=True):
    """The call stays open until a person answers. `state` returns to a tool that is called again."""

    question: Question
    state: Any = None
    resume: ResumeStrategy = ""


class Pending(msgspec.Struct, frozen=True, tag_field="status", tag="pending", omit_defaults=True):
    """The call stays open until a `finish` request brings its outcome, perhaps days later."""

    handle: str = ""
    note: str = ""


Outcome = Ok | Failed | NeedUser | Pending

Settled = Ok | Failed


def ok(
    *content: str | PlainBlock,
    details: dict[str, Any] | None = None,
    summary: str = "",
    ends_run: bool = False,
) -> Ok:
    """`ok("text")`: the call succeeded."""
    return Ok(as_content(content), details, summary, ends_run)


def failed(
    message: str,
    *,
    kind: FailureKind = "tool_failed",
    details: dict[str, Any] | None = None,
    summary: str = "",
    ends_run: bool = False,
) -> Failed:
    """`failed("why")`: the call failed, and the model is told why."""
    return Failed(kind, as_content(message), details, summary, ends_run)


class Layout(msgspec.Struct, frozen=True, omit_defaults=True):
    """The frame around what a call shows."""

    padding: bool = True
    border: bool = True
    background: bool = True


class Display(msgspec.Struct, frozen=True, omit_defaults=True):
    """Declared by a tool, carried by each `tool_called`."""

    view: str = "text"
    """What the result is: `text`, `markdown`, `code`, `diff`, `table`, `terminal`, or a host's own word."""
    title: str = ""
    """With the arguments' names in braces: `Search for {query}`."""
    icon: str = ""
    layout: Layout = Layout()

    def title_for(self, arguments: dict[str, Any]) -> str:
        """The title of one call; an argument that is not there is left out."""
        filled = re.sub(r"\{(\w+)\}", lambda found: str(arguments.get(found[1], "")), self.title)
        return " ".join(filled.split())
