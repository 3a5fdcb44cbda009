"""The tool `agent`: a model gives a task to another vendor's agent and continues the conversation with it."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from ostler.core.call_context import CallContext
from ostler.core.cancellation import CancelToken, run_with_timeout
from ostler.core.children import TASK_EXCERPT, ChildResult, child_session, record_child_end
from ostler.core.function_tool import validate_arguments
from ostler.core.lazy import lazy_module
from ostler.core.tool import BeforeCall, ToolContext, ToolSpec
from ostler.drivers.agent_spec import AgentCommand, Timing, detect
from ostler.schema.errors import InvalidArguments, OstlerError, StoreError, ToolError, ToolFailed
from ostler.schema.events import ChildStarted
from ostler.schema.outcomes import Display, Failed, Ok, failed, ok
from ostler.tools.child_process import keep_running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.drivers import child_agent
    from ostler.drivers.child_agent import ChildAgent, OnStart
else:
    child_agent = lazy_module("ostler.drivers.child_agent")  # most runs start no agent

NAMED_KEYS = {
    "enter": b"\r",
    "escape": b"\x1b",
    "tab": b"\t",
    "shift-tab": b"\x1b[Z",
    "space": b" ",
    "backspace": b"\x7f",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "ctrl-c": b"\x03",
    "ctrl-d": b"\x04",
}


def key_bytes(key: str) -> bytes:
    """The bytes of a named key, or of text to type. Raises `InvalidArguments`."""
    if named := NAMED_KEYS.get(key.lower()):
        return named
    if not key or not key.isprintable():
        raise InvalidArguments(f"{key!r} is no key: name one of {', '.join(NAMED_KEYS)}, or type text")
    return key.encode("utf-8", "replace")


NAME = "agent"
DEFAULT_TIMEOUT = 600.0
MAX_TIMEOUT = 3600.0
_MEMORY_KEY = "ostler.drivers.agents"
_KEY = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_ABOUT = (
    "Gives a task to another coding agent, which runs in its own terminal in the working directory, and "
    "returns its answer. It does not see this conversation: include everything that it needs to know. "
    "It stays open: continue with `session`. If it asks something before it acts, its screen is returned: "
    "answer with `keys`, or ask the user. The agents are:"
)


class AgentArguments(msgspec.Struct, frozen=True):
    prompt: str = ""
    agent: str = ""
    command: str = ""
    session: str = ""
    keys: tuple[str, ...] = ()
    stop: bool = False
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None


class AgentTool:
    """Starts agents as children, each in a session of its own.

    - To start an agent and to prompt it needs the permission for its command; keys need one of their own.
    - A child runs until it is stopped, its call is cancelled, or the session is closed.
    - After a crash nothing is repeated: the call is interrupted, and the next owner ends the child.
    """

    def __init__(
        self,
        agents: Mapping[str, AgentCommand],
        *,
        timing: Timing | None = None,
        on_start: OnStart | None = None,
    ) -> None:
        self._agents = agents
        self._on_start = on_start
        self._timing = timing or Timing()
        names = (f"\n- {name}: {one.description}".rstrip(": ") for name, one in agents.items())
        self.spec = ToolSpec(
            name=NAME,
            description=_ABOUT + "".join(names),
            schema=_schema(agents),
            kind="execute",
            parallel=True,
            display=Display(view="agent", title="{agent} {prompt}"),
        )

    def validate(self, arguments: dict[str, Any]) -> AgentArguments:
        call = validate_arguments(arguments, AgentArguments, NAME)
        for key in call.keys:
            key_bytes(key)
        call = msgspec.structs.replace(call, prompt=call.prompt.replace("\r\n", "\n"))
        if key_match := _KEY.search(call.prompt):
            raise InvalidArguments(f"{key_match[0]!r} in `prompt` would press a key: use `keys` for that")
        actions = [name for name in ("prompt", "keys", "stop") if getattr(call, name)]
        if call.session and len(actions) > 1:
            raise InvalidArguments(f"one thing at a time: {' and '.join(actions)} exclude each other")
        if call.session:
            return call
        if call.keys or call.stop:
            raise InvalidArguments(f"{actions[-1]} needs the `session` of an agent that was started before")
        if not call.prompt.strip():
            raise InvalidArguments("say in `prompt` what to do")
        names = ", ".join(self._agents)
        if call.agent and call.agent not in self._agents:
            raise InvalidArguments(f"there is no agent {call.agent!r}; the agents are: {names}")
        if not call.agent and not _words(call.command):
            raise InvalidArguments(f"name the `agent` for the task; the agents are: {names}")
        return call

    def expand_arguments(self, arguments: dict[str, Any], before: BeforeCall) -> dict[str, Any]:
        """Adds the command of a named agent: that is what a person permits."""
        call = validate_arguments(arguments, AgentArguments, NAME)
        command = shlex.join(_words(call.command))
        if call.session:
            agent = _open_agents(before.memory).get(call.session)
            command = agent.command if agent else ""
            if agent and call.keys:
                command = shlex.join(("press", agent.name, *call.keys))
        elif call.agent:
            command = shlex.join(self._agents[call.agent].command)
        return {**arguments, "command": command}

    async def precheck(self, arguments: AgentArguments, before: BeforeCall) -> str:
        if arguments.session and arguments.session not in _open_agents(before.memory):
            return _not_open(arguments.session, before.memory)
        return ""

    async def run(self, arguments: AgentArguments, context: ToolContext) -> Ok | Failed:
        if not isinstance(context, CallContext):
            raise ToolFailed("an agent can only be started by a call of a run")
        try:
            if not arguments.session:
                return await self._start(arguments, context)
            agent = _open_agents(context.memory).get(arguments.session)
            if agent is None:
                raise ToolFailed(_not_open(arguments.session, context.memory))
            return await _run_with_limit(agent, arguments, context)
        except (StoreError, ToolError):
            raise
        except OstlerError as error:
            return failed(error.message)

    async def _start(self, arguments: AgentArguments, context: CallContext) -> Ok | Failed:
        child = child_session(context.session, context.call, 1)
        agent = self._command(arguments)
        name = arguments.agent or agent.type
        context.journal.record(ChildStarted(context.call, child, name, arguments.prompt[:TASK_EXCERPT]))
        await context.journal.commit()
        end = ChildResult(child, "", "failed")
        try:
            if refusal := context.budget.admit_child(child):
                end = ChildResult(child, "", "limit", reason=refusal)
                return failed(f"No agent was started: {refusal}.")
            started = await child_agent.start_agent(
                context, child, name, agent, timing=self._timing, on_start=self._on_start
            )
            keep_running(context.memory, started)
            context.memory.setdefault(_MEMORY_KEY, {})[child] = started
            outcome = await _run_with_limit(started, arguments, context)
            if isinstance(outcome, Ok):
                end = ChildResult(child, "", "completed")
            else:
                end = ChildResult(child, "", "failed", reason=outcome.summary)
            return outcome
        except OstlerError as error:
            end = ChildResult(child, "", "failed", reason=error.message)
            raise
        except asyncio.CancelledError:
            end = ChildResult(child, "", "cancelled", reason="the call was cancelled")
            raise
        finally:
            record_child_end(context.journal, context.budget, end)

    def _command(self, arguments: AgentArguments) -> AgentCommand:
        """The command as it was permitted: the settings of the named agent may have changed since."""
        words = tuple(_words(arguments.command))
        if not arguments.agent:
            return AgentCommand(words, detect(words))
        named = self._agents[arguments.agent]
        return msgspec.structs.replace(named, command=words or named.command)


async def _run_with_limit(agent: ChildAgent, arguments: AgentArguments, context: CallContext) -> Ok | Failed:
    """The agent does not continue to work after the call has its outcome."""
    limit = min(arguments.timeout or DEFAULT_TIMEOUT, MAX_TIMEOUT)
    with agent.working_for(context) as stopwatch:
        try:
            status, asking = await run_with_timeout(_ask(agent, arguments), CancelToken(), limit, stopwatch)
            if status == "done":
                return asking.result()
            await agent.interrupt()
        except asyncio.CancelledError:
            await agent.abort()
            raise
    note = f"it was interrupted after {limit:g} s"
    return failed(_result_text(agent, note), kind="tool_timed_out", details=_about(agent), summary=note)


async def _ask(agent: ChildAgent, arguments: AgentArguments) -> Ok | Failed:
    if arguments.stop:
        await agent.end()
        return ok(f"{agent.name} has ended.", details=_about(agent), summary="stopped")
    if arguments.keys:
        await agent.press([key_bytes(key) for key in arguments.keys])
    else:
        await agent.wait_until_idle()
        if (prompt := arguments.prompt.strip()) and not agent.has_ended:
            if agent.asks:
                note = "the prompt was not sent, because it asks something first"
                return failed(_result_text(agent, note), details=_about(agent), summary=note)
            if problem := await agent.send(prompt):
                return failed(_result_text(agent, problem), details=_about(agent), summary=problem)
    if agent.has_ended:
        note = f"it {agent.end_status}"
        return failed(_result_text(agent, note), details=_about(agent), summary=note)
    note = "it asks something" if agent.asks else ""
    return ok(_result_text(agent, note), details=_about(agent), summary=note or "it answered")


def _result_text(agent: ChildAgent, note: str) -> str:
    """The answer for the model, with the screen where that shows more."""
    about = f"[{agent.name}, session {agent.id}{f': {note}' if note else ''}]"
    text, screen = agent.last_text, agent.screen
    last_line = screen.rpartition("\n")[2]
    if note and last_line not in text:
        text = f"{text}\n\n[its screen]\n{screen}" if text else screen
    return f"{about}\n{text or '(no answer)'}"


def _about(agent: ChildAgent) -> dict[str, Any]:
    state = "ended" if agent.has_ended else "asks" if agent.asks else "waits"
    return {"child": agent.id, "agent": agent.name, "state": state}


def _open_agents(memory: dict[str, Any]) -> dict[str, ChildAgent]:
    agents: dict[str, ChildAgent] = memory.get(_MEMORY_KEY, {})
    return {session: agent for session, agent in agents.items() if not agent.has_ended}


def _not_open(session: str, memory: dict[str, Any]) -> str:
    sessions = ", ".join(_open_agents(memory)) or "none"
    return f"no agent is open as {session!r}: it has ended. Open agents: {sessions}; or start another"


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise InvalidArguments(f"the command cannot be read: {error}") from None


def _schema(agents: Mapping[str, AgentCommand]) -> dict[str, Any]:
    text = {"type": "string", "default": ""}
    keys = f"keys to press in order: {', '.join(NAMED_KEYS)}, or text to type"
    timeout = f"seconds; {DEFAULT_TIMEOUT:g} unless given, at most {MAX_TIMEOUT:g}"
    properties: dict[str, Any] = {
        "prompt": {**text, "description": "what to do, and everything needed to do it"},
        "agent": {**text, "enum": ["", *agents], "description": "the agent for the task"},
        "command": {**text, "description": "instead of `agent`: the command line of another one"},
        "session": {**text, "description": "the session of an agent that you started before, to continue it"},
        "keys": {"type": "array", "items": {"type": "string"}, "default": [], "description": keys},
        "stop": {"type": "boolean", "default": False, "description": "end the agent of `session`"},
        "timeout": {"type": "number", "exclusiveMinimum": 0, "description": timeout},
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}
