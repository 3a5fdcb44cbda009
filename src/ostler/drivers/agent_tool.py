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
_PRESSED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_ABOUT = (
    "Hands a task to another coding agent, which runs in a terminal of its own in the working directory, "
    "and returns its answer. It knows nothing of this conversation: say all that it needs to know. "
    "It stays open: go on with `session`. When it asks something before it acts, its screen is returned: "
    "answer with `keys`, or ask the person. The agents are:"
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
        asked = validate_arguments(arguments, AgentArguments, NAME)
        for key in asked.keys:
            key_bytes(key)
        asked = msgspec.structs.replace(asked, prompt=asked.prompt.replace("\r\n", "\n"))
        if pressed := _PRESSED.search(asked.prompt):
            raise InvalidArguments(
                f"{pressed[0]!r} in `prompt` would press a key: that is what `keys` is for"
            )
        ways = [name for name in ("prompt", "keys", "stop") if getattr(asked, name)]
        if asked.session and len(ways) > 1:
            raise InvalidArguments(f"one thing at a time: {' and '.join(ways)} exclude each other")
        if asked.session:
            return asked
        if asked.keys or asked.stop:
            raise InvalidArguments(f"{ways[-1]} needs the `session` of an agent that was started before")
        if not asked.prompt.strip():
            raise InvalidArguments("say in `prompt` what is to be done")
        known = ", ".join(self._agents)
        if asked.agent and asked.agent not in self._agents:
            raise InvalidArguments(f"there is no agent {asked.agent!r}; the agents are: {known}")
        if not asked.agent and not _words(asked.command):
            raise InvalidArguments(f"name the `agent` that shall do it; the agents are: {known}")
        return asked

    def expand_arguments(self, arguments: dict[str, Any], before: BeforeCall) -> dict[str, Any]:
        """Adds the command of a named agent: that is what a person permits."""
        asked = validate_arguments(arguments, AgentArguments, NAME)
        command = shlex.join(_words(asked.command))
        if asked.session:
            known = _open_agents(before.memory).get(asked.session)
            command = known.command if known else ""
            if known and asked.keys:
                command = shlex.join(("press", known.name, *asked.keys))
        elif asked.agent:
            command = shlex.join(self._agents[asked.agent].command)
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
        started = ChildStarted(context.call, child, name, arguments.prompt[:TASK_EXCERPT])
        context.journal.record(started)
        await context.journal.commit()
        end = ChildResult(child, "", "failed")
        try:
            if refusal := context.budget.admit_child(child):
                end = ChildResult(child, "", "limit", reason=refusal)
                return failed(f"No agent was started: {refusal}.")
            begun = await child_agent.start_agent(
                context, child, name, agent, timing=self._timing, on_start=self._on_start
            )
            keep_running(context.memory, begun)
            context.memory.setdefault(_MEMORY_KEY, {})[child] = begun
            outcome = await _run_with_limit(begun, arguments, context)
            is_ok = isinstance(outcome, Ok)
            end = ChildResult(
                child, "", "completed" if is_ok else "failed", reason="" if is_ok else outcome.summary
            )
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
        """The command as it was permitted: the name may stand for another one by now."""
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
            await agent.cut()
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
                note = "it was not told this, because it asks something first"
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
    return f"{about}\n{text or '(it said nothing)'}"


def _about(agent: ChildAgent) -> dict[str, Any]:
    state = "ended" if agent.has_ended else "asks" if agent.asks else "waits"
    return {"child": agent.id, "agent": agent.name, "state": state}


def _open_agents(memory: dict[str, Any]) -> dict[str, ChildAgent]:
    known: dict[str, ChildAgent] = memory.get(_MEMORY_KEY, {})
    return {session: agent for session, agent in known.items() if not agent.has_ended}


def _not_open(session: str, memory: dict[str, Any]) -> str:
    there_are = ", ".join(_open_agents(memory)) or "none"
    return f"no agent is open as {session!r}: it has ended. Open are: {there_are}; or start another"


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise InvalidArguments(f"the command cannot be read: {error}") from None


def _schema(agents: Mapping[str, AgentCommand]) -> dict[str, Any]:
    text = {"type": "string", "default": ""}
    keys = f"pressed one after the other: {', '.join(NAMED_KEYS)}, or text to type"
    timeout = f"seconds; {DEFAULT_TIMEOUT:g} unless given, at most {MAX_TIMEOUT:g}"
    properties: dict[str, Any] = {
        "prompt": {**text, "description": "what to do, and everything needed to do it"},
        "agent": {**text, "enum": ["", *agents], "description": "the agent for the task"},
        "command": {**text, "description": "in place of `agent`: the command line of another one"},
        "session": {**text, "description": "the session of an agent that you started before, to continue it"},
        "keys": {"type": "array", "items": {"type": "string"}, "default": [], "description": keys},
        "stop": {"type": "boolean", "default": False, "description": "end the agent of `session`"},
        "timeout": {"type": "number", "exclusiveMinimum": 0, "description": timeout},
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}
