"""Outcomes of a tool call (done, failed, waiting for the user, finishing later), and how calls are shown."""

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
"""The call could not be understood, so nothing ran. The other kinds are failures of valid calls."""

ResumeStrategy = Literal["", "result", "again"]
"""What an answer does: it becomes the `result`, or the tool is called `again` with it (empty: as it says)."""


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question to the user: a permission, a choice, a form or free text."""

    text: str
    kind: Literal["permission", "choice", "form", "text"] = "text"
    choices: tuple[str, ...] = ()
    form: dict[str, Any] | None = None
    """A JSON Schema of the answer, for `form`."""
    details: dict[str, Any] | None = None
    """What the user should see to decide: the command, the diff."""
    secret: bool = False
    """The answer is never stored."""
    reason: str = ""
    questionnaire: str = ""
    """The host's id of the question, for a front end that has its own form for it."""


class Ok(msgspec.Struct, frozen=True, tag_field="status", tag="ok", omit_defaults=True):
    """The model gets `content`; `details` and `summary` are for users and programs only."""

    content: tuple[PlainBlock, ...] = ()
    details: dict[str, Any] | None = None
    summary: str = ""
    ends_run: bool = False


class Failed(msgspec.Struct, frozen=True, tag_field="status", tag="failed", omit_defaults=True):
    """`content` tells the model what went wrong."""

    kind: FailureKind
    content: tuple[PlainBlock, ...] = ()
    details: dict[str, Any] | None = None
    summary: str = ""
    ends_run: bool = False


class NeedUser(msgspec.Struct, frozen=True, tag_field="status", tag="need_user", omit_defaults=True):
    """The call stays open until the user answers. A tool that is called again gets `state`."""

    question: Question
    state: Any = None
    resume: ResumeStrategy = ""
    otherwise: Ok | Failed | None = None
    """The question is whether to run the call again, without its restrictions; this is the outcome if not."""


class Pending(msgspec.Struct, frozen=True, tag_field="status", tag="pending", omit_defaults=True):
    """The call stays open until a `finish` request delivers its outcome, perhaps days later."""

    handle: str = ""
    note: str = ""


Outcome = Ok | Failed | NeedUser | Pending
FinalOutcome = Ok | Failed


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
    """`failed("why")`: the call failed, and the model gets the reason."""
    return Failed(kind, as_content(message), details, summary, ends_run)


class Layout(msgspec.Struct, frozen=True, omit_defaults=True):
    """The frame around a call."""

    padding: bool = True
    border: bool = True
    background: bool = True


class Display(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a tool's calls are shown, so that a front end can show any tool. Each `tool_called` has it."""

    view: str = "text"
    """What the result is: `text`, `markdown`, `code`, `diff`, `table`, `terminal`, or a host's own name."""
    title: str = ""
    """With the arguments' names in braces: `Search for {query}`."""
    icon: str = ""
    layout: Layout = Layout()

    def title_for(self, arguments: dict[str, Any]) -> str:
        """The title of one call; a missing argument is left out."""
        title = re.sub(r"\{(\w+)\}", lambda match: str(arguments.get(match[1], "")), self.title)
        return " ".join(title.split())
