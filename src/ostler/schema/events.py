"""Every event there is, as one tagged union.

An event is an *entry* (has a parent, forms the session's tree, may be told to the model), a *record*
(belongs to the whole session, does not rewind), a *delta* (live only; the fact that follows holds or
names the whole) or a *live value* (present state without history, replaced whole). Entries and records
are facts: stored, numbered, committed before anybody sees them. `governance.py` says what becomes of
each. Fields that have their default are left out of the JSON.

`seq`, `session`, `run`, `time`, `parent` and `origin` belong to the envelope of a fact (`facts.py`); no
event has a field of that name.
"""
# MERGED: Facts that extensions make: entries of their own, state that they keep, commands that people ran.

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ostler.schema.errors import Failure
from ostler.schema.live_events import CaughtUp as CaughtUp
from ostler.schema.live_events import ChildEvent as ChildEvent
from ostler.schema.live_events import Delta as Delta
from ostler.schema.live_events import Entry as Entry
from ostler.schema.live_events import Event as Event
from ostler.schema.live_events import LiveEvent as LiveEvent
from ostler.schema.live_events import LiveValue as LiveValue
from ostler.schema.live_events import Printed as Printed
from ostler.schema.live_events import ReasoningDelta as ReasoningDelta
from ostler.schema.live_events import Record as Record
from ostler.schema.live_events import SessionListed as SessionListed
from ostler.schema.live_events import StoreFailed as StoreFailed
from ostler.schema.live_events import StreamIncomplete as StreamIncomplete
from ostler.schema.live_events import TextDelta as TextDelta
from ostler.schema.live_events import ToolInputDelta as ToolInputDelta
from ostler.schema.live_events import ToolInputEnded as ToolInputEnded
from ostler.schema.live_events import ToolInputStarted as ToolInputStarted
from ostler.schema.live_events import ToolOutput as ToolOutput
from ostler.schema.messages import BlobRef, Block, Message, PlainBlock, StopReason
from ostler.schema.outcomes import Display, FailureKind, Question, ResumeStrategy
from ostler.schema.usage import Limits as Limits
from ostler.schema.usage import Totals as Totals
from ostler.schema.usage import Usage


class ExtensionEntry(Entry, frozen=True):
    """An extension's own entry on the tree. `told` is what the model is told of it, if anything."""

    extension: str
    name: str
    data: Any = None
    told: tuple[PlainBlock, ...] = ()
    critical: bool = False


class ExtensionState(Record, frozen=True):
    """One key of an extension's state; `None` removes it."""

    extension: str
    key: str
    value: Any = None


class CommandRan(Record, frozen=True):
    """Somebody ran an extension's command. `text` is what it said, or why it failed."""

    name: str
    arguments: str = ""
    text: str = ""
    failed: bool = False
    extension: str = ""
    request: str = ""


# --- the session ------------------------------------------------------------------------------------


class SessionStarted(Record, frozen=True):
    """The first fact of every session."""

    cwd: str
    version: str
    driver: Literal["agent", "terminal", "acp", "stream-json"] = "agent"
    forked_from: str = ""
    forked_at: int = 0
    child_of: str = ""
    """The parent's session, for a child; `call` is the parent's tool call."""
    call: str = ""


class SessionRenamed(Record, frozen=True):
    """The session has this title from now on."""

    title: str
    request: str = ""


class Labelled(Record, frozen=True):
    """A name for an entry; an empty one removes it."""

    entry: int
    label: str
    request: str = ""


class LeafMoved(Record, frozen=True):
    """The current leaf is now `to` (0: before the first entry)."""

    to: int
    request: str = ""


class SettingsChanged(Record, frozen=True):
    """Settings that hold from the next step on; only those that changed are present."""

    model: str = ""
    reasoning: str = ""
    tools: tuple[str, ...] | None = None
    permissions: str = ""
    by: str = "user"
    request: str = ""


class RequestRefused(Record, frozen=True):
    """A request from the inbox that was taken up and declined."""

    request: str
    reason: str


class PromptsHeld(Record, frozen=True):
    """Prompts in the inbox wait until someone releases them."""

    reason: str


class PromptsReleased(Record, frozen=True):
    """The prompts that were held may start."""

    request: str = ""


# --- a run, in order --------------------------------------------------------------------------------


RunStatus = Literal["completed", "cancelled", "refused", "limit", "interrupted", "failed"]


class RunStarted(Record, frozen=True):
    """A run begins: by which version, where, with which model and under which limits."""

    version: str
    cwd: str
    model: str
    request: str = ""
    """The request that caused it, for one that came through the inbox."""
    permissions: str = ""
    limits: Limits = Limits()
    extensions: tuple[str, ...] = ()
    continues: bool = False
    """No new message: the run goes on with the transcript as it is."""
    root: str = ""
    """The run at the root of the tree of children, when it is not this one."""
    parent_run: str = ""
    depth: int = 0
    """How many runs are above it."""
    trace: str = ""
    """The host's id of the work that this run is a part of."""
    tags: dict[str, str | int | float | bool] = {}  # noqa: RUF012  # each struct gets its own
    agent: str = ""
    """The named agent that works here."""


class UserMessage(Entry, frozen=True):
    """What a person, a steer, a reminder or a host says to the model. `hidden`: told, but not shown."""

    content: tuple[PlainBlock, ...]
    source: Literal["prompt", "steer", "reminder", "hook", "terminal"] = "prompt"
    hidden: bool = False
    request: str = ""


class StepStarted(Record, frozen=True):
    """A step begins, with these tools on offer. Steps count from 1 in each run."""

    number: int
    tools: tuple[str, ...] = ()


Purpose = Literal["step", "compaction", "summary", "title", "extension", "aside"]


class ModelCalled(Record, frozen=True):
    """The intent to call a model, committed before the request is sent."""

    id: str
    model: str
    digest: str
    """Of the request in the vocabulary's terms: what was sent, not how its wire spells it."""
    attempt: int = 1
    purpose: Purpose = "step"
    messages: int = 0
    trace: Any = None
    """How the context was built."""


class UsageReported(Record, frozen=True, tag="usage"):
    """Exactly one for each `model_called`, also when it failed or was cut."""

    call: str
    model: str
    usage: Usage
    cumulative: Usage
    purpose: Purpose = "step"


class AssistantMessage(Entry, frozen=True):
    """What the model answered. `content` is told to the model; `shown`, where a hook replaced it, to people.

    `suppressed`: a hook withheld it from people altogether.
    """

    call: str
    """The `model_called` that it answers."""
    content: tuple[Block, ...]
    stop_reason: StopReason
    model: str = ""
    """As the vendor reported it, where that differs from what was asked for."""
    shown: tuple[Block, ...] | None = None
    suppressed: bool = False
    request_id: str = ""


class ModelFailed(Record, frozen=True):
    """A model call that brought no message. `partial` is what had been streamed, for people only."""

    call: str
    failure: Failure
    attempt: int = 1
    retry_in: float | None = None
    """Seconds until it is tried again; absent when it is not."""
    rescue: str = ""
    """The other model that is asked then, and for the rest of the run."""
    partial: tuple[Block, ...] = ()


class ToolCalled(Entry, frozen=True):
    """What the model asked for, as it asked. `malformed` says why the arguments are not usable."""

    call: str
    name: str
    arguments: dict[str, Any]
    step: int
    kind: str = "other"
    malformed: str = ""
    display: Display | None = None
    """How the tool wants to be shown."""


class ToolStarted(Record, frozen=True):
    """The intent to run a tool, committed before it begins. A refused call has none."""

    call: str
    name: str
    attempt: int = 1
    arguments: dict[str, Any] | None = None
    """After hooks, where they rewrote what the model asked."""
    key: str = ""
    """Idempotency key."""
    child: str = ""
    """The session of the child run that this call is."""
    allowed_by: str = ""
    """The rule or the profile that permitted it."""


class ChildStarted(Record, frozen=True):
    """A call has a child: a run in a session of its own. Or an extension has: then `call` is empty."""

    call: str
    child: str
    """The child's session."""
    agent: str = ""
    task: str = ""
    """The beginning of what it was asked."""
    extension: str = ""
    """The one that spawned it. Outside of a run its child belongs to no run either."""


class ChildUsed(Record, frozen=True):
    """What another vendor's agent says that it used for this call. It counts as its parent's children's."""

    call: str
    child: str
    usage: Usage

    @property
    def totals(self) -> Totals:
        """What it adds to those. A price that is not told is not known, and no limit of cost asks for it."""
        usage = self.usage
        if usage.cost is None:
            usage = msgspec.structs.replace(usage, source="unknown")
        return Totals(usage=usage)


class ChildEnded(Record, frozen=True):
    """A child's run is over, and its use counts as its parent's children's."""

    call: str
    child: str
    status: RunStatus
    own: Totals = Totals()
    children: Totals = Totals()
    reason: str = ""


class ToolDeferred(Record, frozen=True):
    """The tool said `pending`: the call stays open until a request finishes it."""

    call: str
    handle: str = ""
    note: str = ""


class ToolResultFact(Entry, frozen=True, tag="tool_result"):
    """What came of a call; exactly one for each. `content` is told to the model, `details` to people."""

    call: str
    name: str
    content: tuple[PlainBlock, ...] = ()
    failed: FailureKind | None = None
    details: dict[str, Any] | None = None
    summary: str = ""
    output: BlobRef | None = None
    """The whole output, where `content` holds a part of it."""
    duration_ms: int = 0
    key: str = ""
    """Of an idempotent tool: under it the result is found again."""
    repeats: int = 0
    """The number of the result that this one reuses."""
    ends_run: bool = False


class StepEnded(Record, frozen=True):
    """A step is over, and every call in it has its result."""

    number: int
    refused: str = ""
    """Why a hook did not let it begin."""
    trace: Any = None
    """How the context was built, when it cannot be made to fit and no model was asked."""


class QuestionAsked(Record, frozen=True):
    """Something is asked of a person; any face may answer it, once."""

    id: str
    question: Question
    call: str = ""
    """The tool call that it stops, if it stops one."""
    asked_by: Literal["permission", "tool", "hook", "extension", "mcp"] = "permission"
    durable: bool = True
    """It outlives the process; one that a handler awaits in Python does not."""
    state: Any = None
    resume: ResumeStrategy = ""


class QuestionAnswered(Record, frozen=True):
    """The one answer to a question. A `secret` question's answer is not in it."""

    id: str
    outcome: Literal["answered", "declined", "withdrawn"]
    answer: Any = None
    by: str = ""
    request: str = ""


class PermissionRemembered(Record, frozen=True):
    """A person's answer that holds for longer than one call: a rule, and the scope that was shown for it.

    One for the session holds in the session that `where` names and in no copy of it.
    """

    rule: str
    effect: Literal["allow", "ask", "deny", "revoked"]
    scope: Literal["session", "project", "user"]
    where: str = ""
    """The session, or the project's folder."""
    by: str = ""
    request: str = ""


WaitReason = Literal["question", "pending", "paused"]


class RunWaiting(Record, frozen=True):
    """Nothing can move until something arrives. The process may end; the run has not."""

    reason: WaitReason
    questions: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    request: str = ""
    """The request that paused it."""


class RunResumed(Record, frozen=True):
    """What the run waited for has arrived."""

    request: str = ""


class RunEnded(Record, frozen=True):
    """Exactly one for each run."""

    status: RunStatus
    reason: str = ""
    failure: Failure | None = None
    own: Totals = Totals()
    children: Totals = Totals()
    cumulative: Usage = Usage(cost=0.0)
    """Of the session so far."""
    request: str = ""
    """The request that cancelled it."""
    context: int = 0
    """Tokens of what the model was told at last, and of its answer, as its vendor counted them."""
    context_messages: int = 0
    """How many messages those were."""


# --- between and beside -----------------------------------------------------------------------------


class HistoryReplaced(Entry, frozen=True):
    """From here on the model is told `messages` in place of all that came before on this path."""

    messages: tuple[Message, ...]
    usage: Usage | None = None
    """A seed for the cumulative usage, when the history comes from elsewhere."""
    by: str = "host"


class Compacted(Entry, frozen=True):
    """The model is told `summary` in place of the entries in `replaces`."""

    summary: str
    replaces: tuple[int, ...]
    keeps_from: int
    files: tuple[str, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    by: str = "automatic"
    request: str = ""


class CompactionUndone(Entry, frozen=True):
    """The model is told again what that compaction had replaced."""

    compaction: int
    request: str = ""


class BranchCollapsed(Entry, frozen=True):
    """A branch that was left, told in a summary."""

    summary: str
    leaf: int
    request: str = ""


class TodoItem(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    text: str
    status: Literal["open", "active", "done", "dropped"] = "open"


class TodoUpdated(Entry, frozen=True):
    """The whole of a to-do list, as it is now."""

    items: tuple[TodoItem, ...]
    list: str = "main"


class SourceCited(Record, frozen=True):
    """The model named a source for what it says."""

    call: str
    url: str = ""
    title: str = ""
    id: str = ""


class Warned(Record, frozen=True):
    """Something a person should know: a vendor's warning, a limit that is near, a hook that failed."""

    text: str
    about: Literal["model", "hook", "limit", "tool", "store", "extension"] = "model"
    call: str = ""
    details: dict[str, Any] | None = None


class Audited(Record, frozen=True):
    """Why something was decided: model choice, refusal, fallback, permission, budget."""

    decision: str
    reason: str
    details: dict[str, Any] | None = None


class Delivered(Record, frozen=True):
    """A terminal agent has taken the message with that number."""

    message: int


class MessageRevised(Record, frozen=True):
    """A terminal agent redrew a message after it had become a fact."""

    message: int
    content: tuple[Block, ...]


def _leaves(base: type[Event]) -> list[type[Event]]:
    children = base.__subclasses__()
    return [leaf for child in children for leaf in _leaves(child)] if children else [base]


EVENT_TYPES: dict[str, type[Event]] = {str(event.__struct_config__.tag): event for event in _leaves(Event)}
"""Every event type by its tag."""
