"""What really happened in a simulation, whoever died meanwhile: the log must agree with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ostler.kernel.output import blob_of_call
from ostler.kernel.processes import ProcessId
from ostler.log.invariants import violations
from ostler.vocabulary import events, requests
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.requests import AnyRequest

SECRET = "a secret word"


class Ledger:
    """Notes effects, child processes and requests as they happen, and what is wrong with them at once."""

    def __init__(self, *, sees_environments: bool) -> None:
        self.sees_environments = sees_environments
        """Whether processes are found by their environment, too, or only by the rows beside the lease."""
        self.problems: list[str] = []
        self.effects: Counter[str] = Counter()
        self.printed: Counter[str] = Counter()
        """How many bytes a tool call has put out."""
        self.intended: set[str] = set()
        """Tool calls and model calls whose intent is in the log."""
        self.refused: set[str] = set()
        """Tool calls that a hook refused, or a guard that failed, when it was asked last."""
        self.children: set[ProcessId] = set()
        """The processes of tools that are alive."""
        self.requests: dict[str, AnyRequest] = {}
        """As first accepted, in the order of their arrival."""
        self.unsure: dict[str, AnyRequest] = {}
        """Submitted, but whoever did so does not know whether they arrived."""
        self.settled: Counter[str] = Counter()

    def effect(self, call: str, *, leaseless: bool) -> None:
        self.effects[call] += 1
        if leaseless:
            self.problems.append(f"the effect of {call} happened after the lease had run out")
        if call not in self.intended:
            self.problems.append(f"the effect of {call} happened before its start was in the log")
        if call in self.refused:
            self.problems.append(f"the effect of {call} happened although it was refused")

    def appended(self, facts: Sequence[Fact], settled: Mapping[str, int]) -> None:
        self.settled.update(settled.keys())
        for fact in facts:
            match fact.event:
                case events.ToolStarted(call=intended) | events.ModelCalled(id=intended):
                    self.intended.add(intended)

    def submitted(self, request: AnyRequest, accepted: bool) -> None:
        if accepted == (request.id in self.requests):
            self.problems.append(f"{request.id} was {'accepted twice' if accepted else 'lost'}")
        self.requests.setdefault(request.id, request)

    def check(self, facts: Sequence[Fact], blobs: Mapping[str, int]) -> list[str]:
        """Everything that is wrong, when the last process has left."""
        problems = [*self.problems, *violations(facts)]
        problems += self._wrong_effects(facts)
        problems += self._wrong_answers(facts)
        problems += self._wrong_order(facts)
        problems += self._wrong_blobs(facts, blobs)
        if any(SECRET.encode() in fact.body for fact in facts):
            problems.append("a secret is in the log")
        return problems

    def _wrong_effects(self, facts: Sequence[Fact]) -> list[str]:
        problems = [f"the effect of {call} happened {n} times" for call, n in self.effects.items() if n > 1]
        offered: tuple[str, ...] = ()
        asked: dict[str, str] = {}
        declined: set[str] = set()
        for fact in facts:
            match fact.event:
                case events.StepStarted(tools=tools):
                    offered = tools
                case events.QuestionAsked(id=question, call=call, asked_by="permission" | "hook"):
                    asked[question] = call
                case events.QuestionAnswered(id=question) as answer if question in asked:
                    if answer.outcome != "answered" or answer.answer not in ("yes", True):
                        declined.add(asked[question])
                case events.ToolStarted(call=call, name=name):
                    if name not in offered:
                        problems.append(f"{call} began, but {name} was not offered")
                    if call in declined:
                        problems.append(f"{call} began, but a person had declined it")
                case events.ToolResultFact(call=call, name=name, failed=None) if name in EFFECTIVE:
                    if not self.effects[call]:
                        problems.append(f"{call} succeeded without its effect")
        return problems

    def _wrong_blobs(self, facts: Sequence[Fact], blobs: Mapping[str, int]) -> list[str]:
        """What a result names is there, and the output of a call that succeeded is whole."""
        problems: list[str] = []
        for fact in facts:
            event = fact.event
            if not isinstance(event, events.ToolResultFact):
                continue
            if event.output and blobs.get(event.output.id) != event.output.size:
                problems.append(f"{event.call} names {event.output}, which has {blobs.get(event.output.id)}")
            printed = self.printed.get(event.call)
            if printed and not event.failed and blobs.get(blob_of_call(event.call)) != printed:
                problems.append(f"a part of what {event.call} put out is lost")
        return problems

    def _wrong_answers(self, facts: Sequence[Fact]) -> list[str]:
        """Each request is settled once, by a fact of its kind or by a refusal, and never has both."""
        problems: list[str] = []
        carrying: dict[str, list[Fact]] = {}
        for fact in facts:
            carrying.setdefault(getattr(fact.event, "request", ""), []).append(fact)
        for request in self.requests.values():
            kind = type(request).__name__
            if self.settled[request.id] != 1:
                problems.append(f"{kind} {request.id} was settled {self.settled[request.id]} times")
            types = [fact.type for fact in carrying.get(request.id, ())]
            if len(types) != len(set(types)) or ("request_refused" in types and len(types) > 1):
                problems.append(f"{kind} {request.id} became {types}")
            if unexpected := set(types) - {"request_refused", "run_resumed", *_BECOMES.get(kind, ())}:
                problems.append(f"{kind} {request.id} became {sorted(unexpected)}")
        return problems

    def _wrong_order(self, facts: Sequence[Fact]) -> list[str]:
        """What was said is told as it was first said, steers and prompts each in the order of arrival."""
        problems: list[str] = []
        arrival = {request: number for number, request in enumerate(self.requests)}
        last = {"steer": -1, "prompt": -1}
        for fact in facts:
            event = fact.event
            if not isinstance(event, events.UserMessage) or not event.request:
                continue
            request = self.requests[event.request]
            if not isinstance(request, requests.Steer | requests.Prompt) or request.content != event.content:
                problems.append(f"{request.id} is told as {event.content}")
            if arrival[request.id] < last[event.source]:
                problems.append(f"the {event.source} {request.id} is told after a later one")
            last[event.source] = arrival[request.id]
        return problems


EFFECTIVE = frozenset({"note", "pay", "ponder", "serve", "consult", "negotiate"})
"""The tools that have an effect whenever they succeed."""

_BECOMES: dict[str, tuple[str, ...]] = {
    "Prompt": ("run_started", "user_message"),
    "Continue": ("run_started",),
    "Steer": ("user_message",),
    "Answer": ("question_answered",),
    "Cancel": ("run_ended",),
    "Rename": ("session_renamed",),
    "Label": ("labelled",),
    "Navigate": ("leaf_moved",),
    "SetModel": ("settings_changed",),
    "ReleasePrompts": ("prompts_released",),
}
