"""`ContextBuilder`: what the model gets in each step, by the policy, and a trace of how it was chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ostler.context import calibration, providers
from ostler.context.compaction import SYSTEM, ClosedChapter, Compaction, closed_chapter, compact, keeps_from
from ostler.context.policy import ContextPolicy
from ostler.context.selection import Conversation, RequiredEntry, apply_policy
from ostler.context.window import Tally, VisibleMessage, Window
from ostler.core.context import (
    NO_TOKENS,
    BuiltContext,
    CompactionReason,
    CompactionRequest,
    ContextInput,
    Count,
    Tokenizer,
    total,
)
from ostler.core.harness import Harness
from ostler.core.journal import Journal
from ostler.core.transcript import Transcript
from ostler.schema.events import Event, ModelCalled, UsageReported, Warned
from ostler.schema.facts import Fact
from ostler.schema.messages import Message

LARGEST_RESERVE = 16_384

LESS = 0.8
"""The share of the messages that may be sent after the vendor has refused them as too long."""

TRY_AGAIN_AFTER = 20
"""New messages before a failed compaction is tried again: each may cost a model call."""

LOOKED_BACK = 1_000
"""Facts that are read for the calibration of counts when a session is opened again."""

_REPORTS = ("model_called", "usage")


class ModelRoom(msgspec.Struct, frozen=True):
    """A model's context window and output limit, in tokens."""

    window: int
    output: int | None = None


RoomOf = Callable[[str], ModelRoom]


class ContextBuilder:
    """Builds the context of each step; it stores counts, so that only new messages are counted."""

    def __init__(
        self,
        policy: ContextPolicy,
        tokenizer: Tokenizer,
        room_of: RoomOf,
        fences: tuple[providers.ContextProvider, ...] = (),
        reminders: dict[str, providers.Rule] | None = None,
        origins: Mapping[str, str] | None = None,
    ) -> None:
        self.policy = policy
        self._origins = origins or {}
        """The layer that has set each rule, for the trace."""
        self._tokenizer = tokenizer
        self._room_of = room_of
        self._providers: tuple[providers.ContextProvider, ...] = ()
        self.set_providers(fences)
        self._reminders = reminders or {}
        self._model = ""
        self._window = Window(policy, self._count)
        self._tally = Tally(self._count)
        self._sizes: dict[Any, Count] = {}
        self._certainty = NO_TOKENS
        """The certainty of the least certain message."""
        self._beside = 0
        """The tokens of context providers and reminders in the previous step."""
        self._most = 0
        """A limit below what the vendor has refused as too long; 0 without one."""
        self._run = ""
        self._in_prompt: tuple[providers.ProviderText, ...] = ()
        self._left_out: list[providers.ProviderText] = []
        """Texts of context providers that do not fit."""
        self._echoed = ""
        self._in_system: list[str] | None = None
        """The text of context providers after the system prompt."""
        self._calibration = calibration.Calibration()
        self._journal: Journal | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._failed: tuple[Transcript | None, int] = (None, 0)
        """The transcript that could not be compacted, and its length."""

    def set_providers(self, fences: tuple[providers.ContextProvider, ...]) -> None:
        """Replaces the context providers; those before the prompt, from the next run on."""
        self._providers = providers.in_order(fences)

    async def build(self, journal: Journal, request: ContextInput) -> BuiltContext:
        self._use(request.model.name)
        reserve, most = self._reserve(), self._sendable()
        reminders = list(providers.due_reminders(journal.state, self.policy.reminders, self._reminders))
        reported = self._reported(journal, request)
        if reported and reported.tokens <= most and self._sends_everything:
            return self._everything(journal, request, reported, reserve, reminders)
        await self._subscribe(journal)
        fixed = self._fixed(request)
        space = self._sendable(self._coefficient(fixed).value)
        injected = await self._injected(journal, space - fixed.tokens)
        inserts = providers.as_message(self._in_prompt)
        at_end = providers.as_message(one for one in injected if one.provider.placement == "end")
        notes = providers.as_reminder_message(reminders)
        provided = sum(map(self._count, (*inserts, *at_end)))
        provided += sum(one.tokens for one in injected if one.provider.placement == "system")
        reminding = sum(map(self._count, notes))
        self._beside = provided + reminding
        room = space - fixed.tokens - provided - reminding
        conversation = self._conversation(request)
        visible = self._window.show(conversation, request.transcript, max(0, room), inserts)
        account = calibration.Account(
            self._window_tokens(), reserve, fixed.tokens, provided, reminding, visible.tokens, room
        )
        trace = self._trace(account, fixed, visible, injected)
        trace["messages"] = [len(visible.transcript), len(request.transcript)]
        self._echo(journal, trace, reminders)
        in_system = [one.text for one in injected if one.provider.placement == "system"]
        before, self._in_system = self._in_system, in_system
        by_providers = "" if before is None or before == in_system else "by the context providers"
        if changed := visible.changed or by_providers:
            trace["changed"] = changed
        system = "\n\n".join([request.system, *in_system])
        problem = ""
        if visible.tokens > room:
            required = self._required(conversation, fixed)
            trace["kept"] = msgspec.to_builtins(required)
            problem = calibration.too_much(self._model, trace["tokens"], required)
        return BuiltContext(system, visible.transcript, (*at_end, *request.appended, *notes), trace, problem)

    def _required(self, conversation: Conversation, fixed: Count) -> list[RequiredEntry]:
        """The entries that stay although they do not fit."""
        entries = self._window.required(conversation)
        sizes = calibration.corrected_count([one.tokens for one in entries], self._coefficient(fixed))
        return [msgspec.structs.replace(one, tokens=size) for one, size in zip(entries, sizes, strict=True)]

    def _reported(self, journal: Journal, request: ContextInput) -> Count | None:
        """The tokens of the next request: the vendor's count of the last one, and an estimate of the rest."""
        state = journal.state
        if not state.context_tokens or state.context_messages > len(request.transcript):
            return None
        if request.appended or (journal.last_prefix and journal.last_prefix.system != request.system):
            return None  # the last request was counted with another system prompt or messages
        new = request.transcript.messages[state.context_messages :]
        counts = total(self._tokenizer.message(message, self._model) for message in new)
        return calibration.since_reported(state.context_tokens, counts)

    @property
    def _sends_everything(self) -> bool:
        """Whether no rule changes the messages while there is room."""
        return not self._providers and not self._window.has_rules and not self._window.is_cut

    def _everything(
        self,
        journal: Journal,
        request: ContextInput,
        reported: Count,
        reserve: int,
        reminders: list[providers.Reminder],
    ) -> BuiltContext:
        tail = providers.as_reminder_message(reminders)
        tokens = {"window": self._window_tokens(), "reserve": reserve}
        if tail:
            tokens["reminders"] = sum(map(self._count, tail))
        tokens["all"] = reported.tokens + tokens.get("reminders", 0)
        trace: dict[str, Any] = {
            "tokens": tokens,
            "counted": [reported.source, reported.confidence],
            "messages": [len(request.transcript), len(request.transcript)],
        }
        self._echo(journal, trace, reminders)
        return BuiltContext(request.system, request.transcript, tail, trace)

    def _use(self, model: str) -> None:
        if model != self._model:
            self._model = model
            self._window = Window(self.policy, self._count)
            self._tally = Tally(self._count)
            self._sizes.clear()
            self._certainty = NO_TOKENS
            self._most = 0

    def _count(self, message: Message) -> int:
        count = self._tokenizer.message(message, self._model)
        if (count.source, count.confidence) != (self._certainty.source, self._certainty.confidence):
            self._certainty += Count(0, count.source, count.confidence)
        return count.tokens

    def _window_tokens(self) -> int:
        return self.policy.window.tokens or self._room_of(self._model).window

    def _reserve(self) -> int:
        if self.policy.window.reserve is not None:
            return self.policy.window.reserve
        output = self._room_of(self._model).output or LARGEST_RESERVE
        return min(output, LARGEST_RESERVE, self._window_tokens() // 2)

    def _coefficient(self, fixed: Count) -> calibration.Coefficient:
        return self._calibration.of(self._model, (fixed + self._certainty).source)

    def _sendable(self, coefficient: float = 1) -> int:
        """The tokens that may be sent, as counted here; the coefficient corrects the count."""
        most = int((self._window_tokens() - self._reserve()) / coefficient)
        return min(most, self._most) if self._most else most

    async def _subscribe(self, journal: Journal) -> None:
        """Calibrates the counts by the vendors' recent reports, and by those to come."""
        if self._journal is journal:
            return
        self.release()
        first = max(0, journal.state.last_seq - LOOKED_BACK)
        reports = await journal.store.read(journal.session, first)
        self._journal, self._calibration = journal, calibration.Calibration()
        self._calibrate(reports)
        self._unsubscribe = journal.subscribe(self._calibrate)

    def release(self) -> None:
        """Unsubscribes from the session."""
        self._journal = None
        self._unsubscribe()

    def _calibrate(self, batch: Sequence[Fact | Event]) -> None:
        for item in batch:
            event = item.event if isinstance(item, Fact) and item.type in _REPORTS else None
            if isinstance(event, ModelCalled | UsageReported):
                self._calibration.apply(event)

    def _fixed(self, request: ContextInput) -> Count:
        """The tokens of the system prompt, the tools, and the messages that a hook adds to the whole run."""
        names = tuple(tool.name for tool in request.tools)
        if names not in self._sizes:
            self._sizes[names] = self._tokenizer.tools(request.tools, self._model)
        fixed = self._sized(request.system) + self._sizes[names]
        if not request.appended:
            return fixed
        return fixed + total(self._tokenizer.message(message, self._model) for message in request.appended)

    def _sized(self, text: str) -> Count:
        if text not in self._sizes:
            self._sizes[text] = self._tokenizer.text(text, self._model) if text else NO_TOKENS
        return self._sizes[text]

    async def _injected(self, journal: Journal, room: int) -> list[providers.ProviderText]:
        """The context providers' texts; those before the prompt change once in a run, to keep the prefix."""
        if not self._providers and not self._in_prompt:
            return []
        run = journal.state.run.id if journal.state.run else ""
        is_new_run, self._run = run != self._run, run
        texts: list[providers.ProviderText] = []
        for provider in self._providers:
            if provider.placement == "prompt" and not is_new_run:
                texts += [one for one in self._in_prompt if one.provider.kind == provider.kind]
                continue
            share = providers.ProviderRequest(
                journal.session, run, self._model, max(1, int(room * provider.share))
            )
            try:
                text = await providers.provider_texts(
                    provider, share, lambda text: self._tokenizer.text(text, self._model).tokens
                )
            except Exception as error:  # a host's own code: the run continues without it
                problem = f"the context provider {provider.kind} failed: {type(error).__name__}: {error}"
                journal.record(Warned(problem, about="hook"))
                continue
            if text is not None:
                texts.append(text)
        injected = providers.within_limit(texts, room)
        self._left_out = [one for one in texts if one not in injected]
        self._in_prompt = tuple(one for one in injected if one.provider.placement == "prompt")
        return injected

    def _trace(
        self,
        account: calibration.Account,
        fixed: Count,
        visible: VisibleMessage,
        injected: list[providers.ProviderText],
    ) -> dict[str, Any]:
        """The trace, in tokens as the vendor counts them if that is known."""
        estimate = msgspec.structs.replace(fixed + self._certainty, tokens=account.total)
        coefficient = self._coefficient(fixed)
        count = coefficient.applied(estimate)
        trace: dict[str, Any] = {
            "tokens": account.traced(coefficient),
            "counted": [count.source, count.confidence],
            "estimate": msgspec.to_builtins(estimate),
        }
        if visible.decisions and visible.changed:
            decisions = [calibration.corrected_decision(one, coefficient) for one in visible.decisions]
            trace["decisions"] = msgspec.to_builtins(decisions)
        elif visible.decisions:
            trace["left"] = len(visible.decisions)
        if injected:
            sizes = calibration.corrected_count([one.tokens for one in injected], coefficient)
            trace["fences"] = [
                [one.provider.kind, size, one.is_cut] for one, size in zip(injected, sizes, strict=True)
            ]
        if self._left_out:
            sizes = calibration.corrected_count([one.tokens for one in self._left_out], coefficient)
            kinds = [one.provider.kind for one in self._left_out]
            trace["fences_left_out"] = [[kind, size] for kind, size in zip(kinds, sizes, strict=True)]
        return trace

    def _echo(self, journal: Journal, trace: dict[str, Any], reminders: list[providers.Reminder]) -> None:
        run = journal.state.run.id if journal.state.run else ""
        if self._echoed != run:
            self._echoed = run
            trace["policy"] = policy = msgspec.to_builtins(self.policy)
            changed = [f"{group}.{name}" for group, changes in policy.items() for name in changes]
            if origins := {rule: self._origins[rule] for rule in changed if rule in self._origins}:
                trace["from"] = origins
        if reminders:
            trace["reminders"] = [one.rule for one in reminders]

    async def needs_compaction(self, journal: Journal, request: ContextInput) -> bool:
        self._use(request.model.name)
        await self._subscribe(journal)
        if self._closed_chapter(request):
            return True
        transcript, length = self._failed
        has_failed = request.transcript is transcript and len(request.transcript) < length + TRY_AGAIN_AFTER
        if not self.policy.summaries.automatic or has_failed:
            return False
        return self._is_too_much(journal, request) and self._place(request, "automatic") is not None

    def _is_too_much(self, journal: Journal, request: ContextInput) -> bool:
        at = self.policy.summaries.at
        reported = self._reported(journal, request)
        if reported and self._sends_everything:
            return reported.tokens > self._sendable() * at
        limit = self._room(request) * at
        conversation = self._conversation(request)
        return self._tally.total > limit and apply_policy(conversation, self.policy) > limit

    def _room(self, request: ContextInput) -> int:
        fixed = self._fixed(request)
        return self._sendable(self._coefficient(fixed).value) - fixed.tokens - self._beside

    def _place(self, request: ContextInput, occasion: CompactionReason) -> int | None:
        """The first message that is not summarised; None if there are too few before it."""
        keep = int(max(1, self._room(request)) * self.policy.summaries.keep)
        return keeps_from(self._conversation(request), keep, occasion)

    async def compact(
        self, journal: Journal, harness: Harness, request: ContextInput, order: CompactionRequest
    ) -> str:
        self._use(request.model.name)
        await self._subscribe(journal)
        if order.occasion == "overflow":
            self._tally.take(request.transcript)
            self._most = self._fixed(request).tokens + int(self._tally.total * LESS)
        place, summary = self._place(request, order.occasion), ""
        if order.occasion == "automatic" and (chapter := self._closed_chapter(request)):
            order = msgspec.structs.replace(order, occasion="checkpoint")
            place, summary = chapter.place, chapter.summary
        if place is None:
            return "there is nothing before the newest messages that could be summarised"
        conversation = self._conversation(request)
        compaction = Compaction(conversation, place, self.policy, order, self._writing_room, summary)
        problem = await compact(journal, harness, compaction)
        if problem and order.occasion == "automatic":
            self._failed = (request.transcript, len(request.transcript))
        return problem

    def _writing_room(self, model: str) -> int:
        """The tokens that a model may get which writes a summary."""
        window = self._window_tokens()
        if model != self._model:
            window = min(window, self._room_of(model).window)
        instructions = self._sized(SYSTEM).tokens
        return max(1, window - min(self.policy.summaries.longest, window // 2) - instructions)

    def _closed_chapter(self, request: ContextInput) -> ClosedChapter | None:
        rules = self.policy.checkpoints
        return closed_chapter(self._conversation(request), rules.keep_calls) if rules.offered else None

    def _conversation(self, request: ContextInput) -> Conversation:
        self._tally.take(request.transcript)
        messages, counts = request.transcript.messages, self._tally.counts
        return Conversation(messages, request.sources, counts, request.prompts, self._count, request.steers)
