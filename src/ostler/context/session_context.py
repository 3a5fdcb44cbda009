"""`SessionContext`: a session's context by the settings. While everything fits easily, nothing is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.core.context import BuiltContext, CompactionRequest, ContextInput
from ostler.core.harness import Harness
from ostler.core.journal import Journal
from ostler.core.lazy import lazy_module
from ostler.core.run_state import REMIND_AT
from ostler.core.tool import ResultLimits
from ostler.models.catalogue import Catalogue
from ostler.schema.messages import File, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from ostler.context import builder as builder_module
    from ostler.context import compaction as compaction_module
    from ostler.context import policy as policy_module
    from ostler.context import tokenizers as tokenizers_module
    from ostler.context.builder import ContextBuilder
    from ostler.context.policy import ContextPolicy, Rules
    from ostler.context.providers import ContextProvider, Rule
    from ostler.core.context import Tokenizer
else:
    builder_module = lazy_module("ostler.context.builder")
    compaction_module = lazy_module("ostler.context.compaction")
    policy_module = lazy_module("ostler.context.policy")
    tokenizers_module = lazy_module("ostler.context.tokenizers")

EASILY = 0.5
"""The share of a model's window up to which no exact count is needed."""

LEAST_CHARACTERS_A_TOKEN = 2

PICTURE = 9_600
"""The characters that a picture counts for."""

DOCUMENT = 500_000
"""The characters that a document counts for: vendors count its pages, not its bytes."""

LAST_STEPS = 3
CLOSE_CHAPTER = "close_chapter"

FRAME = 60
"""Characters that the framing of a call or a result counts for."""

NO_REMINDERS: Mapping[str, Rule] = {}
NO_RULES: Rules = {}

LimitsOf = Callable[[str], tuple[int, int | None]]
"""A model's context window and output limit, in tokens."""


def catalogue_limits(model: str) -> tuple[int, int | None]:
    """The catalogue's limits, without the user's configuration."""
    return Catalogue().limits(model)


class ContextParts:
    """The context providers of extensions: shared by a session, its runs and its children."""

    providers: tuple[ContextProvider, ...] = ()


class SessionContext:
    """Sends everything while it fits easily, and otherwise uses `ContextBuilder`.

    The agent's rules override those of the settings, and the run's override both.
    """

    def __init__(
        self,
        rules: Rules = NO_RULES,
        *,
        limits_of: LimitsOf = catalogue_limits,
        agent: Rules = NO_RULES,
        run: Rules = NO_RULES,
        fences: tuple[ContextProvider, ...] = (),
        reminders: Mapping[str, Rule] = NO_REMINDERS,
        tokenizer: Tokenizer | None = None,
        added: ContextParts | None = None,
    ) -> None:
        self._layers = {"settings": rules, "agent": agent, "run": run}
        self._has_rules = any(self._layers.values())
        self._changed = ""
        """Why the first request does not begin with the messages of the last one."""
        self._providers = fences
        self._reminders = dict(reminders)
        self._tokenizer = tokenizer
        self._shared = added or ContextParts()
        self._used: tuple[ContextProvider, ...] = ()
        self._whole: ContextBuilder | None = None
        self._find_limits = limits_of
        self._limits_of = cache(limits_of)
        self._sizes: dict[tuple[str, ...], int] = {}
        self._echoed = ""
        self._bounded: tuple[ContextInput | None, int] = (None, 0)

    def for_child(self) -> SessionContext:
        return self._with(self._layers["agent"], self._layers["run"])

    def for_agent(self, rules: Rules) -> SessionContext:
        """A context for a child whose agent has its own rules. Raises for invalid rules."""
        other = self._with(policy_module.combined(self._layers["agent"], rules), self._layers["run"])
        other.policy()
        return other

    def for_run(self, rules: Rules) -> SessionContext:
        """The context for the next run: this one, if the rules are the same. Raises for invalid rules."""
        if rules == self._layers["run"]:
            return self
        other = self._with(self._layers["agent"], rules)
        other.policy()
        if self._whole is not None:
            self._whole.release()
        if self._echoed or self._whole is not None:  # a request was sent by the old rules
            other._changed = "by another policy"
        return other

    def _with(self, agent: Rules, run: Rules) -> SessionContext:
        return SessionContext(
            self._layers["settings"],
            limits_of=self._find_limits,
            agent=agent,
            run=run,
            fences=self._providers,
            reminders=self._reminders,
            tokenizer=self._tokenizer,
            added=self._shared,
        )

    def set_providers(self, providers: Iterable[ContextProvider]) -> list[str]:
        """Replaces the extensions' context providers from the next step on; here, and in every context made
        of this one. Returns the kinds that the host provides itself, which take precedence."""
        providers = tuple(providers)
        own = {provider.kind for provider in self._providers}
        self._shared.providers = tuple(provider for provider in providers if provider.kind not in own)
        return [provider.kind for provider in providers if provider.kind in own]

    def policy(self) -> ContextPolicy:
        """All rules, merged. Raises for invalid ones."""
        return policy_module.merged(*self._layers.values(), places=("the settings", "the agent", "the run"))

    def window(self, model: str) -> int:
        """The context window of a model in tokens."""
        tokens = self.policy().window.tokens if self._has_rules else None
        return tokens or self._limits_of(model)[0]

    def equip(self, harness: Harness) -> None:
        """Applies the policy's rules about results and tools."""
        if self._has_rules or harness.result_limits != ResultLimits() or CLOSE_CHAPTER in harness.tools:
            follow_policy(harness, self.policy())

    async def build(self, journal: Journal, request: ContextInput) -> BuiltContext:
        if tokens := self._easily(journal, request):
            built = BuiltContext(
                request.system, request.transcript, request.appended, self._trace(journal, request, tokens)
            )
        else:
            built = await self.whole().build(journal, request)
        if self._changed and built.trace is not None:
            built.trace["changed"], self._changed = self._changed, ""
        return built

    async def needs_compaction(self, journal: Journal, request: ContextInput) -> bool:
        return not self._easily(journal, request) and await self.whole().needs_compaction(journal, request)

    async def compact(
        self, journal: Journal, harness: Harness, request: ContextInput, order: CompactionRequest
    ) -> str:
        return await self.whole().compact(journal, harness, request, order)

    def whole(self) -> builder_module.ContextBuilder:
        fences = (*self._providers, *self._shared.providers)
        if self._whole is None:
            self._whole = builder_module.ContextBuilder(
                self.policy(),
                self._tokenizer or tokenizers_module.RoutedTokenizer(),
                lambda model: builder_module.ModelRoom(*self._limits_of(model)),
                fences,
                self._reminders,
                policy_module.origins_of(tuple(self._layers), tuple(self._layers.values())),
            )
        elif fences != self._used:
            self._whole.set_providers(fences)
        self._used = fences
        return self._whole

    def _easily(self, journal: Journal, request: ContextInput) -> int:
        """An upper bound of the request's tokens if it is far below the window; else 0."""
        if self._bounded[0] is not request:  # a step asks twice: `needs_compaction`, then `build`
            self._bounded = (request, self._bound(journal, request))
        return self._bounded[1]

    def _bound(self, journal: Journal, request: ContextInput) -> int:
        state, run = journal.state, journal.state.run
        if self._has_rules or self._providers or self._reminders or self._shared.providers or self._whole:
            return 0
        if run:
            limit = run.started.limits.steps
            is_near_its_end = limit is not None and run.steps + LAST_STEPS > limit
            if is_near_its_end or REMIND_AT in run.repeats.values():
                return 0
        counted = state.context_messages if state.context_tokens else 0
        if counted > len(request.transcript):
            counted = 0
        messages = (*request.transcript.messages[counted:], *request.appended)
        characters = sum([_size(block) for message in messages for block in message.content])
        if not counted:
            names = tuple([tool.name for tool in request.tools])
            if names not in self._sizes:
                self._sizes[names] = len(msgspec.json.encode(request.tools))
            characters += len(request.system) + self._sizes[names]
        elif journal.last_prefix and journal.last_prefix.system != request.system:
            characters += len(request.system)  # the vendor counted another one
        tokens = (state.context_tokens if counted else 0) + characters // LEAST_CHARACTERS_A_TOKEN + 1
        return tokens if tokens <= self._limits_of(request.model.name)[0] * EASILY else 0

    def _trace(self, journal: Journal, request: ContextInput, tokens: int) -> dict[str, Any]:
        run = journal.state.run.id if journal.state.run else ""
        number = len(request.transcript)
        window = self._limits_of(request.model.name)[0]
        trace: dict[str, Any] = {
            "tokens": {"window": window, "at_most": tokens},
            "counted": ["estimated", "low"],
            "messages": [number, number],
        }
        if self._echoed != run:
            self._echoed = run
            trace["policy"] = {}
        return trace


def follow_policy(harness: Harness, policy: ContextPolicy) -> None:
    harness.result_limits = ResultLimits(policy.results.characters, policy.results.lines)
    tools = [tool for name, tool in harness.tools.items() if name != CLOSE_CHAPTER]
    if policy.checkpoints.offered and tools:
        tools.append(compaction_module.ChapterTool(policy.summaries.longest))
    if len(tools) != len(harness.tools):
        harness.set_tools(tools)


def _size(block: Any) -> int:
    kind = type(block)  # this runs in every step, and a `match` is slower
    if kind is Text:
        return len(block.text)
    if kind is ToolResult:
        return FRAME + sum([_size(part) for part in block.content])
    if kind is ToolCall:
        return FRAME + len(block.arguments)
    if kind is Reasoning:
        return len(block.text) + (len(msgspec.json.encode(block.opaque)) if block.opaque else 0)
    return DOCUMENT if kind is File else PICTURE
