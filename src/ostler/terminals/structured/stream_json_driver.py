"""Claude Code's stream-JSON: messages and a control protocol, as lines on its standard streams.

The shapes are those that its official SDK reads and writes. An answer comes in pieces (`stream_event`) and
once more as a whole (`assistant`), of which only the calls are taken.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from ostler.terminals.structured.driver import (
    ConversationGone,
    Conversing,
    Inquiry,
    Listener,
    Permission,
    Said,
    StructuredAgent,
    Thought,
    ToolStatus,
    ToolUpdate,
    TurnEnd,
    Used,
)
from ostler.terminals.structured.line_process import LineProcess
from ostler.terminals.structured.stream_json_shapes import (
    INTERRUPTED,
    UNANSWERED,
    Json,
    answers_of,
    call_of,
    error_of,
    inquiries_of,
    models_of,
    options_of,
    paid_until,
    text_of,
    usage_of,
    verdict_of,
    with_options,
)
from ostler.vocabulary.errors import OstlerError


class StreamJsonDriver:
    """See `Driver`."""

    def __init__(self, agent: StructuredAgent, session: str, listener: Listener) -> None:
        self._agent = agent
        self._listener = listener
        self._is_greeted = False
        self._numbers = count(1)
        self._asked: dict[str, asyncio.Future[None]] = {}
        """Our own control requests, until they are answered."""
        self._asking: dict[str, asyncio.Task[None]] = {}
        """Those of the agent."""
        self._turn: asyncio.Future[Json] | None = None
        self._is_cancelled = False
        self._in_pieces: set[str] = set()
        """The messages of this turn whose text came in pieces."""
        self._calls: set[str] = set()
        """Those of this turn that were told of. A subagent's are not, unless it asks for permission."""
        self._paid = 0.0
        self.process = LineProcess(
            agent, with_options(agent.command, agent.conversation), session, self._take
        )
        self.process.ended.add_done_callback(lambda ended: self._give_up())

    async def start(self) -> None:
        await self._control({"subtype": "initialize", "hooks": None})
        self._is_greeted = True

    async def prompt(self, text: str) -> TurnEnd:
        self._turn = asyncio.get_running_loop().create_future()
        self._is_cancelled = False
        if self.process.ended.done():
            raise self.process.problem("the agent has ended")
        message = {"role": "user", "content": text}
        self.process.send({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""})
        try:
            result = await self._turn
        finally:
            self._turn = None
            self._in_pieces.clear()
            self._calls.clear()
        self._listener.update(self._used(result))
        if self._is_cancelled:
            return TurnEnd("cancelled")
        if result.get("is_error"):
            raise OstlerError(f"the agent failed: {error_of(result)}")
        return (
            TurnEnd("refusal", "the model declined") if result.get("stop_reason") == "refusal" else TurnEnd()
        )

    def cancel(self) -> None:
        self._is_cancelled = True
        self._control({"subtype": "interrupt"})

    async def close(self) -> None:
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)

    def _give_up(self, problem: OstlerError | None = None) -> None:
        for waiting in (*self._asked.values(), self._turn):
            if waiting is not None and not waiting.done():
                waiting.set_exception(problem or self.process.problem("the agent ended before it answered"))
                waiting.exception()  # it may be nobody's: an interrupt's is not waited for

    # --- the control protocol -------------------------------------------------------------------------

    def _control(self, request: Json) -> asyncio.Future[None]:
        name = f"req_{next(self._numbers)}"
        answered = self._asked[name] = asyncio.get_running_loop().create_future()
        self.process.send({"type": "control_request", "request_id": name, "request": request})
        if self.process.ended.done():
            self._give_up()
        return answered

    def _take_answer(self, response: Json) -> None:
        answered = self._asked.pop(str(response.get("request_id")), None)
        if answered is None or answered.done():
            return
        if response.get("subtype") == "error":
            answered.set_exception(OstlerError(f"the agent refused: {response.get('error')}"))
            answered.exception()
        else:
            answered.set_result(None)

    def _take_request(self, name: str, request: Json) -> None:
        match request:
            case {"subtype": "can_use_tool", "tool_name": str(tool)}:
                if name in self._asking:
                    return  # it says again what it waits for
                call = call_of(str(request.get("tool_use_id") or name), tool, request.get("input"))
                self._calls.add(call.id)
                asking = self._asking[name] = asyncio.ensure_future(self._ask(name, call, request))
                asking.add_done_callback(lambda done: self._asking.pop(name, None))
            case _:
                problem = f"ostler does not know {request.get('subtype')}"
                self._respond({"subtype": "error", "request_id": name, "error": problem})

    async def _ask(self, name: str, call: ToolUpdate, request: Json) -> None:
        inquiries = inquiries_of(call)
        verdict = await (self._inquire(call, inquiries) if inquiries else self._permit(call, request))
        self._respond({"subtype": "success", "request_id": name, "response": verdict})

    async def _permit(self, call: ToolUpdate, request: Json) -> Json:
        options = options_of(request.get("permission_suggestions"))
        reason = str(request.get("decision_reason") or request.get("description") or "")
        offered = tuple(option for option, _ in options)
        return verdict_of(await self._listener.permit(Permission(call, offered, reason)), options, call)

    async def _inquire(self, call: ToolUpdate, asked: list[Inquiry]) -> Json:
        answers: dict[str, tuple[str, ...]] = {}
        for inquiry in asked:
            chosen = await self._listener.inquire(inquiry)
            if not chosen:
                return INTERRUPTED if chosen is None else UNANSWERED
            answers[inquiry.text] = chosen
        return answers_of(call, answers)

    def _respond(self, response: Json) -> None:
        self.process.send({"type": "control_response", "response": response})

    # --- what it says ---------------------------------------------------------------------------------

    def _take(self, message: Json) -> None:
        match message:
            case {"type": "control_response", "response": dict(response)}:
                self._take_answer(response)
            case {"type": "control_request", "request_id": str(name), "request": dict(request)}:
                self._take_request(name, request)
            case {"type": "control_cancel_request", "request_id": str(name)}:
                if name in self._asking:
                    self._asking[name].cancel()
            case {"type": "system", "subtype": "init", "session_id": str(conversation)}:
                self._listener.update(Conversing(conversation))
            case {"type": "result"} if self._agent.conversation and not self._is_greeted:
                self._give_up(ConversationGone(error_of(message)))
            case _ if self._turn is None or self._turn.done():
                return  # what it does between turns, of itself, belongs to no run
            case {"type": "stream_event", "event": dict(event)} if message.get("parent_tool_use_id") is None:
                self._take_piece(event)
            case {"type": "assistant", "message": {"content": list(content), **about}}:
                is_its_own = message.get("parent_tool_use_id") is None
                is_new = is_its_own and str(about.get("id")) not in self._in_pieces
                for block in content:
                    self._take_block(block, is_new=is_new, is_its_own=is_its_own)
            case {"type": "user", "message": {"content": list(content)}}:
                for block in content:
                    self._take_result(block)
            case {"type": "result"}:
                self._turn.set_result(message)

    def _take_piece(self, event: Json) -> None:
        match event:
            case {"type": "message_start", "message": {"id": str(name)}}:
                self._in_pieces.add(name)
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}}:
                self._listener.update(Said(text))
            case {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": str(text)}}:
                self._listener.update(Thought(text))

    def _take_block(self, block: Any, *, is_new: bool, is_its_own: bool) -> None:
        match block:
            case {"type": "text", "text": str(text)} if is_new:
                self._listener.update(Said(text))
            case {"type": "thinking", "thinking": str(text)} if is_new:
                self._listener.update(Thought(text))
            case {"type": "tool_use", "id": str(name), "name": str(tool)} if is_its_own:
                self._calls.add(name)
                self._listener.update(call_of(name, tool, block.get("input"), begins=True))

    def _take_result(self, block: Any) -> None:
        match block:
            case {"type": "tool_result", "tool_use_id": str(name)} if name in self._calls:
                status: ToolStatus = "failed" if block.get("is_error") else "completed"
                self._listener.update(ToolUpdate(id=name, status=status, text=text_of(block.get("content"))))

    def _used(self, result: Json) -> Used:
        """It tells the cost of all turns of this life."""
        paid, before = paid_until(result), self._paid
        self._paid = before if paid is None else paid
        cost = None if paid is None else max(0.0, paid - before)
        return Used(usage_of(result, cost), model=models_of(result))
