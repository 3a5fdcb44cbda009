"""The requests to a session, as one closed union; the id of each makes it idempotent."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import msgspec

from ostler.schema.live_events import snake_case
from ostler.schema.messages import PlainBlock
from ostler.schema.outcomes import Failed, Ok


class Request(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=snake_case, omit_defaults=True
):
    id: str
    by: str = ""
    """The name that the client gives itself."""


class Prompt(Request, frozen=True):
    """Start a run with this message, after the open run if there is one."""

    content: tuple[PlainBlock, ...]


class Continue(Request, frozen=True):
    """Start a run on the transcript as it is, without a new message."""


class Steer(Request, frozen=True):
    """Send this to the running model between two steps."""

    content: tuple[PlainBlock, ...]


class Answer(Request, frozen=True):
    """Answer an open question: one of its choices, the values of its form, or a text."""

    question: str
    answer: Any = None
    declined: bool = False
    identity: str = ""
    """Who answers: set by the code that accepts the request, never by the client."""


class Cancel(Request, frozen=True):
    """End the open run; with `call`, only that call."""

    call: str = ""


class Pause(Request, frozen=True):
    """Wait before the next step."""


class Resume(Request, frozen=True):
    """Resume a run that was paused or interrupted."""


class Fork(Request, frozen=True):
    """Make a new session from the path to that entry."""

    entry: int
    title: str = ""


class Navigate(Request, frozen=True):
    """Continue from that entry with the next message."""

    entry: int


class SetModel(Request, frozen=True):
    """Use that model from the next step on."""

    model: str
    reasoning: str = ""


class Compact(Request, frozen=True):
    """Replace the conversation so far with a summary, for the model."""

    instructions: str = ""


class UndoCompaction(Request, frozen=True):
    """Send the model again what that compaction replaced."""

    compaction: int


class Rename(Request, frozen=True):
    """Give the session a title."""

    title: str


class Label(Request, frozen=True):
    """Label an entry; an empty label removes it."""

    entry: int
    label: str


class CollapseBranch(Request, frozen=True):
    """Send the model a summary of the branch that ends there."""

    leaf: int
    instructions: str = ""


class ReleasePrompts(Request, frozen=True):
    """Start the held prompts; with `drop`, discard them."""

    drop: bool = False


class TakeBack(Request, frozen=True):
    """Withdraw a prompt that has not started, or a steer that was not sent yet."""

    request: str


class RevokePermission(Request, frozen=True):
    """Revoke a rule that this session remembers."""

    rule: str
    identity: str = ""
    """As in `Answer`."""


class FinishCall(Request, frozen=True):
    """The outcome of a pending call."""

    call: str
    outcome: Ok | Failed


class RunCommand(Request, frozen=True):
    """Run an extension's command."""

    name: str
    arguments: str = ""


class Keys(Request, frozen=True):
    """Keys for a terminal agent; what they type is never stored."""

    keys: str
    kind: Literal["text", "raw"] = "raw"


class Resize(Request, frozen=True):
    """Resize the terminal of an agent, for all viewers."""

    columns: int
    rows: int


_RunRequest = Prompt | Continue | Steer | Answer | Cancel | Pause | Resume
_TreeRequest = Fork | Navigate | SetModel | Compact | UndoCompaction | Rename | Label | CollapseBranch
_OtherRequest = ReleasePrompts | TakeBack | RevokePermission | FinishCall | RunCommand | Keys | Resize
AnyRequest = _RunRequest | _TreeRequest | _OtherRequest

CONSENT = (Answer, RevokePermission, Keys)
"""These may allow something: no process that an agent started may send them."""

OVERTAKING = (Cancel, Answer, TakeBack)
"""These are handled before requests that arrived earlier."""

_encoder = msgspec.json.Encoder()


@cache
def _decoder() -> msgspec.json.Decoder[AnyRequest]:
    """Made on first use: most inboxes are empty, and so large a union is slow to build."""
    return msgspec.json.Decoder(AnyRequest)


def encode_request(request: AnyRequest) -> bytes:
    return _encoder.encode(request)


def decode_request(body: bytes) -> AnyRequest | None:
    """The request in these bytes; None for one of a newer version, which waits for that version."""
    try:
        return _decoder().decode(body)
    except msgspec.ValidationError:
        return None


NEEDS_DRIVER = (Prompt, Continue, Answer, Cancel, Resume, FinishCall, ReleasePrompts)
"""Requests that can start or continue a run: if nothing drives the session, it is opened and driven."""

NEEDS_LOG = (Rename, Label, Navigate, UndoCompaction, RevokePermission, TakeBack, Keys, Resize)
"""Requests that need only the log: no model, no extension, and no process that drives the session."""

NEEDS_RUN = (Steer, Answer, Cancel, Pause, Resume, FinishCall)
"""Requests that are refused if no run is open; for a refusal the log is enough."""
