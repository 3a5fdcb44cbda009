"""Drives agents that speak the Agent Client Protocol, version 1, through its official package.

We offer neither files nor terminals: the agent uses its own, and asks for permission where it must.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ostler import __version__
from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.driver import (
    ConversationGone,
    ConversationUpdate,
    DriverListener,
    FileChange,
    Option,
    PermissionRequest,
    PlanUpdate,
    ProtocolDriver,
    ReasoningUpdate,
    SavedState,
    TextUpdate,
    ToolUpdate,
    TurnEnd,
    UsageUpdate,
)
from ostler.drivers.json_lines import JsonProcess
from ostler.schema.errors import OstlerError, UsageError, how_to_install
from ostler.schema.events import TodoItem
from ostler.schema.usage import Usage

if TYPE_CHECKING:
    from acp import schema
    from acp.client.connection import ClientSideConnection

_STOPS: dict[str, TurnEnd] = {
    "cancelled": TurnEnd("cancelled"),
    "refusal": TurnEnd("refusal", "the agent declined to go on"),
    "max_tokens": TurnEnd("limit", "the answer reached the agent's limit of tokens"),
    "max_turn_requests": TurnEnd("limit", "the agent made as many model calls as it may in a turn"),
}

_TODO = {"pending": "open", "in_progress": "active", "completed": "done"}
_AUTH_REQUIRED = -32000


class AcpDriver(ProtocolDriver):
    def __init__(
        self, spec: AgentSpec, session: str, listener: DriverListener, saved: SavedState | None = None
    ) -> None:
        try:
            from acp import connect_to_agent
        except ModuleNotFoundError:
            raise UsageError(f"no support for agents that speak ACP: {how_to_install('acp')}") from None
        super().__init__(spec, listener)
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.process = JsonProcess(spec, list(spec.command), session, self._messages.put_nowait)
        self.process.ended.add_done_callback(lambda ended: self._messages.put_nowait(None))
        self._client = _Client(listener)
        self._connection: ClientSideConnection = connect_to_agent(self._client, _Pipes(self))  # type: ignore[arg-type]
        self._cancelling: asyncio.Future[None] | None = None

    async def _handshake(self) -> None:
        from acp import PROTOCOL_VERSION
        from acp.schema import ClientCapabilities, Implementation

        about = Implementation(name="ostler", title="Ostler", version=__version__)
        request = self._connection.initialize(PROTOCOL_VERSION, ClientCapabilities(), about)
        answer = await self._ask(request, "initialize")
        if answer.protocol_version != PROTOCOL_VERSION:
            raise OstlerError(
                f"the agent speaks version {answer.protocol_version} of the Agent Client Protocol; "
                f"only version {PROTOCOL_VERSION} is supported"
            )
        self._client.session = await self._open(answer.agent_capabilities)
        self._listener.update(ConversationUpdate(self._client.session))

    async def _open(self, capabilities: schema.AgentCapabilities | None) -> str:
        """Opens a session. What the agent repeats of an earlier one belongs to no turn, and is ignored."""
        cwd, conversation = str(self._spec.cwd.absolute()), self._spec.conversation
        if not conversation:
            opened = await self._ask(self._connection.new_session(cwd, mcp_servers=[]), "session/new")
            return str(opened.session_id)
        if capabilities is None or not capabilities.load_session:
            raise ConversationGone("the agent cannot load an earlier conversation")
        self._client.session = conversation  # what it has cost until now counts
        try:
            await self._ask(self._connection.load_session(cwd, conversation, mcp_servers=[]), "session/load")
        except OstlerError as error:
            raise ConversationGone(error.message) from None
        return conversation

    async def prompt(self, text: str) -> TurnEnd:
        from acp import text_block

        if not await self._listener.begin_turn(text):
            return TurnEnd("cancelled")
        self._client.begin_turn()
        try:
            request = self._connection.prompt(self._client.session, [text_block(text)])
            ended = await self._ask(request, "session/prompt")
        finally:
            self._client.is_in_turn = False
        return _STOPS.get(ended.stop_reason, TurnEnd())

    def cancel(self) -> None:
        self._cancelling = asyncio.ensure_future(self._cancel())

    async def _cancel(self) -> None:
        try:
            await self._connection.cancel(self._client.session)
        except ConnectionError:
            return  # the agent has ended

    async def close(self) -> None:
        await self._connection.close()

    async def _ask(self, answer: Any, method: str) -> Any:
        from acp import RequestError
        from pydantic import ValidationError

        try:
            return await answer
        except RequestError as error:
            raise OstlerError(_error_text(error, method)) from None
        except ValidationError:
            raise self.process.error(
                f"the agent's answer to {method} does not fit the Agent Client Protocol"
            ) from None
        except ConnectionError:
            raise self.process.error(f"the agent ended before it answered {method}") from None


def _error_text(error: Any, method: str) -> str:
    if error.code == _AUTH_REQUIRED and method == "session/new":
        return f"the agent wants a login: start it once by itself and log in ({error})"
    details = error.data.get("details") if isinstance(error.data, dict) else error.data
    return f"the agent refused {method}: {error}" + (f": {details}" if details else "")


class _Pipes:
    """The agent's process as a transport of the package."""

    def __init__(self, driver: AcpDriver) -> None:
        self._driver = driver

    async def send(self, message: dict[str, Any]) -> None:
        self._driver.process.send(message)

    async def receive(self) -> dict[str, Any] | None:
        """Passes on only what the package can handle: it prints tracebacks of unknown messages, and some end
        it. Notifications are handled here, in order, as the package would."""
        while True:
            message = await self._driver._messages.get()
            if message is None or ("id" in message and _is_valid(message)):
                return message
            if message.get("method") == "session/update":
                asyncio.get_running_loop().call_soon(self._driver._client.take, message.get("params"))

    async def close(self) -> None:
        pass


def _is_valid(message: dict[str, Any]) -> bool:
    return (
        isinstance(message["id"], int | str | None)
        and isinstance(message.get("method"), str | None)
        and isinstance(message.get("error"), dict | None)
    )


class _Client:
    """What the agent reports, and may ask of us."""

    def __init__(self, listener: DriverListener) -> None:
        self._listener = listener
        self.session = ""
        self.is_in_turn = False
        self._paid = 0.0
        self._paid_before = 0.0

    def begin_turn(self) -> None:
        self.is_in_turn = True
        self._paid_before = self._paid

    def take(self, params: Any) -> None:
        from acp.schema import SessionNotification
        from pydantic import ValidationError

        try:
            notification = SessionNotification.model_validate(params)
        except ValidationError:
            return  # an unknown kind
        update: Any = notification.update
        if notification.session_id != self.session:
            return
        if update.session_update == "usage_update" and update.cost:
            self._paid = update.cost.amount if update.cost.currency == "USD" else 0.0
        if not self.is_in_turn:
            return
        match update.session_update:
            case "agent_message_chunk":
                self._listener.update(TextUpdate(_text_of(update.content)))
            case "agent_thought_chunk":
                self._listener.update(ReasoningUpdate(_text_of(update.content)))
            case "tool_call" | "tool_call_update":
                self._listener.update(_tool(update, begins=update.session_update == "tool_call"))
            case "plan":
                self._listener.update(_plan(update))
            case "usage_update":
                self._listener.update(self._used(update))

    def _used(self, update: schema.UsageUpdate) -> UsageUpdate:
        """The agent reports its whole cost so far, and only the tokens of its context."""
        if not update.cost or update.cost.currency != "USD":
            return UsageUpdate(context=update.used)
        cost = max(0.0, self._paid - self._paid_before)
        return UsageUpdate(Usage(cost=cost, source="unknown"), update.used)

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **more: Any,
    ) -> schema.RequestPermissionResponse:
        from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

        choices = tuple(Option(one.option_id, one.name, one.kind) for one in options)
        option = await self._listener.permit(PermissionRequest(_tool(tool_call), choices))
        if option is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option))


def _tool(update: Any, *, begins: bool = False) -> ToolUpdate:
    content = update.content
    diffs = [one for one in content or () if one.type == "diff"]
    changes = tuple(FileChange(one.path, one.old_text, one.new_text) for one in diffs)
    texts = [_text_of(one.content) for one in content or () if one.type == "content"]
    arguments = update.raw_input
    return ToolUpdate(
        id=update.tool_call_id,
        begins=begins,
        title=update.title or "",
        kind=update.kind or "",
        status=update.status or "",
        input=arguments if isinstance(arguments, dict | None) else {"input": arguments},
        text=None if content is None else "\n".join(text for text in texts if text),
        changes=None if content is None else changes,
    )


def _plan(update: schema.AgentPlanUpdate) -> PlanUpdate:
    items = [
        TodoItem(str(number), entry.content, _TODO.get(entry.status, "open"))  # type: ignore[arg-type]
        for number, entry in enumerate(update.entries, 1)
    ]
    return PlanUpdate(tuple(items))


def _text_of(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "resource_link":
            return str(block.uri)
        case "resource":
            return str(getattr(block.resource, "text", None) or block.resource.uri)
    return f"[{block.type}]"
