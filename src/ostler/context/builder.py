"""A session's context: what is told in each step, by the policy, with a trace of how it was chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ostler.context.calibration import (
    Account,
    Calibration,
    Coefficient,
    corrected_count,
    corrected_decision,
    since_reported,
    too_much,
)
from ostler.context.compaction import SYSTEM, ClosedChapter, Compaction, closed_chapter, compact, keeps_from
from ostler.context.policy import ContextPolicy
from ostler.context.providers import (
    ContextProvider,
    ProviderRequest,
    ProviderText,
    Reminder,
    Rule,
    as_message,
    as_text,
    due_reminders,
    in_order,
    provider_texts,
    within_limit,
)
from ostler.context.selection import Conversation, RequiredEntry, apply_policy
from ostler.context.window import Tally, VisibleMessage, Window, conversation
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
from ostler.core.model import ToolOffer
from ostler.core.transcript import Transcript
from ostler.schema.events import Event, ModelCalled, UsageReported, Warned
from ostler.schema.facts import Fact
from ostler.schema.messages import Message, Text

LARGEST_RESERVE = 16_384

LESS = 0.8
"""Of messages that were too much for the vendor, so many may be told."""

TRY_AGAIN_AFTER = 20
"""Messages that come after a compaction in vain before the next one is tried: each may cost a model call."""

LOOKED_BACK = 1_000
"""Facts that are read to learn by how much earlier counts were off, when a session is opened again."""

_REPORTS = ("model_called", "usage")


class ModelRoom(msgspec.Struct, frozen=True):
    """What a model can hold, and what of it an answer may take."""

    window: int
    output: int | None = None


RoomOf = Callable[[str], ModelRoom]


class ContextBuilder:
    """Keeps what was counted, so that a step costs what is new in it."""

    def __init__(
        self,
        policy: ContextPolicy,
        tokenizer: Tokenizer,
        room_of: RoomOf,
        fences: tuple[ContextProvider, ...] = (),
        reminders: dict[str, Rule] | None = None,
        origins: Mapping[str, str] | None = None,
    ) -> None:
        self.policy = policy
        self._origins = origins or {}
        """Which layer has set each rule: for the trace."""
        self._tokenizer = tokenizer
        self._room_of = room_of
        self._providers: tuple[ContextProvider, ...] = ()
        self.set_providers(fences)
        self._reminders = reminders or {}
        self._model = ""
        self._window = Window(policy, self._count)
        self._tally = Tally(self._count)
        self._sizes: dict[Any, Count] = {}
        self._certainty = NO_TOKENS
        """Of the least certain message."""
        self._beside = 0
        """The tokens of context providers and reminders in the previous step."""
        self._most = 0
        """Less than was sent, once its vendor has said that this was too much."""
        self._run = ""
        self._in_prompt: tuple[ProviderText, ...] = ()
        self._left_out: list[ProviderText] = []
        """Fences for which there was no room."""
        self._echoed = ""
        self._in_system: list[str] | None = None
        """The text of context providers after the system prompt."""
        self._calibration = Calibration()
        self._heard: Journal | None = None
        self._stop_hearing: Callable[[], None] = lambda: None
        self._in_vain: tuple[Transcript | None, int] = (None, 0)
        """What could not be compacted, and how long it was."""

    def for_child(self) -> ContextBuilder:
        return ContextBuilder(
            self.policy, self._tokenizer, self._room_of, self._providers, self._reminders, self._origins
        )

    def set_providers(self, fences: tuple[ContextProvider, ...]) -> None:
        """Replaces the context providers; those before the prompt, from the next run on."""
        self._providers = in_order(fences)

    # --- building -------------------------------------------------------------------------------------

    async def build(self, journal: Journal, told: ContextInput) -> BuiltContext:
        self._use(told.model.name)
        reserve, most = self._reserve(), self._sendable()
        reminders = list(due_reminders(journal.state, self.policy.reminders, self._reminders))
        reported = self._reported(journal, told)
        if reported and reported.tokens <= most and self._tells_everything:
            return self._everything(journal, told, reported, reserve, reminders)
        await self._hear(journal)
        fixed = self._fixed(told)
        space = self._space(fixed)
        injected = await self._injected(journal, space - fixed.tokens)
        inserts, at_end = as_message(self._in_prompt), self._at_end(injected)
        said = self._said(reminders)
        fences = sum(map(self._count, (*inserts, *at_end)))
        fences += sum(one.tokens for one in injected if one.provider.placement == "system")
        reminding = sum(map(self._count, said))
        self._beside = fences + reminding
        room = space - fixed.tokens - fences - reminding
        present = self._conversation(told)
        shown = self._window.show(present, told.transcript, max(0, room), inserts)
        account = Account(self._window_tokens(), reserve, fixed.tokens, fences, reminding, shown.tokens, room)
        trace = self._trace(account, fixed, shown, injected)
        trace["messages"] = [len(shown.transcript), len(told.transcript)]
        self._echo(journal, trace, reminders)
        in_system = [one.text for one in injected if one.provider.placement == "system"]
        if changed := shown.changed or self._changed_system(in_system):
            trace["changed"] = changed
        system = "\n\n".join([told.system, *in_system]) if in_system else told.system
        problem = ""
        if shown.tokens > room:
            kept = self._kept(present, fixed)
            trace["kept"] = msgspec.to_builtins(kept)
            problem = too_much(self._model, trace["tokens"], kept)
        return BuiltContext(system, shown.transcript, (*at_end, *told.said, *said), trace, problem)

    def _kept(self, present: Conversation, fixed: Count) -> list[RequiredEntry]:
        """What stays although it does not fit."""
        kept = self._window.required(present)
        sizes = corrected_count([one.tokens for one in kept], self._coefficient(fixed))
        return [msgspec.structs.replace(one, tokens=size) for one, size in zip(kept, sizes, strict=True)]

    def _changed_system(self, now: list[str]) -> str:
        before, self._in_system = self._in_system, now
        return "" if before is None or before == now else "by the context providers"

    def _reported(self, journal: Journal, told: ContextInput) -> Count | None:
        """What the next request takes: as the vendor counted the last one, and what is new by estimate."""
        state = journal.state
        if not state.context_tokens or state.context_messages > len(told.transcript):
            return None
        if told.said or (journal.last_prefix and journal.last_prefix.system != told.system):
            return None  # it was counted with others
        new = told.transcript.messages[state.context_messages :]
        counts = total(self._tokenizer.message(message, self._model) for message in new)
        return since_reported(state.context_tokens, counts)

    @property
    def _tells_everything(self) -> bool:
        """No rule of the policy changes anything, as long as there is room."""
        return not self._providers and not self._window.has_rules and not self._window.is_cut

    def _everything(
        self, journal: Journal, told: ContextInput, reported: Count, reserve: int, reminders: list[Reminder]
    ) -> BuiltContext:
        tail = self._said(reminders)
        tokens = {"window": self._window_tokens(), "reserve": reserve}
        if tail:
            tokens["reminders"] = sum(map(self._count, tail))
        tokens["all"] = reported.tokens + tokens.get("reminders", 0)
        trace: dict[str, Any] = {
            "tokens": tokens,
            "counted": [reported.source, reported.confidence],
            "messages": [len(told.transcript), len(told.transcript)],
        }
        self._echo(journal, trace, reminders)
        return BuiltContext(told.system, told.transcript, tail, trace)

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

    def _space(self, counted: Count) -> int:
        """What may be told, in tokens as they are counted here: what vendors reported corrects the count."""
        return self._sendable(self._coefficient(counted).value)

    def _coefficient(self, fixed: Count) -> Coefficient:
        return self._calibration.of(self._model, (fixed + self._certainty).source)

    def _sendable(self, coefficient: float = 1) -> int:
        most = int((self._window_tokens() - self._reserve()) / coefficient)
        return min(most, self._most) if self._most else most

    async def _hear(self, journal: Journal) -> None:
        """What vendors report from now on corrects the counts, and what they have reported of late."""
        if self._heard is journal:
            return
        self.release()
        first = max(0, journal.state.last_seq - LOOKED_BACK)
        reports = await journal.store.read(journal.session, first)
        self._heard, self._calibration = journal, Calibration()
        self._take_note(reports)
        self._stop_hearing = journal.subscribe(self._take_note)

    def release(self) -> None:
        """Hears no more of the session."""
        self._heard = None
        self._stop_hearing()

    def _take_note(self, batch: Sequence[Fact | Event]) -> None:
        for item in batch:
            event = item.event if isinstance(item, Fact) and item.type in _REPORTS else None
            if isinstance(event, ModelCalled | UsageReported):
                self._calibration.apply(event)

    def _fixed(self, told: ContextInput) -> Count:
        """The system prompt and the tools, each counted once, and what a hook adds to the whole run."""
        fixed = self._sized(told.system) + self._sized_tools(told.tools)
        if not told.said:
            return fixed
        return fixed + total(self._tokenizer.message(message, self._model) for message in told.said)

    def _sized(self, text: str) -> Count:
        if text not in self._sizes:
            self._sizes[text] = self._tokenizer.text(text, self._model) if text else NO_TOKENS
        return self._sizes[text]

    def _sized_tools(self, tools: tuple[ToolOffer, ...]) -> Count:
        names = tuple(tool.name for tool in tools)
        if names not in self._sizes:
            self._sizes[names] = self._tokenizer.tools(tools, self._model)
        return self._sizes[names]

    # --- context providers and reminders ----------------------------------------------------------------

    async def _injected(self, journal: Journal, room: int) -> list[ProviderText]:
        """The context providers' texts: those before the prompt once in a run, so that the prefix stays."""
        if not self._providers and not self._in_prompt:
            return []
        run = journal.state.run.id if journal.state.run else ""
        is_new_run, self._run = run != self._run, run
        found: list[ProviderText] = []
        for provider in self._providers:
            if provider.placement == "prompt" and not is_new_run:
                found += [one for one in self._in_prompt if one.provider.kind == provider.kind]
                continue
            request = ProviderRequest(journal.session, run, self._model, max(1, int(room * provider.share)))
            try:
                one = await provider_texts(
                    provider, request, lambda text: self._tokenizer.text(text, self._model).tokens
                )
            except Exception as error:  # a host's own code: the run goes on without it
                problem = f"the context provider {provider.kind} failed: {type(error).__name__}: {error}"
                journal.record(Warned(problem, about="hook"))
                continue
            if one is not None:
                found.append(one)
        told = within_limit(found, room)
        self._left_out = [one for one in found if one not in told]
        self._in_prompt = tuple(one for one in told if one.provider.placement == "prompt")
        return told

    def _at_end(self, injected: list[ProviderText]) -> tuple[Message, ...]:
        return as_message(one for one in injected if one.provider.placement == "end")

    def _said(self, reminders: list[Reminder]) -> tuple[Message, ...]:
        return (Message("user", (Text(as_text(reminders)),)),) if reminders else ()

    # --- the trace ------------------------------------------------------------------------------------

    def _trace(
        self, account: Account, fixed: Count, shown: VisibleMessage, injected: list[ProviderText]
    ) -> dict[str, Any]:
        """Everything in tokens as the vendor counts them, as far as that is known."""
        counted = msgspec.structs.replace(fixed + self._certainty, tokens=account.total)
        coefficient = self._coefficient(fixed)
        said = coefficient.applied(counted)
        trace: dict[str, Any] = {
            "tokens": account.traced(coefficient),
            "counted": [said.source, said.confidence],
            "estimate": msgspec.to_builtins(counted),
        }
        if shown.decisions and shown.changed:
            decisions = [corrected_decision(one, coefficient) for one in shown.decisions]
            trace["decisions"] = msgspec.to_builtins(decisions)
        elif shown.decisions:
            trace["left"] = len(shown.decisions)
        if injected:
            sizes = corrected_count([one.tokens for one in injected], coefficient)
            trace["fences"] = [
                [one.provider.kind, size, one.is_cut] for one, size in zip(injected, sizes, strict=True)
            ]
        if self._left_out:
            sizes = corrected_count([one.tokens for one in self._left_out], coefficient)
            kinds = [one.provider.kind for one in self._left_out]
            trace["fences_left_out"] = [[kind, size] for kind, size in zip(kinds, sizes, strict=True)]
        return trace

    def _echo(self, journal: Journal, trace: dict[str, Any], reminders: list[Reminder]) -> None:
        run = journal.state.run.id if journal.state.run else ""
        if self._echoed != run:
            self._echoed = run
            trace["policy"] = policy = msgspec.to_builtins(self.policy)
            changed = [f"{group}.{name}" for group, changes in policy.items() for name in changes]
            if origins := {rule: self._origins[rule] for rule in changed if rule in self._origins}:
                trace["from"] = origins
        if reminders:
            trace["reminders"] = [one.rule for one in reminders]

    # --- compaction -----------------------------------------------------------------------------------

    async def needs_compaction(self, journal: Journal, told: ContextInput) -> bool:
        self._use(told.model.name)
        await self._hear(journal)
        if self._closed_chapter(told):
            return True
        if not self.policy.summaries.automatic or self._was_in_vain(told):
            return False
        return self._is_too_much(journal, told) and self._place(told, "automatic") is not None

    def _is_too_much(self, journal: Journal, told: ContextInput) -> bool:
        at = self.policy.summaries.at
        reported = self._reported(journal, told)
        if reported and self._tells_everything:
            return reported.tokens > self._sendable() * at
        room = self._room(told)
        told_so_far = self._conversation(told)
        return self._tally.total > room * at and apply_policy(told_so_far, self.policy) > room * at

    def _room(self, told: ContextInput) -> int:
        fixed = self._fixed(told)
        return self._space(fixed) - fixed.tokens - self._beside

    def _place(self, told: ContextInput, occasion: CompactionReason) -> int | None:
        """Before it, messages can be summarised; None if there are too few."""
        keep = int(max(1, self._room(told)) * self.policy.summaries.keep)
        return keeps_from(self._conversation(told), keep, occasion)

    async def compact(
        self, journal: Journal, harness: Harness, told: ContextInput, order: CompactionRequest
    ) -> str:
        self._use(told.model.name)
        await self._hear(journal)
        if order.occasion == "overflow":
            self._tally.take(told.transcript)
            self._most = self._fixed(told).tokens + int(self._tally.total * LESS)
        told_so_far = self._conversation(told)
        if order.occasion == "automatic" and (chapter := self._closed_chapter(told)):
            order = msgspec.structs.replace(order, occasion="checkpoint")
            compaction = Compaction(
                told_so_far, chapter.place, self.policy, order, self._writing_room, chapter.summary
            )
            return await compact(journal, harness, compaction)
        place = self._place(told, order.occasion)
        if place is None:
            return "there is nothing before the newest messages that could be summarised"
        compaction = Compaction(told_so_far, place, self.policy, order, self._writing_room)
        problem = await compact(journal, harness, compaction)
        if problem and order.occasion == "automatic":
            self._in_vain = (told.transcript, len(told.transcript))
        return problem

    def _writing_room(self, model: str) -> int:
        """What a model may be told that writes a summary, which is as long as the policy says."""
        window = self._window_tokens()
        if model != self._model:
            window = min(window, self._room_of(model).window)
        instructions = self._sized(SYSTEM).tokens
        return max(1, window - min(self.policy.summaries.longest, window // 2) - instructions)

    def _was_in_vain(self, told: ContextInput) -> bool:
        transcript, length = self._in_vain
        return told.transcript is transcript and len(told.transcript) < length + TRY_AGAIN_AFTER

    def _closed_chapter(self, told: ContextInput) -> ClosedChapter | None:
        rules = self.policy.checkpoints
        return closed_chapter(self._conversation(told), rules.keep_calls) if rules.offered else None

    def _conversation(self, told: ContextInput) -> Conversation:
        return conversation(
            told.transcript, told.sources, told.prompts, self._tally, self._count, told.steers
        )
