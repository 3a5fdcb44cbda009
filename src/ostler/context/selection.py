"""Selects the messages of a context: a pure function of the conversation, the policy and the room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Literal

import msgspec

from ostler.context.policy import ContextPolicy, ResultMode
from ostler.core.transcript import SUMMARY
from ostler.schema.messages import Block, Message, Reasoning, Text, ToolCall, ToolResult, text_of

Action = Literal["cut", "dropped", "stripped"]

EASE = 0.75
"""The share of the room that is filled when something had to be left out: so that the next steps need not."""

CHARACTERS_A_TOKEN = 4


class Decision(msgspec.Struct, frozen=True):
    """What became of entries that are not told as they are."""

    first: int
    last: int
    """The numbers of the first and the last entry."""
    action: Action
    rule: str
    before: int
    after: int
    """Tokens."""


class RequiredEntry(msgspec.Struct, frozen=True):
    """Entries that are told although there is no room for them, and by which rule."""

    first: int
    last: int
    rule: str
    tokens: int


class Conversation(msgspec.Struct, frozen=True):
    """The messages that could be told, with the number of the entry and the tokens of each."""

    messages: Sequence[Message]
    sources: Sequence[int]
    counts: Sequence[int]
    prompts: Set[int]
    count: Callable[[Message], int]
    steers: Set[int] = frozenset()

    @property
    def present(self) -> int:
        """Where the present run begins: at its prompt or, once that is summarised, with everything."""
        places = range(len(self.sources) - 1, -1, -1)
        return next((at for at in places if self.sources[at] in self.prompts), 0)


class Plan(msgspec.Struct, frozen=True):
    """What is left of a conversation, and why."""

    messages: list[Message]
    sources: list[int]
    counts: list[int]
    decisions: tuple[Decision, ...]
    left_out: int = 0
    """Messages for which there was no room at all."""


class _Atom(msgspec.Struct):
    """Messages that are told together or not at all: a prompt, an answer, or calls with their results."""

    first: int
    last: int
    messages: list[Message]
    tokens: int
    tools: frozenset[str]
    kept_by: str
    """The rule by which it must not be left out, nor cut."""


def plan(told: Conversation, policy: ContextPolicy, room: int) -> Plan:
    """By the rules of the policy; and if that is too much for the room, with less of what is oldest."""
    planner = _Planner(told, policy)
    planner.apply_rules()
    if planner.tokens > room:
        planner.make_room(int(room * EASE))
    if planner.tokens > room:
        planner.cut_newest(room)
    return planner.planned()


def required_entries(told: Conversation, policy: ContextPolicy) -> tuple[RequiredEntry, ...]:
    """By which rule each part stays, of a conversation of which nothing more can be left out."""
    return tuple(_Planner(told, policy).required())


def apply_policy(told: Conversation, policy: ContextPolicy) -> int:
    """The tokens that the rules alone leave: what a compaction is judged by."""
    planner = _Planner(told, policy)
    planner.apply_rules()
    return planner.tokens


class _Planner:
    def __init__(self, told: Conversation, policy: ContextPolicy) -> None:
        self._told = told
        self._policy = policy
        starts = [place for place, source in enumerate(told.sources) if source in told.prompts]
        self._starts = starts
        self._present = told.present
        self._atoms = list(self._group())
        self.tokens = sum(atom.tokens for atom in self._atoms)
        self._decisions: list[Decision] = []
        self._left_out = 0

    def _group(self) -> Iterator[_Atom]:
        told, place = self._told, 0
        while place < len(told.messages):
            message, last = told.messages[place], place
            has_results = message.calls and place + 1 < len(told.messages)
            if has_results and told.messages[place + 1].role == "tool":
                last = place + 1
            tools = frozenset(call.name for call in message.calls)
            yield _Atom(
                first=place,
                last=last,
                messages=list(told.messages[place : last + 1]),
                tokens=sum(told.counts[place : last + 1]),
                tools=tools,
                kept_by=self._kept_by(place, tools),
            )
            place = last + 1

    def _kept_by(self, place: int, tools: frozenset[str]) -> str:
        rules, source = self._policy.must_keep, self._told.sources[place]
        is_prompt = source in self._told.prompts and place == self._present
        was_said = source in self._told.steers and place >= self._present
        if rules.last_prompt and (is_prompt or was_said):
            return "must_keep.last_prompt"
        if rules.first_prompt and self._starts and place == self._starts[0]:
            return "must_keep.first_prompt"
        if tools & set(rules.tools):
            return "must_keep.tools"
        is_summary = place == 0 and text_of(self._told.messages[0].content).startswith(SUMMARY)
        return "summary" if is_summary else ""

    def required(self) -> Iterator[RequiredEntry]:
        for atom in self._atoms:
            first, last = self._told.sources[atom.first], self._told.sources[atom.last]
            yield RequiredEntry(first, last, atom.kept_by or "newest", atom.tokens)

    # --- rules that hold in any case ------------------------------------------------------------------

    def apply_rules(self) -> None:
        self._shorten_tool_history()
        self._strip_reasoning()

    def _shorten_tool_history(self) -> None:
        rules = self._policy.tool_history
        if rules.results == "full" and not rules.by_tool:
            return
        runs_before = [start for start in self._starts if start < self._present]
        told_whole = runs_before[-rules.keep_runs :] if rules.keep_runs else []
        border = told_whole[0] if told_whole else self._present
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
        thinking = [
            atom
            for atom in self._atoms
            if atom.messages
            and atom.last < self._present
            and any(isinstance(b, Reasoning) for b in atom.messages[0].content)
        ]
        for atom in thinking[: len(thinking) - keep] if keep else thinking:
            first = atom.messages[0]
            content = tuple(block for block in first.content if not isinstance(block, Reasoning))
            said = [Message(first.role, content)] if content else []
            self._replace(atom, [*said, *atom.messages[1:]], "stripped", "reasoning")

    # --- rules for want of room -----------------------------------------------------------------------

    def make_room(self, target: int) -> None:
        """Cuts results, the oldest first, then leaves whole atoms out, the oldest first."""
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
        """The last thing that can be done: the newest results, each to the same length, as long as can be."""
        newest = self._atoms[-1] if self._atoms else None
        if newest is None or not newest.tools or newest.kept_by:
            return
        modes: dict[str, ResultMode] = dict.fromkeys(newest.tools, "cut")
        spare = room - (self.tokens - newest.tokens)
        least = self._policy.tool_history.cut_to * CHARACTERS_A_TOKEN
        limit = max(least, spare * CHARACTERS_A_TOKEN)
        cut = _all_with_cut_results(newest.messages, limit, modes)
        while sum(map(self._told.count, cut)) > spare and limit > least:
            limit = max(least, limit // 2)
            cut = _all_with_cut_results(newest.messages, limit, modes)
        self._replace(newest, cut, "cut", "room")

    def _leave_out(self, atom: _Atom) -> None:
        self._decide(atom, "dropped", "room", 0)
        self._left_out += len(atom.messages)
        self.tokens -= atom.tokens
        atom.messages, atom.tokens = [], 0

    # --- changes --------------------------------------------------------------------------------------

    def _drop_calls(self, atom: _Atom, rule: str) -> None:
        """Without its calls and their results; what was said beside them stays."""
        first = atom.messages[0]
        said = tuple(block for block in first.content if isinstance(block, Text) and block.text.strip())
        self._replace(atom, [Message(first.role, said)] if said else [], "dropped", rule)

    def _cut_results(self, atom: _Atom, rule: str, modes: dict[str, ResultMode]) -> None:
        limit = self._policy.tool_history.cut_to * CHARACTERS_A_TOKEN
        cut = _all_with_cut_results(atom.messages, limit, modes)
        if cut != atom.messages:
            self._replace(atom, cut, "cut", rule)

    def _replace(self, atom: _Atom, messages: list[Message], action: Action, rule: str) -> None:
        tokens = sum(self._told.count(message) for message in messages)
        if tokens >= atom.tokens:
            return
        self._decide(atom, action, rule, tokens)
        self.tokens += tokens - atom.tokens
        atom.messages, atom.tokens = messages, tokens

    def _decide(self, atom: _Atom, action: Action, rule: str, after: int) -> None:
        first, last = self._told.sources[atom.first], self._told.sources[atom.last]
        self._decisions.append(Decision(first, last, action, rule, atom.tokens, after))

    def planned(self) -> Plan:
        told = self._told
        messages: list[Message] = []
        sources: list[int] = []
        counts: list[int] = []
        for atom in self._atoms:
            messages += atom.messages
            if len(atom.messages) == atom.last - atom.first + 1:
                sources += told.sources[atom.first : atom.last + 1]
            else:
                sources += [told.sources[atom.first]] * len(atom.messages)
            is_same = atom.tokens == sum(told.counts[atom.first : atom.last + 1])
            if is_same and len(atom.messages) == atom.last - atom.first + 1:
                counts += told.counts[atom.first : atom.last + 1]
            else:
                counts += [told.count(message) for message in atom.messages]
        return Plan(messages, sources, counts, tuple(join_messages(self._decisions)), self._left_out)


def _all_with_cut_results(
    messages: Sequence[Message], limit: int, modes: dict[str, ResultMode]
) -> list[Message]:
    return [
        Message("tool", tuple(_cut(block, limit, modes) for block in message.content))
        if message.role == "tool"
        else message
        for message in messages
    ]


def _cut(block: Block, limit: int, modes: dict[str, ResultMode]) -> Block:
    if not isinstance(block, ToolResult) or modes.get(block.name, "full") == "full":
        return block
    text = "\n".join(part.text for part in block.content if isinstance(part, Text))
    others = sum(not isinstance(part, Text) for part in block.content)
    if len(text) <= limit and not others:
        return block
    half = max(1, limit // 2)
    if len(text) > limit:
        text = f"{text[:half]}\n[… {len(text) - 2 * half} characters are left out …]\n{text[-half:]}"
    if others:
        text += f"\n[{others} pictures or files are left out]"
    return msgspec.structs.replace(block, content=(Text(text),))


def join_messages(decisions: Sequence[Decision]) -> Iterator[Decision]:
    """In the order of the entries; neighbours that were left out as one, with what was cut of them before."""
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


def has_calls_without_results(messages: Sequence[Message]) -> bool:
    """Whether a call was parted from its result: never, in a plan."""
    called = [block.id for message in messages for block in message.content if isinstance(block, ToolCall)]
    done = [block.call for message in messages for block in message.content if isinstance(block, ToolResult)]
    return sorted(called) != sorted(done)
