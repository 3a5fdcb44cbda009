"""Selects the messages of a context: a pure function of the conversation, the policy and the room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Literal

import msgspec

from ostler.context.policy import ContextPolicy, ResultMode
from ostler.core.transcript import SUMMARY
from ostler.schema.messages import Block, Message, Reasoning, Text, ToolResult, text_of

Action = Literal["cut", "dropped", "stripped"]

EASE = 0.75
"""The share of the room that is filled if something is left out, so that the next steps fit too."""

CHARACTERS_A_TOKEN = 4


class Decision(msgspec.Struct, frozen=True):
    """A decision about entries that are not sent verbatim."""

    first: int
    last: int
    """The numbers of the first and the last entry."""
    action: Action
    rule: str
    before: int
    after: int
    """Tokens."""


class RequiredEntry(msgspec.Struct, frozen=True):
    """Entries that are sent although there is no room for them, and the rule that requires them."""

    first: int
    last: int
    rule: str
    tokens: int


class Conversation(msgspec.Struct, frozen=True):
    """The messages that could be sent, with the number of the entry and the tokens of each."""

    messages: Sequence[Message]
    sources: Sequence[int]
    counts: Sequence[int]
    prompts: Set[int]
    count: Callable[[Message], int]
    steers: Set[int] = frozenset()

    @property
    def present(self) -> int:
        """Where the current run begins: at its prompt, or at 0 once that is summarised."""
        places = range(len(self.sources) - 1, -1, -1)
        return next((at for at in places if self.sources[at] in self.prompts), 0)


class Plan(msgspec.Struct, frozen=True):
    """The messages to send of a conversation, and the decisions about the others."""

    messages: list[Message]
    sources: list[int]
    counts: list[int]
    decisions: tuple[Decision, ...]
    left_out: int = 0
    """Messages for which there was no room at all."""


class _Atom(msgspec.Struct):
    """Messages that are sent together or not at all: a prompt, an answer, or calls with their results."""

    first: int
    last: int
    messages: list[Message]
    tokens: int
    tools: frozenset[str]
    kept_by: str
    """The rule by which it must not be left out or cut; empty without one."""


def plan(conversation: Conversation, policy: ContextPolicy, room: int) -> Plan:
    """Applies the rules of the policy; if the result does not fit, cuts and drops the oldest messages."""
    planner = _Planner(conversation, policy)
    planner.apply_rules()
    if planner.tokens > room:
        planner.make_room(int(room * EASE))
    if planner.tokens > room:
        planner.cut_newest(room)
    return planner.planned()


def required_entries(conversation: Conversation, policy: ContextPolicy) -> tuple[RequiredEntry, ...]:
    """The rule by which each part of a conversation stays, when nothing more can be left out."""
    return tuple(_Planner(conversation, policy).required())


def apply_policy(conversation: Conversation, policy: ContextPolicy) -> int:
    """The tokens that remain after the rules, which decide whether a compaction is due."""
    planner = _Planner(conversation, policy)
    planner.apply_rules()
    return planner.tokens


class _Planner:
    def __init__(self, conversation: Conversation, policy: ContextPolicy) -> None:
        self._conversation = conversation
        self._policy = policy
        self._starts = [
            place for place, source in enumerate(conversation.sources) if source in conversation.prompts
        ]
        self._present = conversation.present
        self._atoms = list(self._group())
        self.tokens = sum(atom.tokens for atom in self._atoms)
        self._decisions: list[Decision] = []
        self._left_out = 0

    def _group(self) -> Iterator[_Atom]:
        conversation, place = self._conversation, 0
        while place < len(conversation.messages):
            message, last = conversation.messages[place], place
            has_results = message.calls and place + 1 < len(conversation.messages)
            if has_results and conversation.messages[place + 1].role == "tool":
                last = place + 1
            tools = frozenset(call.name for call in message.calls)
            yield _Atom(
                first=place,
                last=last,
                messages=list(conversation.messages[place : last + 1]),
                tokens=sum(conversation.counts[place : last + 1]),
                tools=tools,
                kept_by=self._kept_by(place, tools),
            )
            place = last + 1

    def _kept_by(self, place: int, tools: frozenset[str]) -> str:
        rules, source = self._policy.must_keep, self._conversation.sources[place]
        is_prompt = source in self._conversation.prompts and place == self._present
        is_steer = source in self._conversation.steers and place >= self._present
        if rules.last_prompt and (is_prompt or is_steer):
            return "must_keep.last_prompt"
        if rules.first_prompt and self._starts and place == self._starts[0]:
            return "must_keep.first_prompt"
        if tools & set(rules.tools):
            return "must_keep.tools"
        is_summary = place == 0 and text_of(self._conversation.messages[0].content).startswith(SUMMARY)
        return "summary" if is_summary else ""

    def required(self) -> Iterator[RequiredEntry]:
        for atom in self._atoms:
            first, last = self._conversation.sources[atom.first], self._conversation.sources[atom.last]
            yield RequiredEntry(first, last, atom.kept_by or "newest", atom.tokens)

    def apply_rules(self) -> None:
        """Applies the rules that do not depend on the room."""
        self._shorten_tool_history()
        self._strip_reasoning()

    def _shorten_tool_history(self) -> None:
        rules = self._policy.tool_history
        if rules.results == "full" and not rules.by_tool:
            return
        earlier_runs = [start for start in self._starts if start < self._present]
        full_runs = earlier_runs[-rules.keep_runs :] if rules.keep_runs else []
        border = full_runs[0] if full_runs else self._present
        old = [atom for atom in self._atoms if atom.tools and atom.last < border]
        for atom in old[: len(old) - rules.keep_calls] if rules.keep_calls else old:
            if atom.kept_by:
                continue
            modes = {name: rules.by_tool.get(name, rules.results) for name in atom.tools}
            if set(modes.values()) == {"dropped"}:
                self._drop_calls(atom, "tool_history")
            elif set(modes.values()) != {"full"}:
                self._cut_results(atom, "tool_history", modes)

    def _strip_reasoning(self) -> None:
        keep = self._policy.reasoning.keep
        if keep is None:
            return
        old = [atom for atom in self._atoms if atom.messages and atom.last < self._present]
        thinking = [atom for atom in old if any(isinstance(b, Reasoning) for b in atom.messages[0].content)]
        for atom in thinking[: len(thinking) - keep] if keep else thinking:
            first = atom.messages[0]
            content = tuple(block for block in first.content if not isinstance(block, Reasoning))
            answer = [Message(first.role, content)] if content else []
            self._replace(atom, [*answer, *atom.messages[1:]], "stripped", "reasoning")

    def make_room(self, target: int) -> None:
        """Cuts results, then leaves out whole atoms, the oldest first."""
        for atom in self._atoms[:-1]:
            if self.tokens <= target:
                return
            if atom.tools and not atom.kept_by:
                self._cut_results(atom, "room", dict.fromkeys(atom.tools, "cut"))
        for atom in self._atoms[:-1]:
            if self.tokens <= target:
                return
            if atom.messages and not atom.kept_by:
                self._leave_out(atom)

    def cut_newest(self, room: int) -> None:
        """As a last resort, cuts the newest results, each to the same length."""
        newest = self._atoms[-1] if self._atoms else None
        if newest is None or not newest.tools or newest.kept_by:
            return
        modes: dict[str, ResultMode] = dict.fromkeys(newest.tools, "cut")
        spare = room - (self.tokens - newest.tokens)
        least = self._policy.tool_history.cut_to * CHARACTERS_A_TOKEN
        limit = max(least, spare * CHARACTERS_A_TOKEN)
        cut = _all_with_cut_results(newest.messages, limit, modes)
        while sum(map(self._conversation.count, cut)) > spare and limit > least:
            limit = max(least, limit // 2)
            cut = _all_with_cut_results(newest.messages, limit, modes)
        self._replace(newest, cut, "cut", "room")

    def _leave_out(self, atom: _Atom) -> None:
        self._decide(atom, "dropped", "room", 0)
        self._left_out += len(atom.messages)
        self.tokens -= atom.tokens
        atom.messages, atom.tokens = [], 0

    def _drop_calls(self, atom: _Atom, rule: str) -> None:
        """Drops the calls and their results; the text of the answer stays."""
        first = atom.messages[0]
        text = tuple(block for block in first.content if isinstance(block, Text) and block.text.strip())
        self._replace(atom, [Message(first.role, text)] if text else [], "dropped", rule)

    def _cut_results(self, atom: _Atom, rule: str, modes: dict[str, ResultMode]) -> None:
        limit = self._policy.tool_history.cut_to * CHARACTERS_A_TOKEN
        cut = _all_with_cut_results(atom.messages, limit, modes)
        if cut != atom.messages:
            self._replace(atom, cut, "cut", rule)

    def _replace(self, atom: _Atom, messages: list[Message], action: Action, rule: str) -> None:
        tokens = sum(self._conversation.count(message) for message in messages)
        if tokens >= atom.tokens:
            return
        self._decide(atom, action, rule, tokens)
        self.tokens += tokens - atom.tokens
        atom.messages, atom.tokens = messages, tokens

    def _decide(self, atom: _Atom, action: Action, rule: str, after: int) -> None:
        first, last = self._conversation.sources[atom.first], self._conversation.sources[atom.last]
        self._decisions.append(Decision(first, last, action, rule, atom.tokens, after))

    def planned(self) -> Plan:
        conversation = self._conversation
        messages: list[Message] = []
        sources: list[int] = []
        counts: list[int] = []
        for atom in self._atoms:
            messages += atom.messages
            place = slice(atom.first, atom.last + 1)
            is_complete = len(atom.messages) == len(conversation.sources[place])
            sources += (
                conversation.sources[place]
                if is_complete
                else [conversation.sources[atom.first]] * len(atom.messages)
            )
            if is_complete and atom.tokens == sum(conversation.counts[place]):
                counts += conversation.counts[place]
            else:
                counts += [conversation.count(message) for message in atom.messages]
        return Plan(messages, sources, counts, tuple(join_messages(self._decisions)), self._left_out)


def _all_with_cut_results(
    messages: Sequence[Message], limit: int, modes: dict[str, ResultMode]
) -> list[Message]:
    def cut(message: Message) -> Message:
        if message.role != "tool":
            return message
        return Message("tool", tuple(_cut(block, limit, modes) for block in message.content))

    return list(map(cut, messages))


def _cut(block: Block, limit: int, modes: dict[str, ResultMode]) -> Block:
    if not isinstance(block, ToolResult) or modes.get(block.name, "full") == "full":
        return block
    text = "\n".join(part.text for part in block.content if isinstance(part, Text))
    others = sum(not isinstance(part, Text) for part in block.content)
    if len(text) <= limit and not others:
        return block
    half = max(1, limit // 2)
    if len(text) > limit:
        text = f"{text[:half]}\n[… {len(text) - 2 * half} characters are omitted …]\n{text[-half:]}"
    if others:
        text += f"\n[{others} pictures or files are omitted]"
    return msgspec.structs.replace(block, content=(Text(text),))


def join_messages(decisions: Sequence[Decision]) -> Iterator[Decision]:
    """The decisions in the order of the entries; neighbours that were left out are joined to one."""
    last: Decision | None = None
    for one in sorted(decisions, key=lambda one: (one.first, -one.last, not _is_left_out(one))):
        if last is not None and _is_left_out(last):
            if one.last <= last.last:
                last = msgspec.structs.replace(last, before=last.before + one.before - one.after)
                continue
            if _is_left_out(one):
                before = last.before + one.before
                last = Decision(last.first, one.last, one.action, one.rule, before, 0)
                continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _is_left_out(decision: Decision) -> bool:
    return (decision.action, decision.rule) == ("dropped", "room")
