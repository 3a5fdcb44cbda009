"""Drives Claude Code by stream-JSON: messages and a control protocol, as lines on its standard streams.

The shapes are those that its official SDK reads and writes; unknown ones are ignored. An answer comes in
pieces (`stream_event`) and once more as a whole (`assistant`), of which only the calls are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.driver import (
    ChoiceRequest,
    ConversationGone,
    ConversationUpdate,
    DriverListener,
    FileChange,
    Option,
    PermissionRequest,
    ProtocolDriver,
    ReasoningUpdate,
    SavedState,
    TextUpdate,
    ToolStatus,
    ToolUpdate,
    TurnEnd,
    UsageUpdate,
)
from ostler.drivers.json_lines import JsonProcess
from ostler.schema.errors import OstlerError
from ostler.schema.usage import Usage

_OPTIONS: dict[str, tuple[str, ...]] = {
    "--print": (),
    "--input-format": ("stream-json",),
    "--output-format": ("stream-json",),
    "--verbose": (),
    "--include-partial-messages": (),
    "--permission-prompt-tool": ("stdio",),
}

_CONVERSATION_OPTIONS = {"--resume", "-r", "--session-id", "--continue", "-c", "--fork-session"}
_CONVERSATION_ID_OPTIONS = {"--resume", "-r", "--session-id"}

_KINDS = {
    "Bash": "execute",
    "Edit": "edit",
    "Glob": "search",
    "Grep": "search",
    "NotebookEdit": "edit",
    "Read": "read",
    "WebFetch": "fetch",
    "WebSearch": "fetch",
    "Write": "edit",
}

_TITLE_KEYS = ("command", "file_path", "notebook_path", "pattern", "url", "query", "description", "skill")
_LONGEST_TITLE = 120
_MAX_NUMBER = 10**15
_QUESTION_TOOL = "AskUserQuestion"
Json = dict[str, Any]


def with_options(command: Sequence[str], conversation: str = "") -> list[str]:
    """The command with the missing options for stream-JSON; it continues `conversation` instead of one that
    the command names."""
    words = list(_without_conversation(command)) if conversation else list(command)
    given = {"--print" if word == "-p" else word.partition("=")[0] for word in words}
    missing = [(option, *value) for option, value in _OPTIONS.items() if option not in given]
    resumed = ["--resume", conversation] if conversation else []
    return [*words, *[word for one in missing for word in one], *resumed]


def _without_conversation(command: Sequence[str]) -> Iterator[str]:
    first = next((place for place, word in enumerate(command) if "claude" in word), 0)
    yield from command[: first + 1]
    is_named = False
    for word in command[first + 1 :]:
        is_value = is_named and not word.startswith("-")
        is_named = word in _CONVERSATION_ID_OPTIONS
        if not is_value and word.partition("=")[0] not in _CONVERSATION_OPTIONS:
            yield word


def call_of(name: str, tool: str, given: Any, *, begins: bool = False) -> ToolUpdate:
    arguments = given if isinstance(given, dict) else {}
    titles = [str(arguments[key]) for key in _TITLE_KEYS if arguments.get(key)]
    return ToolUpdate(
        id=name,
        begins=begins,
        name=tool,
        title=" ".join(f"{tool} {titles[0] if titles else ''}".split())[:_LONGEST_TITLE],
        kind=_KINDS.get(tool, "other"),
        input=arguments,
        changes=_changes(arguments),
    )


def _changes(arguments: Json) -> tuple[FileChange, ...]:
    match arguments:
        case {"file_path": str(path), "old_string": str(old), "new_string": str(new)}:
            return (FileChange(path, old, new),)
        case {"file_path": str(path), "content": str(content)}:
            return (FileChange(path, None, content),)
    return ()


# --- its questions --------------------------------------------------------------------------------


def options_of(suggestions: Any) -> list[tuple[Option, Json | None]]:
    """Yes, no, and each lasting permission that the agent suggests, with what to send back for it."""
    lasting = [
        (Option(f"allow_always_{number}", f"Yes, and {_describe(one)}", "allow_always"), one)
        for number, one in enumerate(_dicts_in(suggestions), 1)
    ]
    return [
        (Option("allow", "Yes", "allow_once"), None),
        *lasting,
        (Option("reject", "No", "reject_once"), None),
    ]


def _describe(suggestion: Json) -> str:
    where = suggestion.get("destination") or "session"
    match suggestion:
        case {"type": "addRules", "rules": list(rules), "behavior": behavior}:
            contents = [(rule.get("toolName"), rule.get("ruleContent")) for rule in _dicts_in(rules)]
            names = [f"{tool}({content})" if content else str(tool) for tool, content in contents]
            return f"always {behavior} {', '.join(names)} ({where})"
        case {"type": "addDirectories", "directories": list(directories)}:
            return f"always allow {', '.join(map(str, directories))} ({where})"
        case {"type": "setMode", "mode": mode}:
            return f"switch to the permission mode {mode} ({where})"
    return f"{suggestion.get('type')} ({where})"


def verdict_of(chosen: str | None, options: list[tuple[Option, Json | None]], call: ToolUpdate) -> Json:
    if chosen is None:
        return INTERRUPTED
    option, suggestion = next(one for one in options if one[0].id == chosen)
    if not option.allows:
        return {"behavior": "deny", "message": "The user refused this."}
    lasting = {"updatedPermissions": [suggestion]} if suggestion else {}
    return {"behavior": "allow", "updatedInput": call.input, **lasting}


INTERRUPTED: Json = {"behavior": "deny", "message": "The user interrupted this.", "interrupt": True}
UNANSWERED: Json = {"behavior": "deny", "message": "The user declined to answer this."}


def questions_of(call: ToolUpdate) -> list[ChoiceRequest]:
    """The questions of its question tool, in order; none if one of them cannot be understood."""
    if call.name != _QUESTION_TOOL:
        return []
    questions = [_question(one, call) for one in _dicts_in((call.input or {}).get("questions"))]
    return questions if all(one.text and one.choices for one in questions) else []


def _question(question: Json, call: ToolUpdate) -> ChoiceRequest:
    options = {
        str(one["label"]): str(one.get("description") or "")
        for one in _dicts_in(question.get("options"))
        if one.get("label")
    }
    reasons = [f"{label}: {description}" for label, description in options.items() if description]
    text, several = str(question.get("question") or ""), question.get("multiSelect") is True
    return ChoiceRequest(call, text, tuple(options), several, "; ".join(reasons))


def answers_of(call: ToolUpdate, answers: dict[str, tuple[str, ...]]) -> Json:
    """The tool's input: its questions again, with the choices for each."""
    chosen = {question: ", ".join(labels) for question, labels in answers.items()}
    return {"behavior": "allow", "updatedInput": {**(call.input or {}), "answers": chosen}}


# --- its messages ---------------------------------------------------------------------------------


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(one.get("text", f"[{one.get('type')}]")) for one in _dicts_in(content))


def error_of(result: Json) -> str:
    errors = result.get("errors")
    text = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
    return text or str(result.get("result") or result.get("subtype") or "unknown error").strip()


def usage_of(result: Json, cost: float | None) -> Usage:
    """The tokens of the turn."""
    usage = result.get("usage")
    used = usage if isinstance(usage, dict) else {}
    return Usage(
        input_tokens=_count(used.get("input_tokens")),
        output_tokens=_count(used.get("output_tokens")),
        cache_read_tokens=_count(used.get("cache_read_input_tokens")),
        cache_write_tokens=_count(used.get("cache_creation_input_tokens")),
        cost=cost,
    )


def total_cost(result: Json) -> float | None:
    """The cost of all turns of this process."""
    match result.get("total_cost_usd"):
        case int() | float() as paid if not isinstance(paid, bool) and 0 <= paid < _MAX_NUMBER:
            return float(paid)
    return None


def models_of(result: Json) -> str:
    models = result.get("modelUsage")
    return ", ".join(map(str, models)) if isinstance(models, dict) else ""


def _count(value: Any) -> int:
    match value:
        case int() if not isinstance(value, bool) and 0 <= value < _MAX_NUMBER:
            return value
    return 0


def _dicts_in(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


class StreamJsonDriver(ProtocolDriver):
    def __init__(
        self, spec: AgentSpec, session: str, listener: DriverListener, saved: SavedState | None = None
    ) -> None:
        super().__init__(spec, listener)
        self._numbers = count(1)
        self._requests: dict[str, asyncio.Future[None]] = {}
        """Our open control requests."""
        self._questions: dict[str, asyncio.Task[None]] = {}
        """The agent's open control requests."""
        self._turn: asyncio.Future[Json] | None = None
        self._is_cancelled = False
        self._in_pieces: set[str] = set()
        """The messages of this turn whose text came in pieces."""
        self._calls: set[str] = set()
        """The calls of this turn that were reported. A subagent's are not, unless it asks for permission."""
        self._paid = 0.0
        self.process = JsonProcess(spec, with_options(spec.command, spec.conversation), session, self._take)
        self.process.ended.add_done_callback(lambda ended: self._give_up())

    async def _handshake(self) -> None:
        await self._control({"subtype": "initialize", "hooks": None})

    async def prompt(self, text: str) -> TurnEnd:
        if not await self._listener.begin_turn(text):
            return TurnEnd("cancelled")
        self._turn = asyncio.get_running_loop().create_future()
        self._is_cancelled = False
        if self.process.ended.done():
            raise self.process.error("the agent has ended")
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
        if result.get("stop_reason") == "refusal":
            return TurnEnd("refusal", "the model declined")
        return TurnEnd()

    def cancel(self) -> None:
        self._is_cancelled = True
        self._control({"subtype": "interrupt"})

    async def close(self) -> None:
        asking = list(self._questions.values())
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)

    def _give_up(self, problem: OstlerError | None = None) -> None:
        for waiting in (*self._requests.values(), self._turn):
            if waiting is not None and not waiting.done():
                waiting.set_exception(problem or self.process.error("the agent ended before it answered"))
                waiting.exception()  # retrieved: nobody waits for an interrupt's

    # --- the control protocol -------------------------------------------------------------------------

    def _control(self, request: Json) -> asyncio.Future[None]:
        name = f"req_{next(self._numbers)}"
        answered = self._requests[name] = asyncio.get_running_loop().create_future()
        self.process.send({"type": "control_request", "request_id": name, "request": request})
        if self.process.ended.done():
            self._give_up()
        return answered

    def _take_answer(self, response: Json) -> None:
        answered = self._requests.pop(str(response.get("request_id")), None)
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
                if name in self._questions:
                    return  # it repeats an open request
                call = call_of(str(request.get("tool_use_id") or name), tool, request.get("input"))
                self._calls.add(call.id)
                asking = self._questions[name] = asyncio.ensure_future(self._ask(name, call, request))
                asking.add_done_callback(lambda done: self._questions.pop(name, None))
            case _:
                problem = f"ostler does not support {request.get('subtype')}"
                self._respond({"subtype": "error", "request_id": name, "error": problem})

    async def _ask(self, name: str, call: ToolUpdate, request: Json) -> None:
        questions = questions_of(call)
        verdict = await (self._choose(call, questions) if questions else self._permit(call, request))
        self._respond({"subtype": "success", "request_id": name, "response": verdict})

    async def _permit(self, call: ToolUpdate, request: Json) -> Json:
        options = options_of(request.get("permission_suggestions"))
        reason = str(request.get("decision_reason") or request.get("description") or "")
        question = PermissionRequest(call, tuple(option for option, _ in options), reason)
        return verdict_of(await self._listener.permit(question), options, call)

    async def _choose(self, call: ToolUpdate, questions: list[ChoiceRequest]) -> Json:
        answers: dict[str, tuple[str, ...]] = {}
        for question in questions:
            choices = await self._listener.choose(question)
            if not choices:
                return INTERRUPTED if choices is None else UNANSWERED
            answers[question.text] = choices
        return answers_of(call, answers)

    def _respond(self, response: Json) -> None:
        self.process.send({"type": "control_response", "response": response})

    # --- messages -------------------------------------------------------------------------------------

    def _take(self, message: Json) -> None:
        match message:
            case {"type": "control_response", "response": dict(response)}:
                self._take_answer(response)
            case {"type": "control_request", "request_id": str(name), "request": dict(request)}:
                self._take_request(name, request)
            case {"type": "control_cancel_request", "request_id": str(name)}:
                if name in self._questions:
                    self._questions[name].cancel()
            case {"type": "system", "subtype": "init", "session_id": str(conversation)}:
                self._listener.update(ConversationUpdate(conversation))
            case {"type": "result"} if self._spec.conversation and not self.is_started:
                self._give_up(ConversationGone(error_of(message)))
            case _ if self._turn is None or self._turn.done():
                return  # what it does between turns belongs to no run
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
                self._listener.update(TextUpdate(text))
            case {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": str(text)}}:
                self._listener.update(ReasoningUpdate(text))

    def _take_block(self, block: Any, *, is_new: bool, is_its_own: bool) -> None:
        match block:
            case {"type": "text", "text": str(text)} if is_new:
                self._listener.update(TextUpdate(text))
            case {"type": "thinking", "thinking": str(text)} if is_new:
                self._listener.update(ReasoningUpdate(text))
            case {"type": "tool_use", "id": str(name), "name": str(tool)} if is_its_own:
                self._calls.add(name)
                self._listener.update(call_of(name, tool, block.get("input"), begins=True))

    def _take_result(self, block: Any) -> None:
        match block:
            case {"type": "tool_result", "tool_use_id": str(name)} if name in self._calls:
                status: ToolStatus = "failed" if block.get("is_error") else "completed"
                self._listener.update(ToolUpdate(id=name, status=status, text=text_of(block.get("content"))))

    def _used(self, result: Json) -> UsageUpdate:
        """It reports the cost of all turns of this process."""
        paid, before = total_cost(result), self._paid
        self._paid = before if paid is None else paid
        cost = None if paid is None else max(0.0, paid - before)
        return UsageUpdate(usage_of(result, cost), model=models_of(result))
