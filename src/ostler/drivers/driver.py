"""What drives an agent that speaks a protocol: the contract of a driver, and what it tells.

A further driver is a module with one class. It starts a `JsonProcess`, makes `Update`s of what that writes,
and asks its listener before it permits anything. `ProtocolSession` does the rest.
"""
# MERGED: What a face can ask of another vendor's agent, however it is driven.

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ostler.drivers.agent_spec import Transport, detect
from ostler.schema.errors import OstlerError
from ostler.schema.events import TodoItem
from ostler.schema.usage import Usage

if TYPE_CHECKING:
    from ostler.drivers.json_lines import JsonProcess


StructuredTransport = Literal["acp", "stream-json"]


class ProtocolAgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which agent to start, and what it speaks."""

    command: Sequence[str]
    cwd: Path
    transport: StructuredTransport
    agent_type: str = ""
    """Empty: the command says it."""
    environment: Mapping[str, str] = {}  # each struct gets its own
    initial_prompt: str = ""
    conversation: str = ""
    """Of an earlier life, by the agent's own name for it: what it is to go on with."""
    start_timeout: float = 60.0
    """Seconds that it has to say that it is there: some update themselves first."""

    @property
    def type(self) -> str:
        return detect(self.command, self.agent_type)


# --- what a driver tells ----------------------------------------------------------------------------


class TextUpdate(msgspec.Struct, frozen=True):
    """A piece of the agent's answer."""

    text: str


class ReasoningUpdate(msgspec.Struct, frozen=True):
    text: str


class FileChange(msgspec.Struct, frozen=True):
    """What a call makes of a file, or of a part of it; `old` is None for a new one."""

    path: str
    old: str | None
    new: str


ToolStatus = Literal["", "pending", "in_progress", "completed", "failed"]


class ToolUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """A call of the agent's own tools, or news of one: what is left out is as it was."""

    id: str
    begins: bool = False
    """It is another call, also where one of that id has ended."""
    name: str = ""
    title: str = ""
    kind: str = ""
    """In the words of ACP: `read`, `edit`, `execute` and so on."""
    status: ToolStatus = ""
    input: dict[str, Any] | None = None
    text: str | None = None
    """All that it has printed so far."""
    changes: tuple[FileChange, ...] | None = None


class PlanUpdate(msgspec.Struct, frozen=True):
    """The whole of its plan, as it is now."""

    items: tuple[TodoItem, ...]


class UsageUpdate(msgspec.Struct, frozen=True):
    """What the present turn has used, as the agent counts; the last one of a turn holds."""

    usage: Usage | None = None
    context: int = 0
    """Tokens of what its model is told."""
    model: str = ""


class ConversationUpdate(msgspec.Struct, frozen=True):
    """By this name a later life of the agent can go on with what it remembers."""

    conversation: str


Update = TextUpdate | ReasoningUpdate | ToolUpdate | PlanUpdate | UsageUpdate | ConversationUpdate


OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class Option(msgspec.Struct, frozen=True):
    """One of the answers that the agent takes."""

    id: str
    name: str
    kind: OptionKind

    @property
    def allows(self) -> bool:
        return self.kind.startswith("allow")


class PermissionRequest(msgspec.Struct, frozen=True):
    """What the agent must not do before somebody has said so."""

    call: ToolUpdate
    options: tuple[Option, ...]
    reason: str = ""


class ChoiceRequest(msgspec.Struct, frozen=True):
    """What the agent wants to know, and lets people choose from."""

    call: ToolUpdate
    text: str
    choices: tuple[str, ...]
    several: bool = False
    reason: str = ""


class TurnEnd(msgspec.Struct, frozen=True):
    stop: Literal["end", "cancelled", "refusal", "limit"] = "end"
    reason: str = ""


class DriverListener(Protocol):
    """Whom a driver tells."""

    def update(self, update: Update) -> None:
        """At once and in order; it neither waits nor raises."""
        ...

    async def permit(self, asked: PermissionRequest) -> str | None:
        """The id of the chosen option; None when the turn was cancelled, or nobody can be asked any more.

        A driver cancels it when the agent takes its question back.
        """
        ...

    async def choose(self, asked: ChoiceRequest) -> tuple[str, ...] | None:
        """What was chosen: nothing by who declined. None as for `permit`."""
        ...


class ConversationGone(OstlerError):
    """The agent cannot go on with its earlier conversation. Another life of it may begin a new one."""


class Driver(Protocol):
    """Speaks with one agent, one turn at a time.

    - The process is started when the driver is made, and ended by its owner. When it ends, an open turn
      raises.
    - `update` is called in the order in which the agent spoke, and for what belongs to a turn never after its
      `prompt` returned. What the agent says again of an earlier life is left out.
    - Nothing is permitted that `permit` did not choose.
    """

    process: JsonProcess

    async def start(self) -> None:
        """Until the agent takes prompts, and remembers `agent.conversation` if there is one. Its owner bounds
        the time. Raises `OstlerError`, or `ConversationGone`."""
        ...

    async def prompt(self, text: str) -> TurnEnd:
        """One turn, to its end. Raises `OstlerError` when the agent says that it failed."""
        ...

    def cancel(self) -> None:
        """Tells the agent to end the turn; `prompt` returns when it did."""
        ...

    async def close(self) -> None:
        """After the process has ended: nothing of the driver's own is left."""
        ...


def open_driver(agent: ProtocolAgentSpec, session: str, listener: DriverListener) -> Driver:
    """Starts the agent's process. Raises `UsageError`."""
    if agent.transport == "acp":
        from ostler.drivers.acp_driver import AcpDriver

        return AcpDriver(agent, session, listener)
    from ostler.drivers.stream_json_driver import StreamJsonDriver

    return StreamJsonDriver(agent, session, listener)


class Observer(Protocol):
    """Told at once, on the event loop; it must neither wait nor raise."""

    def changed(self) -> None:
        """Status, messages or screen may be others now."""
        ...

    def warned(self, problem: str) -> None:
        """Something went wrong that nobody is waiting to hear."""
        ...


class DrivenAgent(Protocol):
    """A session whose agent is another vendor's: the one writer of its log, from its start to its end."""

    @property
    def id(self) -> str: ...

    @property
    def agent_type(self) -> str: ...

    @property
    def transport(self) -> Transport: ...

    @property
    def status(self) -> Status:
        """`stable`: it waits for the next message. What it said last is a fact by then."""
        ...

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """The whole conversation. Only the last message changes, and only while it is the agent's."""
        ...

    @property
    def shown(self) -> str:
        """Its screen as text, each row padded; of an agent without a screen, what it says at present."""
        ...

    @property
    def ended(self) -> asyncio.Future[int]:
        """Done when nothing of it is left to do: the agent's exit status."""
        ...

    @property
    def last_screen(self) -> str:
        """What it showed at its end, for whoever asks why."""
        ...

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        """Until the function that is returned is called."""
        ...

    def to_save(self) -> SavedState:
        """What a later life of the agent can be given."""
        ...

    async def send(self, text: str, *, request: str = "") -> None:
        """Says something to it, now or not at all; returns when it was taken.

        Raises `SessionBusy` or `UsageError` at once, and `OstlerError` when the agent does not react.
        """
        ...

    def press(self, keys: bytes) -> None:
        """Keys as a keyboard sends them, at any time. They are never stored. Raises `SessionBusy`."""
        ...

    def interrupt(self, request: str = "") -> bool:
        """Makes it stop what it does; False when that was asked for before."""
        ...

    async def close(self) -> None:
        """Ends the agent, and the session with it."""
        ...


class AgentMessage(msgspec.Struct, frozen=True):
    """One message; `id` is its place in the conversation, `time` seconds since 1970."""

    id: int
    role: Literal["agent", "user"]
    text: str
    time: float


Status = Literal["initializing", "changing", "stable"]


class SavedState(msgspec.Struct, frozen=True):
    """What an earlier process kept of a conversation."""

    messages: Sequence[AgentMessage] = ()
    initial_prompt: str = ""
    initial_prompt_sent: bool = False
