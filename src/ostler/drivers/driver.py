"""The contract of a driver: how a session talks to another vendor's agent, whatever the transport.

A driver starts the agent's process, sends it messages, and reports what it does to its `DriverListener`, the
`AgentSession`. A further transport is a module with one class, named in `DRIVERS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec

from ostler.drivers.agent_spec import AgentSpec, Transport
from ostler.schema.errors import OstlerError, UsageError
from ostler.schema.events import TodoItem
from ostler.schema.usage import Usage

if TYPE_CHECKING:
    from ostler.drivers.dialog import OpenDialog
    from ostler.drivers.json_lines import JsonProcess
    from ostler.drivers.pty_process import PtyProcess
    from ostler.drivers.screen import Screen
    from ostler.drivers.screen_stream import ScreenSubscription

Viewer = TypeVar("Viewer", bound="ScreenSubscription")
NOT_WAITING = "message can only be sent when the agent is waiting for user input"
ASKS_FIRST = f"{NOT_WAITING}: it asks a question, which a message cannot answer; answer that first"
STOPPED = "context canceled"
_NO_KEYBOARD = "this agent has no terminal: send a message, or press escape to interrupt it"

DRIVERS: dict[Transport, str] = {
    "pty": "ostler.drivers.screen_driver:ScreenDriver",
    "acp": "ostler.drivers.acp_driver:AcpDriver",
    "stream-json": "ostler.drivers.stream_json_driver:StreamJsonDriver",
}


class AgentMessage(msgspec.Struct, frozen=True):
    """One message; `id` is its place in the conversation, `time` seconds since 1970."""

    id: int
    role: Literal["agent", "user"]
    text: str
    time: float


Status = Literal["initializing", "changing", "stable", "asking"]
"""`stable`: it waits for a message. `asking`: it waits for the answer to a question."""


class SavedState(msgspec.Struct, frozen=True):
    """What an earlier process saved of a conversation."""

    messages: Sequence[AgentMessage] = ()
    initial_prompt: str = ""
    initial_prompt_sent: bool = False


# --- what a driver reports --------------------------------------------------------------------------


class TextUpdate(msgspec.Struct, frozen=True):
    """A piece of the agent's answer."""

    text: str


class ReasoningUpdate(msgspec.Struct, frozen=True):
    text: str


class FileChange(msgspec.Struct, frozen=True):
    """What a call changes in a file, or in a part of it; `old` is None for a new one."""

    path: str
    old: str | None
    new: str


ToolStatus = Literal["", "pending", "in_progress", "completed", "failed"]


class ToolUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """A call of the agent's own tools, or a change of one; values left out stay as they were."""

    id: str
    begins: bool = False
    """It is a new call, even if one with that id has ended."""
    name: str = ""
    title: str = ""
    kind: str = ""
    """As in ACP: `read`, `edit`, `execute` and so on."""
    status: ToolStatus = ""
    input: dict[str, Any] | None = None
    text: str | None = None
    """Its whole output so far."""
    changes: tuple[FileChange, ...] | None = None


class PlanUpdate(msgspec.Struct, frozen=True):
    """The agent's whole plan."""

    items: tuple[TodoItem, ...]


class UsageUpdate(msgspec.Struct, frozen=True):
    """The usage of the current turn, as the agent counts it; the last one of a turn counts."""

    usage: Usage | None = None
    context: int = 0
    """Tokens in its model's context."""
    model: str = ""


class ConversationUpdate(msgspec.Struct, frozen=True):
    """The agent's id of the conversation: a later process can continue it."""

    conversation: str


class Delivered(msgspec.Struct, frozen=True):
    """A screen reacted to the message that the tracker gave this number."""

    ticket: int


class Undelivered(msgspec.Struct, frozen=True):
    """It did not, and the message is not part of the conversation. `again`: it is tried once more."""

    ticket: int
    reason: str
    again: bool = False


class AnswerFailed(msgspec.Struct, frozen=True):
    """The answer to a dialog did not reach it, and nothing was confirmed."""

    reason: str


Update = (
    TextUpdate
    | ReasoningUpdate
    | ToolUpdate
    | PlanUpdate
    | UsageUpdate
    | ConversationUpdate
    | Delivered
    | Undelivered
    | AnswerFailed
)

OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class Option(msgspec.Struct, frozen=True):
    """One of the answers that the agent accepts."""

    id: str
    name: str
    kind: OptionKind

    @property
    def allows(self) -> bool:
        return self.kind.startswith("allow")


class PermissionRequest(msgspec.Struct, frozen=True):
    """The agent asks whether it may do something."""

    call: ToolUpdate
    options: tuple[Option, ...]
    reason: str = ""


class ChoiceRequest(msgspec.Struct, frozen=True):
    """The agent asks a question with choices."""

    call: ToolUpdate
    text: str
    choices: tuple[str, ...]
    several: bool = False
    reason: str = ""


class TurnEnd(msgspec.Struct, frozen=True):
    stop: Literal["end", "cancelled", "refusal", "limit"] = "end"
    reason: str = ""


class DriverListener(Protocol):
    async def begin_turn(self, text: str) -> bool:
        """Awaited before the agent gets a message, so that it is a fact first: if this raises, nothing is
        sent. False when the turn was cancelled in the meantime."""
        ...

    def update(self, update: Update) -> None:
        """Called at once and in order; it neither blocks nor raises."""
        ...

    def screen_changed(self) -> None:
        """The screen was read: status and messages may have changed."""
        ...

    async def permit(self, request: PermissionRequest) -> str | None:
        """The id of the chosen option; None if the turn was cancelled or no answer can come any more.

        A driver cancels it when the agent withdraws its question.
        """
        ...

    async def choose(self, request: ChoiceRequest) -> tuple[str, ...] | None:
        """The choices; empty when the question was declined, None as for `permit`."""
        ...


class ConversationGone(OstlerError):
    """The agent cannot continue its earlier conversation. It can be started with a new one."""


class Driver:
    """Drives one agent, one turn at a time.

    - The process is started when the driver is made, and stopped by its owner. An open turn raises when the
      process ends.
    - `update` is called in the order of the agent's output, and for a turn never after its `prompt` returned.
      What the agent repeats of an earlier conversation is left out.
    - Nothing is permitted that `permit` did not choose.
    """

    process: PtyProcess | JsonProcess
    screen: Screen | None = None
    confirms: Literal["delivery", "turn"] = "turn"
    """When a message counts as sent: a screen's on delivery, else at the end of the turn."""

    @property
    def status(self) -> Status:
        raise NotImplementedError

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """The conversation as read from the screen."""
        return ()

    @property
    def dialog(self) -> OpenDialog | None:
        """The dialog on its screen that waits for an answer."""
        return None

    def answer_dialog(self, number: int, choice: int) -> None:
        """Selects the choice at that place, and confirms it once the screen shows it selected; -1 presses the
        key that stops the agent. Raises `UsageError` when that dialog is no longer on the screen."""
        raise UsageError(_NO_KEYBOARD)

    async def start(self) -> None:
        """Waits until the agent accepts prompts.

        Raises `OstlerError`, or `ConversationGone` when it cannot continue `spec.conversation`.
        """

    async def prompt(self, text: str) -> TurnEnd | None:
        """One turn to its end; None where it ends once the screen is stable after `Delivered`.

        Raises `OstlerError` when the agent reports that it failed.
        """
        raise NotImplementedError

    def cancel(self) -> None:
        """Tells the agent to end the turn."""
        raise NotImplementedError

    def press(self, keys: bytes) -> None:
        raise UsageError(_NO_KEYBOARD)

    def paste(self, text: str) -> None:
        raise UsageError(_NO_KEYBOARD)

    def resize(self, columns: int, rows: int) -> None:
        raise UsageError("this agent has no terminal that could have a size")

    def view(self, make: Callable[[Callable[[], bytes]], Viewer]) -> Viewer:
        """Adds a viewer of the live screen, made from a function that returns the screen as bytes."""
        raise UsageError("this agent has no terminal to view")

    def pause(self) -> None:
        """Stops reading the agent's output, where too much of it waits."""

    def resume(self) -> None: ...

    def to_save(self) -> SavedState | None:
        return None

    def last_output(self) -> str:
        """The last thing that the agent showed. Called once the process has ended."""
        raise NotImplementedError

    async def close(self) -> None:
        """Frees what the driver holds. Called once the process is stopped."""


DriverFactory = Callable[[AgentSpec, str, DriverListener, SavedState | None], Driver]
"""Starts the agent's process in a session of that id. Raises `UsageError`."""


class ProtocolDriver(Driver):
    """The part that drivers without a terminal share."""

    process: JsonProcess
    is_started = False

    def __init__(self, spec: AgentSpec, listener: DriverListener) -> None:
        self._spec = spec
        self._listener = listener

    async def start(self) -> None:
        spec = self._spec
        try:
            async with asyncio.timeout(spec.start_timeout):
                await self._handshake()
        except TimeoutError:
            raise self.process.error(
                f"{spec.command[0]} did not answer within {spec.start_timeout:g} s: "
                f"perhaps it does not speak {spec.transport}, or wants another argument to do so"
            ) from None
        self.is_started = True

    async def _handshake(self) -> None:
        raise NotImplementedError

    @property
    def status(self) -> Status:
        return "stable" if self.is_started else "initializing"

    def pause(self) -> None:
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()

    def last_output(self) -> str:
        return self.process.last_stderr
