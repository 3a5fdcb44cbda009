"""What a face may ask of a session: one closed union. Every request has an id that makes it idempotent."""
# MERGED: What must be there for a request to be taken up, where nobody drives its session.

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
    """Who asks, for the record."""


class Prompt(Request, frozen=True):
    """Start a run with this message; it waits its turn while a run is open."""

    content: tuple[PlainBlock, ...]


class Continue(Request, frozen=True):
    """Start a run on the transcript as it is, without a new message."""


class Steer(Request, frozen=True):
    """Say this to the running model between two steps."""

    content: tuple[PlainBlock, ...]


class Answer(Request, frozen=True):
    """The answer to an open question: one of its choices, what its form asks for, or a text."""

    question: str
    answer: Any = None
    declined: bool = False


class Cancel(Request, frozen=True):
    """End the open run; with `call`, only that call."""

    call: str = ""


class Pause(Request, frozen=True):
    """Wait before the next step."""


class Resume(Request, frozen=True):
    """Let a run go on that was paused, or cut."""


class Fork(Request, frozen=True):
    """Make a new session of the path to that entry."""

    entry: int
    title: str = ""


class Navigate(Request, frozen=True):
    """Let the next message follow that entry."""

    entry: int


class SetModel(Request, frozen=True):
    """Let that model answer from the next step on."""

    model: str
    reasoning: str = ""


class Compact(Request, frozen=True):
    """Tell the model a summary in place of what was said before."""

    instructions: str = ""


class UndoCompaction(Request, frozen=True):
    """Tell the model again what that compaction had replaced."""

    compaction: int


class Rename(Request, frozen=True):
    """Give the session that title."""

    title: str


class Label(Request, frozen=True):
    """Name an entry; an empty label takes the name away."""

    entry: int
    label: str


class CollapseBranch(Request, frozen=True):
    """Tell the model, in short, of the branch that ends there."""

    leaf: int
    instructions: str = ""


class ReleasePrompts(Request, frozen=True):
    """Let the held prompts start; with `drop`, forget them."""

    drop: bool = False


class TakeBack(Request, frozen=True):
    """Forget a prompt whose turn has not come, or a steer that the model was not told yet."""

    request: str


class RevokePermission(Request, frozen=True):
    """Forget a rule that was remembered in this session."""

    rule: str


class FinishCall(Request, frozen=True):
    """The outcome of a pending call."""

    call: str
    outcome: Ok | Failed


class RunCommand(Request, frozen=True):
    """Run an extension's command."""

    name: str
    arguments: str = ""


class Keys(Request, frozen=True):
    """Keys for a terminal agent; never stored with what they type."""

    keys: str
    kind: Literal["text", "raw"] = "raw"


class Resize(Request, frozen=True):
    """Another size for the terminal of an agent, for all who watch it."""

    columns: int
    rows: int


AnyRequest = (
    Prompt
    | Continue
    | Steer
    | Answer
    | Cancel
    | Pause
    | Resume
    | Fork
    | Navigate
    | SetModel
    | Compact
    | UndoCompaction
    | Rename
    | Label
    | CollapseBranch
    | ReleasePrompts
    | TakeBack
    | RevokePermission
    | FinishCall
    | RunCommand
    | Keys
    | Resize
)


OVERTAKING = (Cancel, Answer, TakeBack)
"""These are taken up before anything that arrived earlier."""


_encoder = msgspec.json.Encoder()


@cache
def _decoder() -> msgspec.json.Decoder[AnyRequest]:
    """Made when it is needed: most inboxes are empty, and a union of so many takes its time."""
    return msgspec.json.Decoder(AnyRequest)


def encode_request(request: AnyRequest) -> bytes:
    return _encoder.encode(request)


def decode_request(body: bytes) -> AnyRequest | None:
    """The request in these bytes; None for one of a newer version, which must wait for that version."""
    try:
        return _decoder().decode(body)
    except msgspec.ValidationError:
        return None


MOVING = (
    Prompt,
    Continue,
    Answer,
    Cancel,
    Resume,
    FinishCall,
    ReleasePrompts,
)
"""Requests that let a session move: when nobody drives it, it is driven for them."""


ALONE = (
    Rename,
    Label,
    Navigate,
    UndoCompaction,
    RevokePermission,
    TakeBack,
    Keys,
    Resize,
)
"""Requests that need no model and no extension: when nobody drives the session, the log is enough."""


OF_A_RUN = (
    Steer,
    Answer,
    Cancel,
    Pause,
    Resume,
    FinishCall,
)
"""Requests that are refused where no run is open, which takes no more than the log."""
