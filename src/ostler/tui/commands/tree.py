"""/tree, /undo, /retry and /fork, and the rows of a session's tree. Files stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from ostler.core.state import path_of
from ostler.history.items import first_text
from ostler.history.tree import Node, SessionTree, placed
from ostler.schema.errors import UsageError
from ostler.schema.events import AssistantMessage, Audited, RequestRefused, UserMessage
from ostler.schema.facts import Fact
from ostler.schema.messages import text_of
from ostler.schema.requests import Fork, Label, Navigate
from ostler.schema.text import cut, one_line
from ostler.tui.commands.registry import Command, put_into_line
from ostler.tui.panels.panel import TextLine
from ostler.tui.panels.picker import NOTHING, Choice, Picker

if TYPE_CHECKING:
    from ostler.tui.command_context import CommandContext

_CALLS = ("tool_called", "tool_result")


def _has_words(node: Node, fact: Fact) -> bool:
    if isinstance(fact.event, AssistantMessage):
        return bool(text_of(fact.event.content).strip())
    return node.type not in _CALLS


def _is_own(node: Node, fact: Fact) -> bool:
    return isinstance(fact.event, UserMessage) and not fact.event.hidden


FILTERS: dict[str, Callable[[Node, Fact], bool] | None] = {
    "messages": None,
    "no tools": _has_words,
    "your prompts": _is_own,
    "labelled": lambda node, fact: bool(node.label),
    "everything": lambda node, fact: True,
}
"""The filters, in the order of the key. The first leaves out tool calls and results without branches."""


def tree_choices(facts: Sequence[Fact], filter_name: str) -> list[Choice]:
    """The entries with their numbers. The leaf is marked, or the nearest entry before it."""
    nodes, is_wanted = SessionTree(facts).nodes, FILTERS[filter_name]
    if is_wanted is not None:
        nodes = _filtered(nodes, facts, is_wanted)
    rows = list(placed(nodes, is_whole=is_wanted is not None))
    present = max((node.seq for node, _ in rows if node.on_path), default=0)
    choices = []
    for node, row in rows:
        about = f"goes to #{node.seq}: your next prompt follows it"
        if node.type == "user_message":
            about = _about_prompt(node.seq)
        choices.append(Choice(row, node.seq, about=about, is_present=node.seq == present))
    return choices


def _filtered(
    nodes: Sequence[Node], facts: Sequence[Fact], is_wanted: Callable[[Node, Fact], bool]
) -> list[Node]:
    """The matching nodes. Children of a node that is left out move to its parent."""
    by_number = {fact.seq: fact for fact in facts}
    above = {0: 0}
    """For each entry the nearest one that stays, itself included."""
    matches = []
    for node in nodes:
        parent = above[node.parent]
        if is_wanted(node, by_number[node.seq]):
            matches.append(msgspec.structs.replace(node, parent=parent))
            parent = node.seq
        above[node.seq] = parent
    return matches


def _about_prompt(entry: int) -> str:
    return f"goes back to before #{entry}, with its text in the line"


_LONGEST_TEXT = 60


def tree_commands(context: CommandContext) -> list[Command]:
    group, about_jump = _Trees(context), "go back to before one of your prompts"
    return [
        Command("tree", "browse the branches of this session", group.tree, only_idle=True),
        Command("jump", about_jump, group.jump, (), "[entry|words]", only_idle=True),
        Command("undo", "undo your last prompt; files do not change", group.undo, ("un",), only_idle=True),
        Command("retry", "continue after a failure, or answer again", group.retry, ("rt",), only_idle=True),
        Command("fork", "copy this session into a new one", group.fork, (), "[entry]", only_idle=True),
    ]


class _Trees:
    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def tree(self, arguments: str) -> None:
        context, filter_name, query, place = self._context, next(iter(FILTERS)), "", None
        while True:
            facts = await self._facts()
            names = [*FILTERS, *FILTERS]
            after = names[names.index(filter_name) + 1]
            picker = Picker(
                f"tree, {filter_name}",
                tree_choices(facts, filter_name),
                context.colors,
                query=query,
                keys={"ctrl+o": f"shows {after}", "ctrl+l": "labels it"},
                place=place,
                empty="nothing in this session matches",
            )
            picked = await picker.ask(context.panels)
            if picked is None:
                return
            query, place = picked.query, None
            if picked.key == "enter":
                await self._go(picked.choice.value, facts)
                return
            if picked.key == "ctrl+o":
                filter_name = after
            elif picked.choice is not NOTHING:
                place = picker.place
                await self._label(picked.choice.value)

    async def _label(self, entry: int) -> None:
        context = self._context
        present = context.conversation.session.state.labels.get(entry, "")
        hint = "enter saves it, an empty label is removed, esc cancels"
        line = TextLine(f"label of #{entry}", context.colors, typed=present, hint=hint)
        label = await line.ask(context.panels)
        if label is not None and label != present:
            await context.conversation.ask(lambda id: Label(id=id, by="tui", entry=entry, label=label))

    async def jump(self, arguments: str) -> None:
        facts = await self._facts()
        if arguments.removeprefix("#").isdecimal():
            await self._go(_number(arguments), facts)
            return
        prompts = _prompts(facts)
        matches = [one for one in prompts if arguments and arguments.lower() in _text(one).lower()]
        if len(matches) == 1:
            await self._go(matches[0].seq, facts)
            return
        choices = [_choice(one, _about_prompt(one.seq)) for one in reversed(prompts)]
        empty = "no prompt matches" if prompts else "this session has no prompts yet"
        picker = Picker("go back to before", choices, self._context.colors, query=arguments, empty=empty)
        if (picked := await picker.ask(self._context.panels)) is not None:
            await self._go(picked.choice.value.seq, facts)

    async def undo(self, arguments: str) -> None:
        facts = await self._facts()
        prompts = _prompts(facts)
        if not prompts:
            raise UsageError("there is no prompt to undo")
        await self._go(prompts[-1].seq, facts)

    async def retry(self, arguments: str) -> None:
        conversation = self._context.conversation
        if conversation.session.state.last_status == "completed":
            prompts = _prompts(await self._facts())
            if not prompts:
                raise UsageError("there is no prompt to retry")
            entry = prompts[-1].seq
            outcome = await conversation.ask(lambda id: Navigate(id=id, by="tui", entry=entry))
            if isinstance(outcome, RequestRefused):
                return
        await conversation.continue_run()

    async def fork(self, arguments: str) -> None:
        facts = await self._facts()
        if arguments:
            await self._fork(_number(arguments))
            return
        prompts = _prompts(facts)
        if not prompts:
            raise UsageError("there is nothing to fork yet; /new starts a new session")
        leaf = self._context.conversation.session.state.leaf
        whole = Choice("all of it", leaf, (f"#{leaf}",), about="a new session that continues from here")
        choices = [whole, *(_choice(one, "a new session that ends before it") for one in reversed(prompts))]
        picked = await Picker("fork", choices, self._context.colors).ask(self._context.panels)
        if picked is None:
            return
        if picked.choice is whole:
            await self._fork(leaf)
            return
        prompt: Fact = picked.choice.value
        await self._fork(prompt.parent or 0)
        put_into_line(self._context, _text(prompt))

    async def _fork(self, entry: int) -> None:
        context = self._context
        if entry == 0:
            await context.session_switch.request("fork")
            return
        outcome = await context.conversation.ask(lambda id: Fork(id=id, by="tui", entry=entry))
        if isinstance(outcome, Audited) and outcome.details:
            await context.session_switch.request("fork", outcome.details["session"])

    async def _go(self, entry: int, facts: Sequence[Fact]) -> None:
        """Goes to an entry; for a prompt to the one before it, with the prompt in the line."""
        entries = (one for one in facts if one.seq == entry and one.parent is not None)
        prompt = next((one for one in entries if isinstance(one.event, UserMessage)), None)
        to = (prompt.parent or 0) if prompt is not None else entry
        outcome = await self._context.conversation.ask(lambda id: Navigate(id=id, by="tui", entry=to))
        if isinstance(outcome, RequestRefused):
            return
        self._context.say(f"your next prompt {_place(to, facts)}; files do not change")
        if prompt is not None:
            put_into_line(self._context, _text(prompt))

    async def _facts(self) -> list[Fact]:
        return await self._context.conversation.session.journal.history()


def _prompts(facts: Sequence[Fact]) -> list[Fact]:
    """The prompts on the path to the leaf."""
    path = path_of(facts)
    return [
        fact
        for fact in facts
        if fact.seq in path
        and isinstance(fact.event, UserMessage)
        and fact.event.source == "prompt"
        and not fact.event.hidden
    ]


def _choice(prompt: Fact, about: str) -> Choice:
    text = one_line(_text(prompt)[: _LONGEST_TEXT * 4]) or "(no text)"
    return Choice(text, prompt, (f"#{prompt.seq}",), about=about)


def _text(prompt: Fact) -> str:
    return first_text(prompt.event.content) if isinstance(prompt.event, UserMessage) else ""


def _place(entry: int, facts: Sequence[Fact]) -> str:
    if not entry:
        return "starts from the beginning"
    text = next((node.text for node in SessionTree(facts).nodes if node.seq == entry), "")
    return f"follows #{entry}{', ' if text else ''}{cut(text, _LONGEST_TEXT)}"


def _number(text: str) -> int:
    number = text.removeprefix("#")
    if not number.isdecimal():
        raise UsageError(f"{text!r:.40} is not the number of an entry; /tree lists the entries")
    return int(number)
