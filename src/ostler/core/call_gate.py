"""The gate before each call: may it run, and with which arguments? Schema, hooks, permission, answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.core.call_context import results_in
from ostler.core.harness import OpenSession
from ostler.core.hooks import Allow, Ask, HookScope, PlannedCall, Refuse
from ostler.core.json_schema import coerce
from ostler.core.lazy import lazy_module
from ostler.core.questions import NOBODY_TO_ASK, grants, withdraw_imported
from ostler.core.run_state import CallState, StepState
from ostler.core.secrets import MASK
from ostler.core.tool import Tool
from ostler.schema import events
from ostler.schema.errors import InvalidArguments, StoreError, describe_error
from ostler.schema.ids import blake2b
from ostler.schema.messages import Text
from ostler.schema.outcomes import Failed, FinalOutcome, Ok, failed, ok

if TYPE_CHECKING:
    from ostler.core import confinement
else:
    confinement = lazy_module("ostler.core.confinement")

MASKED_TEXT = (
    f"the text contains {MASK}, which stands for a key that you cannot see: writing it would replace "
    "the key. Change other parts of the file, or let the user edit this one"
)


class ApprovedCall(msgspec.Struct, frozen=True):
    """A call that may run, with its arguments as JSON and as the tool takes them."""

    tool: Tool
    arguments: dict[str, Any]
    validated: Any
    key: str = ""
    """The idempotency key, under which its result can be reused."""
    answer: Any = None
    state: Any = None
    allowed_by: str = ""
    confined: bool = False
    path: str = ""
    """The resolved path that permission has judged."""


class CallGate:
    """Checks the calls of a session before they run."""

    def __init__(self, session: OpenSession, scope: HookScope) -> None:
        self._session = session
        self._journal = session.journal
        self._harness = session.harness
        self._scope = scope

    async def check(
        self, call: CallState, step: StepState
    ) -> ApprovedCall | FinalOutcome | events.QuestionAsked:
        """Whether a call may run: the tool exists, its arguments fit, hooks and permission agree."""
        called = call.called
        if call.imported is not None:
            withdraw_imported(self._journal, call)  # it is judged here, and asked here if need be
        tool = self._harness.tools.get(called.name)
        if tool is None or called.name not in step.tools:
            names = ", ".join(step.tools) or "none"
            text = f'the tool "{called.name}" is switched off' if tool else f'unknown tool "{called.name}"'
            return failed(f"{text}; the tools are: {names}", kind="unknown_tool")
        if called.malformed:
            text = f"invalid arguments for {called.name}: {called.malformed}"
            return failed(text, kind="invalid_arguments")
        declined = call.imported_answer
        if call.imported and declined and _is_refusal(call.imported, declined):
            return self.resume(call, tool, call.imported, declined)
        if call.answered and call.question:
            if call.began_elsewhere and tool.spec.resumes:
                return failed("The call began elsewhere and cannot be continued.", kind="tool_interrupted")
            return self.resume(call, tool, call.question, call.answered)
        if call.started and not call.began_elsewhere and tool.spec.reattaches:
            # It was permitted, and its child has its task.
            return self._ready_again(tool, call.arguments)
        arguments = coerce(called.arguments, tool.spec.schema)
        validated, problem = _validated(tool, arguments)
        expand = getattr(tool, "expand_arguments", None)
        if expand is not None and not problem:
            arguments = expand(arguments, _Before(self._session))
            validated, problem = _validated(tool, arguments)
        if problem:
            return failed(problem, kind="invalid_arguments")
        if tool.spec.kind == "edit" and MASK.encode() in msgspec.json.encode(arguments):
            return failed(MASKED_TEXT, kind="call_refused")
        if self._harness.permission_hook is None and "before_tool" not in self._harness.hooks:
            return self._ready(tool, arguments, validated)
        position, own_rules = self._session.position, self._journal.state.permissions
        rules = {**position.permissions(), **own_rules} if position else own_rules
        kind, remembered = tool.spec.kind, tuple(rules.items())
        planned = PlannedCall(called.call, called.name, kind, arguments, step.number, remembered)
        planned, obstacle = await self._harness.hooks.before_tool(
            planned, self._scope, last_guard=self._harness.permission_hook
        )
        if isinstance(obstacle, Refuse):
            return failed(obstacle.reason or "The call was refused.", kind="call_refused")
        validated, problem = _validated(tool, planned.arguments)
        if problem:
            return failed(f"a hook rewrote the arguments wrongly: {problem}", kind="call_refused")
        if isinstance(obstacle, Ask):
            if problem := await self._precheck(tool, validated, planned.path):
                return failed(problem)
            asked = self._question(call, obstacle, planned)
            answered = call.imported_answer
            if answered and isinstance(asked, events.QuestionAsked) and _is_same(call.imported, asked):
                return self.resume(call, tool, asked, answered)
            return asked
        return self._ready(tool, planned.arguments, validated, obstacle, planned.path)

    def _ready(
        self,
        tool: Tool,
        arguments: dict[str, Any],
        validated: Any,
        allowed: Allow | None = None,
        path: str = "",
    ) -> ApprovedCall:
        scope, run, key = tool.spec.idempotent, self._journal.state.run, ""
        if scope != "no" and run is not None:
            key = idempotency_key(tool.spec.name, arguments, run.id if scope == "run" else "session")
        if allowed is None:
            return ApprovedCall(tool, arguments, validated, key, path=path)
        confined = allowed.confined and self._harness.confine_harmless
        confined = confined and confinement.confinement_status().is_active
        return ApprovedCall(
            tool, arguments, validated, key, allowed_by=allowed.by, confined=confined, path=path
        )

    async def _precheck(self, tool: Tool, validated: Any, path: str) -> str:
        """Why the call would fail whatever the user answers: then there is no question."""
        if (precheck := getattr(tool, "precheck", None)) is None:
            return ""
        try:
            return str(await precheck(validated, _Before(self._session, path)))
        except StoreError:
            raise
        except Exception as error:
            return f"{tool.spec.name} could not be checked: {describe_error(error)}"

    def _question(self, call: CallState, ask: Ask, planned: PlannedCall) -> events.QuestionAsked | Failed:
        if self._harness.asker is None and not self._harness.wait_for_answers:
            return failed(ask.question.reason or NOBODY_TO_ASK, kind="call_refused")
        state: dict[str, Any] = {"arguments": planned.arguments}
        if planned.path:  # the answer is about this path, also if it comes later and in another process
            state["path"] = planned.path
        return events.QuestionAsked(
            id=self._journal.world.new_id("q"),
            question=ask.question,
            call=call.called.call,
            asked_by=ask.by,
            state=state,
        )

    def resume(
        self, call: CallState, tool: Tool, asked: events.QuestionAsked, answered: events.QuestionAnswered
    ) -> ApprovedCall | FinalOutcome:
        """Continues a call whose question was answered."""
        if asked.asked_by in ("permission", "hook"):
            if not grants(asked, answered):
                reason = _reason(asked, answered)
                if otherwise := asked.state.get("otherwise"):
                    return not_repeated(otherwise, reason or "the user declined")
                return failed(reason or "The user declined this call.", kind="call_refused")
            if asked.asked_by == "permission" and self._harness.remember is not None:
                for event in self._harness.remember(asked, answered, self._journal.session):
                    self._journal.record(event)
            arguments = asked.state["arguments"]
            validated, problem = _validated(tool, arguments)
            if problem:
                return failed(f"the tool changed meanwhile: {problem}", kind="invalid_arguments")
            return self._ready(tool, arguments, validated, path=asked.state.get("path", ""))
        if answered.outcome != "answered":
            reason = _reason(asked, answered) if answered.outcome == "declined" else ""
            end = f": {reason}" if reason else "."
            return failed(f"The user did not answer the question{end}", kind="call_refused")
        is_called_again = asked.resume == "again" or (tool.spec.resumes and not asked.resume)
        answer = answered.answer
        if is_called_again:
            return self._ready_again(tool, call.arguments, answer, asked.state)
        if asked.question.secret:
            return ok("The user entered the secret.")
        text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
        return ok(text, details={"answer": answer})

    def _ready_again(
        self, tool: Tool, arguments: dict[str, Any], answer: Any = None, state: Any = None
    ) -> ApprovedCall | Failed:
        validated, problem = _validated(tool, arguments)
        if problem:
            return failed(f"the tool changed meanwhile: {problem}", kind="invalid_arguments")
        return ApprovedCall(tool, arguments, validated, "", answer, state)


def not_repeated(otherwise: dict[str, Any], why: str) -> FinalOutcome:
    """The first outcome of a call, when running it again was not allowed."""
    outcome = msgspec.convert(otherwise, Ok | Failed)
    note = Text(f"[not run again without the restriction: {why}]")
    return msgspec.structs.replace(outcome, content=(*outcome.content, note))


def _reason(asked: events.QuestionAsked, answered: events.QuestionAnswered) -> str:
    """Why a person declined. What they typed at a secret question may be the secret."""
    is_choice = answered.answer in asked.question.choices
    return (
        answered.answer
        if isinstance(answered.answer, str) and not is_choice and not asked.question.secret
        else ""
    )


def _is_refusal(asked: events.QuestionAsked, answered: events.QuestionAnswered) -> bool:
    return asked.asked_by in ("permission", "hook") and not grants(asked, answered)


def _is_same(imported: events.QuestionAsked | None, asked: events.QuestionAsked) -> bool:
    """Whether a person who answered an imported question saw exactly what is asked here. The project's folder
    is not exported."""
    if imported is None or (imported.asked_by, imported.state) != (asked.asked_by, asked.state):
        return False
    details = {**(asked.question.details or {})}
    details.pop("project", None)
    return imported.question == msgspec.structs.replace(asked.question, details=details or None)


class _Before:
    """What a tool may know of the session before its call runs."""

    def __init__(self, session: OpenSession, path: str = "") -> None:
        self._journal = session.journal
        self.cwd = session.harness.cwd
        self.judged = Path(path) if path else None
        self.memory = session.memory

    def results(self) -> AsyncIterator[events.ToolResultFact]:
        return results_in(self._journal)


def idempotency_key(tool: str, arguments: dict[str, Any], within: str) -> str:
    """Equal for the same tool and arguments in one run or session, however the JSON was written."""
    canonical = msgspec.json.encode((within, tool, arguments), order="sorted")
    return blake2b(canonical, digest_size=16).hexdigest()


def _validated(tool: Tool, arguments: dict[str, Any]) -> tuple[Any, str]:
    """The arguments as the tool takes them, or what is wrong with them."""
    try:
        return tool.validate(arguments), ""
    except InvalidArguments as error:
        return None, error.message
    except Exception as error:
        return None, f"{tool.spec.name} could not read its arguments: {describe_error(error)}"
