"""The harness: everything an agent works with in a session, handed in by `ostler.runs`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from ostler.kernel.hooks import Hook, Hooks
from ostler.kernel.model import Model, ReasoningLevel, ToolOffer
from ostler.kernel.tool import Tool
from ostler.vocabulary.errors import OstlerError, UsageError
from ostler.vocabulary.events import Event, Limits, QuestionAnswered, QuestionAsked

Asker = Callable[[QuestionAsked], Awaitable[Any]]
"""A face that can put a question to a person now. Returns the answer; raises `CallRefused` to decline."""

Remember = Callable[[QuestionAsked, QuestionAnswered, str], Sequence[Event]]
"""Keeps what a permission that was granted says to keep; the facts that tell of it. May be called twice."""

SILENCE_LIMIT = 120.0
ONE_MODEL_ONLY = "this session works with one model only"


@dataclass
class Harness:
    """May be changed between two runs; the kernel reads it anew at each step."""

    model: Model
    tools: dict[str, Tool] = field(default_factory=dict)
    system: str = ""
    hooks: Hooks = field(default_factory=Hooks)
    permission: Hook | None = None
    """The last guard before a tool runs."""
    permissions: str = "full"
    """The name of the profile, for the record."""
    remember: Remember | None = None
    limits: Limits = field(default_factory=Limits)
    reasoning: ReasoningLevel | None = None
    max_output_tokens: int | None = None
    answer_schema: dict[str, Any] | None = None
    """A JSON Schema that each answer shall fit, where the model's vendor can promise it."""
    fallbacks: tuple[str | Model, ...] = ()
    """Asked in this order, each when the one before has failed for good; one that is named is made then."""
    make_model: Callable[[str], Model] | None = None
    """Makes the model that somebody asks for by name while the session is open."""
    silence_limit: float = SILENCE_LIMIT
    cwd: Path = field(default_factory=Path.cwd)
    asker: Asker | None = None
    waits_for_answers: bool = False
    """A question that nobody can answer now makes the run wait instead of being refused."""
    memory: dict[str, Any] = field(default_factory=dict)
    extensions: tuple[str, ...] = ()
    _made: dict[str, Model] = field(default_factory=dict)
    _offers: tuple[tuple[str, ...], tuple[ToolOffer, ...]] = ((), ())

    def set_model(self, name: str, reasoning: str = "") -> None:
        """From the next step on another model is asked. Raises what its making raises."""
        if self.make_model is None:
            raise UsageError(ONE_MODEL_ONLY)
        if reasoning and reasoning not in get_args(ReasoningLevel):
            levels = ", ".join(get_args(ReasoningLevel))
            raise UsageError(f"there is no reasoning level {reasoning!r}; the levels are: {levels}")
        self.model = self.make_model(name)
        self.reasoning = cast(ReasoningLevel, reasoning) if reasoning else self.reasoning

    def rescuer(self, failed: Model, report: Callable[[str], None]) -> Model | None:
        """The next model of the chain that can be made; `report` hears of those that cannot."""
        chain = [self._made.get(one) if isinstance(one, str) else one for one in self.fallbacks]
        asked = [place for place, one in enumerate(chain) if one is not None and one.name == failed.name]
        for one in self.fallbacks[max(asked, default=-1) + 1 :]:
            try:
                model = self._named(one) if isinstance(one, str) else one
            except OstlerError as error:
                report(f"{one} cannot go on: {error.message}")
                continue
            if model.name != failed.name:
                return model
        return None

    def _named(self, name: str) -> Model:
        if name not in self._made:
            if self.make_model is None:
                raise UsageError(ONE_MODEL_ONLY)
            self._made[name] = self.make_model(name)
        return self._made[name]

    def use(self, tools: Iterable[Tool]) -> None:
        """Swaps the tools."""
        self.tools = {tool.spec.name: tool for tool in tools}
        self._offers = ((), ())

    def offers(self, names: tuple[str, ...]) -> tuple[ToolOffer, ...]:
        """The named tools as the model is told of them, in the given (sorted) order."""
        if self._offers[0] != names:
            specs = (self.tools[name].spec for name in names)
            offers = tuple(ToolOffer(spec.name, spec.description, spec.schema) for spec in specs)
            self._offers = (names, offers)
        return self._offers[1]
