"""Every event there is, as one tagged union.

An event is an *entry* (has a parent, forms the session's tree, may be sent to the model), a *record* (belongs
to the whole session, does not rewind), a *delta* (live only; the fact that follows has the whole) or a *live
value* (current state without history). Entries and records are facts: stored, numbered, committed before
anything sees them. `visibility.py` decides who gets each event. Fields with their default are not encoded.
No event has a field of the envelope, which `facts.py` adds.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec.structs import replace

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
from ostler.schema.messages import TodoItem as TodoItem
from ostler.schema.outcomes import Display, FailureKind, Question, ResumeStrategy
from ostler.schema.usage import Limits as Limits
from ostler.schema.usage import Totals as Totals
from ostler.schema.usage import Usage


class ExtensionEntry(Entry, frozen=True):
    """An extension's own entry on the tree. `told` is what the model gets of it, if anything."""

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
    """A user ran an extension's command. `text` is its output, or why it failed."""

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
    imported: int = 0
    """So many facts came from a file: no consent in them counts. Set by the import."""


class SessionRenamed(Record, frozen=True):
    """The session has a new title."""

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
    """Settings that apply from the next step on; only those that changed are present."""

    model: str = ""
    reasoning: str = ""
    tools: tuple[str, ...] | None = None
    permissions: str = ""
    by: str = "user"
    request: str = ""


class RequestRefused(Record, frozen=True):
    """A request from the inbox was refused."""

    request: str
    reason: str


class PromptsHeld(Record, frozen=True):
    """Prompts in the inbox wait until a user releases them."""

    reason: str


class PromptsReleased(Record, frozen=True):
    """The held prompts may start."""

    request: str = ""


# --- a run, in order --------------------------------------------------------------------------------
RunStatus = Literal["completed", "cancelled", "refused", "limit", "interrupted", "failed"]
Purpose = Literal["step", "compaction", "summary", "title", "extension", "aside"]
WaitReason = Literal["question", "pending", "paused"]


class RunStarted(Record, frozen=True):
    """A run starts, with its version, folder, model and limits."""

    version: str
    cwd: str
    model: str
    request: str = ""
    """The request that started it, if it came through the inbox."""
    permissions: str = ""
    limits: Limits = Limits()
    extensions: tuple[str, ...] = ()
    continues: bool = False
    """No new message: the run continues the transcript as it is."""
    root: str = ""
    """The run at the root of the tree of children, if it is not this one."""
    parent_run: str = ""
    depth: int = 0
    trace: str = ""
    """The host's id of the work that this run belongs to."""
    tags: dict[str, str | int | float | bool] = {}  # noqa: RUF012  # each struct gets its own
    agent: str = ""


class UserMessage(Entry, frozen=True):
    """A message to the model from a user, a steer, a reminder or a host. `hidden`: sent, but not shown."""

    content: tuple[PlainBlock, ...]
    source: Literal["prompt", "steer", "reminder", "hook", "terminal"] = "prompt"
    hidden: bool = False
    request: str = ""


class StepStarted(Record, frozen=True):
    """A step starts, with these tools. Steps count from 1 in each run."""

    number: int
    tools: tuple[str, ...] = ()


class ModelCalled(Record, frozen=True):
    """The intent to call a model, committed before the request is sent."""

    id: str
    model: str
    digest: str
    """Of the request in this schema's terms, not in the vendor's."""
    attempt: int = 1
    purpose: Purpose = "step"
    messages: int = 0
    trace: Any = None
    """How the context was built."""


class UsageReported(Record, frozen=True, tag="usage"):
    """Exactly one for each `model_called`, even if it failed or was interrupted."""

    call: str
    model: str
    usage: Usage
    cumulative: Usage
    purpose: Purpose = "step"


class AssistantMessage(Entry, frozen=True):
    """The model's answer. The model gets `content`; users see `shown` if a hook replaced it, and nothing if a
    hook set `suppressed`."""

    call: str
    """The `model_called` that it answers."""
    content: tuple[Block, ...]
    stop_reason: StopReason
    model: str = ""
    """As the vendor reported it, if it differs from the requested one."""
    shown: tuple[Block, ...] | None = None
    suppressed: bool = False
    request_id: str = ""


class ModelFailed(Record, frozen=True):
    """A model call without a message. `partial` is what had been streamed, for users only."""

    call: str
    failure: Failure
    attempt: int = 1
    retry_in: float | None = None
    """Seconds until the retry; absent if there is none."""
    rescue: str = ""
    """The fallback model, used for the rest of the run."""
    partial: tuple[Block, ...] = ()


class ToolCalled(Entry, frozen=True):
    """A tool call as the model wrote it. `malformed` says why its arguments are unusable."""

    call: str
    name: str
    arguments: dict[str, Any]
    step: int
    kind: str = "other"
    malformed: str = ""
    display: Display | None = None


class ToolStarted(Record, frozen=True):
    """The intent to run a tool, committed before it starts. A refused call has none."""

    call: str
    name: str
    attempt: int = 1
    arguments: dict[str, Any] | None = None
    """After hooks, if they changed the model's arguments."""
    key: str = ""
    child: str = ""
    """The session of the child run behind this call."""
    allowed_by: str = ""
    """The rule or the profile that permitted it."""
    confined: bool = False  # it can neither write files nor open sockets


class ChildStarted(Record, frozen=True):
    """A call or, with an empty `call`, an extension started a child: a run in its own session `child`."""

    call: str
    child: str
    agent: str = ""
    task: str = ""
    """The first words of its prompt."""
    extension: str = ""
    """The extension that spawned it. A child spawned outside a run belongs to no run."""


class ChildUsed(Record, frozen=True):
    """Usage that another vendor's agent reports for this call; it counts toward the parent's `children`."""

    call: str
    child: str
    usage: Usage

    @property
    def totals(self) -> Totals:
        """Without a price the cost is unknown, which no cost limit refuses."""
        usage = self.usage
        return Totals(usage=usage if usage.cost is not None else replace(usage, source="unknown"))


class ChildEnded(Record, frozen=True):
    """A child's run has ended; its usage counts toward the parent's `children`."""

    call: str
    child: str
    status: RunStatus
    own: Totals = Totals()
    children: Totals = Totals()
    reason: str = ""


class ToolDeferred(Record, frozen=True):
    """The tool returned `pending`: the call stays open until a request finishes it."""

    call: str
    handle: str = ""
    note: str = ""


class ToolResultFact(Entry, frozen=True, tag="tool_result"):
    """The result of a call; exactly one for each. The model gets `content`, users see `details`."""

    call: str
    name: str
    content: tuple[PlainBlock, ...] = ()
    failed: FailureKind | None = None
    details: dict[str, Any] | None = None
    summary: str = ""
    output: BlobRef | None = None
    """The whole output, if `content` contains only a part."""
    duration_ms: int = 0
    key: str = ""
    """The idempotency key, by which the result can be reused."""
    repeats: int = 0
    """The number of the result that this one reuses."""
    ends_run: bool = False


class StepEnded(Record, frozen=True):
    """A step has ended, and every call in it has its result."""

    number: int
    refused: str = ""
    """Why a hook did not let it start."""
    trace: Any = None
    """How the context was built, if it does not fit and no model was called."""


class QuestionAsked(Record, frozen=True):
    """A question to the user; any front end may answer it, once."""

    id: str
    question: Question
    call: str = ""
    """The tool call that waits for the answer, if any."""
    asked_by: Literal["permission", "tool", "hook", "extension", "mcp"] = "permission"
    durable: bool = True
    """It outlives the process; a question that a Python handler awaits does not."""
    state: Any = None
    resume: ResumeStrategy = ""


class QuestionAnswered(Record, frozen=True):
    """The one answer to a question; a `secret` one is left out. It counts only in the store with that id."""

    id: str
    outcome: Literal["answered", "declined", "withdrawn"]
    answer: Any = None
    by: str = ""
    request: str = ""
    identity: str = ""
    """Who answered: `user:NAME`, or `token:NAME` over HTTP. `by` is the name that the client gives itself."""
    store: str = ""


class PermissionRemembered(Record, frozen=True):
    """A rule that an answer remembers. `where`: the session, but not its copies, or the project's folder."""

    rule: str
    effect: Literal["allow", "ask", "deny", "revoked"]
    scope: Literal["session", "project", "user"]
    where: str = ""
    by: str = ""
    request: str = ""
    identity: str = ""
    store: str = ""


class RunWaiting(Record, frozen=True):
    """The run waits for something to arrive. The process may end; the run has not."""

    reason: WaitReason
    questions: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    request: str = ""


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
    request: str = ""
    """The request that cancelled it."""
    context: int = 0
    """Tokens of the last request and its answer as the vendor counted them; below, the number of messages."""
    context_messages: int = 0


# --- between runs, or at any time -------------------------------------------------------------------
class HistoryReplaced(Entry, frozen=True):
    """From here on the model gets `messages` instead of everything before on this path."""

    messages: tuple[Message, ...]
    usage: Usage | None = None
    """The initial cumulative usage, if the history comes from elsewhere."""
    by: str = "host"


class Compacted(Entry, frozen=True):
    """The model gets `summary` instead of the entries in `replaces`."""

    summary: str
    replaces: tuple[int, ...]
    keeps_from: int
    files: tuple[str, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    by: str = "automatic"
    request: str = ""


class CompactionUndone(Entry, frozen=True):
    """The model gets again what that compaction replaced."""

    compaction: int
    request: str = ""


class BranchCollapsed(Entry, frozen=True):
    """The summary of a branch that was left."""

    summary: str
    leaf: int
    request: str = ""


class TodoUpdated(Entry, frozen=True):
    """A to-do list, complete."""

    items: tuple[TodoItem, ...]
    list: str = "main"


class SourceCited(Record, frozen=True):
    """The model named a source."""

    call: str
    url: str = ""
    title: str = ""
    id: str = ""


class Warned(Record, frozen=True):
    """A warning for the user: from a vendor, of a limit that is near, of a hook that failed."""

    text: str
    about: Literal["model", "hook", "limit", "tool", "store", "extension"] = "model"
    call: str = ""
    details: dict[str, Any] | None = None


class Audited(Record, frozen=True):
    """The reason for a decision: model choice, refusal, fallback, permission, budget."""

    decision: str
    reason: str
    details: dict[str, Any] | None = None


class Delivered(Record, frozen=True):
    """A terminal agent accepted the message with that number."""

    message: int


class MessageRevised(Record, frozen=True):
    """A terminal agent redrew a message after it became a fact."""

    message: int
    content: tuple[Block, ...]


def _leaves(base: type[Event]) -> list[type[Event]]:
    children = base.__subclasses__()
    return [leaf for child in children for leaf in _leaves(child)] if children else [base]


EVENT_TYPES: dict[str, type[Event]] = {str(event.__struct_config__.tag): event for event in _leaves(Event)}
"""Every event type by its tag."""
