"""Claude Code's stream-JSON: messages and a control protocol, as lines on its standard streams.

The shapes are those that its official SDK reads and writes. An answer comes in pieces (`stream_event`) and
once more as a whole (`assistant`), of which only the calls are taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

from ostler.terminals.structured.driver import (
    FileChange,
    Listener,
    Option,
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
from ostler.vocabulary.errors import OstlerError
from ostler.vocabulary.usage import Usage

_OPTIONS: dict[str, tuple[str, ...]] = {
    "--print": (),
    "--input-format": ("stream-json",),
    "--output-format": ("stream-json",),
    "--verbose": (),
    "--include-partial-messages": (),
    "--permission-prompt-tool": ("stdio",),
}
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
_TELLING = ("command", "file_path", "notebook_path", "pattern", "url", "query", "description", "skill")
_LONGEST_TITLE = 120

Json = dict[str, Any]


class StreamJsonDriver:
    """See `Driver`."""

    def __init__(self, agent: StructuredAgent, session: str, listener: Listener) -> None:
        self._listener = listener
        self._numbers = count(1)
        self._asked: dict[str, asyncio.Future[None]] = {}
        """Our own control requests, until they are answered."""
        self._asking: dict[str, asyncio.Task[None]] = {}
        """Those of the agent."""
        self._turn: asyncio.Future[Json] | None = None
        self._is_cancelled = False
        self._in_pieces: set[str] = set()
        """The messages of this turn whose text came in pieces."""
        self._paid = 0.0
        self.process = LineProcess(agent, _command(agent.command), session, self._take)
        self.process.ended.add_done_callback(lambda ended: self._give_up())

    async def start(self) -> None:
        await self._control({"subtype": "initialize", "hooks": None})

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
        self._listener.update(self._used(result))
        if self._is_cancelled:
            return TurnEnd("cancelled")
        if result.get("is_error"):
            raise OstlerError(f"the agent failed: {_error_of(result)}")
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

    def _give_up(self) -> None:
        for waiting in (*self._asked.values(), self._turn):
            if waiting is not None and not waiting.done():
                waiting.set_exception(self.process.problem("the agent ended before it answered"))
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
        if request.get("subtype") != "can_use_tool":
            problem = f"ostler does not know {request.get('subtype')}"
            self._respond({"subtype": "error", "request_id": name, "error": problem})
            return
        asking = asyncio.ensure_future(self._permit(name, request))
        self._asking[name] = asking
        asking.add_done_callback(lambda done: self._asking.pop(name, None))

    async def _permit(self, name: str, request: Json) -> None:
        options = _options(request.get("permission_suggestions") or [])
        call = _call(str(request.get("tool_use_id") or name), str(request["tool_name"]), request.get("input"))
        reason = str(request.get("decision_reason") or request.get("description") or "")
        offered = tuple(option for option, _ in options)
        chosen = await self._listener.permit(Permission(call, offered, reason))
        self._respond({"subtype": "success", "request_id": name, "response": _verdict(chosen, options, call)})

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
            case _ if self._turn is None or self._turn.done():
                return  # what it does between turns, of itself, belongs to no run
            case {"type": "stream_event", "event": dict(event)} if message.get("parent_tool_use_id") is None:
                self._take_piece(event)
            case {"type": "assistant", "message": {"content": list(content), **about}}:
                is_its_own = message.get("parent_tool_use_id") is None
                is_new = is_its_own and about.get("id") not in self._in_pieces
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
                self._listener.update(_call(name, tool, block.get("input"), begins=True))

    def _take_result(self, block: Any) -> None:
        match block:
            case {"type": "tool_result", "tool_use_id": str(name)}:
                status: ToolStatus = "failed" if block.get("is_error") else "completed"
                self._listener.update(ToolUpdate(id=name, status=status, text=_text_of(block.get("content"))))

    def _used(self, result: Json) -> Used:
        """Its tokens are those of the turn, its cost is that of all turns."""
        told = result.get("usage") or {}
        paid = result.get("total_cost_usd")
        cost = None if paid is None else max(0.0, float(paid) - self._paid)
        self._paid = self._paid if paid is None else float(paid)
        usage = Usage(
            input_tokens=int(told.get("input_tokens") or 0),
            output_tokens=int(told.get("output_tokens") or 0),
            cache_read_tokens=int(told.get("cache_read_input_tokens") or 0),
            cache_write_tokens=int(told.get("cache_creation_input_tokens") or 0),
            cost=cost,
        )
        return Used(usage, model=", ".join(result.get("modelUsage") or {}))


def _command(command: Sequence[str]) -> list[str]:
    """With the options that make it speak stream-JSON, where they were not given."""
    given = {"--print" if word == "-p" else word.partition("=")[0] for word in command}
    missing = [(option, *value) for option, value in _OPTIONS.items() if option not in given]
    return [*command, *[word for words in missing for word in words]]


def _call(name: str, tool: str, given: Any, *, begins: bool = False) -> ToolUpdate:
    arguments = given if isinstance(given, dict) else {}
    telling = [str(arguments[key]) for key in _TELLING if arguments.get(key)]
    return ToolUpdate(
        id=name,
        begins=begins,
        name=tool,
        title=" ".join(f"{tool} {telling[0] if telling else ''}".split())[:_LONGEST_TITLE],
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


def _options(suggestions: Sequence[Any]) -> list[tuple[Option, Json | None]]:
    """Yes and no, and each lasting permission that the agent suggests, with what to send back for it."""
    lasting = [
        (Option(f"allow_always_{number}", f"Yes, and {_in_words(one)}", "allow_always"), one)
        for number, one in enumerate(suggestions, 1)
        if isinstance(one, dict)
    ]
    return [
        (Option("allow", "Yes", "allow_once"), None),
        *lasting,
        (Option("reject", "No", "reject_once"), None),
    ]


def _in_words(suggestion: Json) -> str:
    where = suggestion.get("destination") or "session"
    match suggestion:
        case {"type": "addRules", "rules": list(rules), "behavior": behavior}:
            named = [
                f"{rule.get('toolName')}({rule['ruleContent']})"
                if rule.get("ruleContent")
                else rule.get("toolName")
                for rule in rules
            ]
            return f"always {behavior} {', '.join(map(str, named))} ({where})"
        case {"type": "addDirectories", "directories": list(directories)}:
            return f"always allow {', '.join(map(str, directories))} ({where})"
        case {"type": "setMode", "mode": mode}:
            return f"switch to the permission mode {mode} ({where})"
    return f"{suggestion.get('type')} ({where})"


def _verdict(chosen: str | None, options: list[tuple[Option, Json | None]], call: ToolUpdate) -> Json:
    if chosen is None:
        return {"behavior": "deny", "message": "The user interrupted this.", "interrupt": True}
    option, suggestion = next(one for one in options if one[0].id == chosen)
    if not option.allows:
        return {"behavior": "deny", "message": "The user does not want this to be done."}
    lasting = {"updatedPermissions": [suggestion]} if suggestion else {}
    return {"behavior": "allow", "updatedInput": call.input, **lasting}


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [one.get("text", f"[{one.get('type')}]") for one in content or () if isinstance(one, dict)]
    return "\n".join(map(str, texts))


def _error_of(result: Json) -> str:
    errors = result.get("errors")
    told = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
    return told or str(result.get("result") or result.get("subtype") or "unknown error").strip()
