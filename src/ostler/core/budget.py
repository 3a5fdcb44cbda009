"""Limits of a run and its children: counted over the whole tree, reserved before each model call; and the
time limit, which ends the run wherever it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from ostler.core.cancellation import CancelToken
from ostler.core.run_state import BudgetUse, RunState
from ostler.schema.errors import StoreError
from ostler.schema.events import Limits, RunEnded, Warned
from ostler.schema.usage import NOTHING_USED, Usage

if TYPE_CHECKING:
    from ostler.core.journal import Journal

WARN_AT = 0.8
"""The part of a limit at which there is a warning, once."""

TINY = 1e-9
"""The rounding error of sums of dollars."""

CHARACTERS_A_TOKEN = 4


class Budget:
    """The budget of an open run. A child's budget also asks its parent's, which counts it.

    What has been used follows from the facts; only reservations are kept here. So a tree is counted in the
    one process that drives it, and after a crash the facts say where it stood. `time_limit` counts the time:
    it must also reach a call that hangs.
    """

    def __init__(self, journal: Journal, limits: Limits, parent: Budget | None = None) -> None:
        self._journal = journal
        self._limits = limits
        self._parent = parent
        self._children: dict[str, Budget] = {}
        """Those that this process drives, by their session."""
        self._at_rest: dict[str, BudgetUse] = {}
        """What the others had used when they were last looked at: they wait, or were cut."""
        self._reserved: Usage | None = None
        self._beside: list[Usage] = []
        """What is reserved for calls beside the steps."""
        self._at_the_end: BudgetUse | None = None
        if parent is not None:
            parent._children[journal.session] = self
            parent._at_rest.pop(journal.session, None)
        self._numbers = self._number_in_each()
        self._has_own_limits = any(
            limit is not None
            for limit in (limits.steps, limits.tokens, limits.cost, limits.depth, limits.children)
        )
        self.is_limited: bool = self._has_own_limits or (parent is not None and parent.is_limited)

    def _number_in_each(self) -> dict[Budget, int]:
        """For each of those above, how many children it had when this one was begun, with this one."""
        return {budget: budget.used().children for budget, depth in self._with_parents() if depth}

    @property
    def _run(self) -> RunState | None:
        return self._journal.state.run

    def used(self) -> BudgetUse:
        """By the run and its children, ended or not."""
        if self._at_the_end is not None:
            return self._at_the_end
        total = self._run.used() if self._run is not None else BudgetUse()
        for used in (*(child.used() for child in self._children.values()), *self._at_rest.values()):
            total.add(used)
            total.children += 1
        return total

    def close(self) -> None:
        """The run is about to get its end: its last count holds until the parent has it as a fact."""
        self._at_the_end = self.used()
        self._reserved = None
        self._beside.clear()

    def count(self, child: str, used: BudgetUse) -> None:
        """What a child that nobody drives here has used so far."""
        self._at_rest[child] = used

    def forget(self, child: str) -> None:
        """A child's end is a fact now, and counts as one: it is not counted here any more."""
        self._children.pop(child, None)
        self._at_rest.pop(child, None)

    async def reserve(self) -> str:
        """Sets aside what the next model call will use, or says which limit forbids it."""
        await self.warn()
        next_call = self._estimate()
        reason = self._obstacle(next_call)
        self._reserved = None if reason else next_call
        return reason

    def release(self) -> None:
        """The call has its usage."""
        self._reserved = None

    async def reserve_side_call(self) -> Usage | str:
        """Sets aside what a call beside the steps will use, to be settled with that; or says which limit
        forbids it."""
        await self.warn()
        call = self._estimate()
        for budget, _ in self._with_parents():
            if reason := budget._limit_reached(call, steps=0):
                return reason
        self._beside.append(call)
        return call

    def release_side_call(self, call: Usage) -> None:
        """That call has its usage, unless the run ended before."""
        if call in self._beside:
            self._beside.remove(call)

    @property
    def is_reserved(self) -> bool:
        return self._reserved is not None or not self.is_limited

    def _obstacle(self, next_call: Usage) -> str:
        for budget, depth in self._with_parents():
            if reason := self._not_let_in(budget, depth) or budget._limit_reached(next_call):
                return reason
        return ""

    def admit_child(self, child: str) -> str:
        """Counts a child of the run that has no budget, being another vendor's agent; or says which limit
        forbids it."""
        self.count(child, BudgetUse())
        for budget, depth in self._with_parents():
            if reason := budget._refusal(depth + 1, budget.used().children):
                return reason
        return ""

    def _not_let_in(self, above: Budget, depth: int) -> str:
        """A child that is too deep, or one too many, is refused its first step; the others go on."""
        if not depth or (self._run is not None and self._run.steps):
            return ""
        return above._refusal(depth, self._numbers[above])

    def _refusal(self, depth: int, number: int) -> str:
        """Why a child so deep below this run, and the so manieth of it, may not begin."""
        limits = self._limits
        if limits.depth is not None and depth > limits.depth:
            return f"the limit of {limits.depth} levels of children was reached"
        if limits.children is not None and number > limits.children:
            return f"the limit of {limits.children} children was reached"
        return ""

    def _with_parents(self) -> Iterator[tuple[Budget, int]]:
        budget: Budget | None = self
        depth = 0
        while budget is not None:
            yield budget, depth
            budget, depth = budget._parent, depth + 1

    def _limit_reached(self, next_call: Usage, steps: int = 1) -> str:
        limits = self._limits
        if not self._has_own_limits:
            return ""
        used, reserved = self.used(), self._reservations()
        if limits.steps is not None and steps and used.steps + steps > limits.steps:
            return f"the limit of {limits.steps} steps was reached"
        tokens = used.tokens + reserved.total_tokens
        if limits.tokens is not None and tokens + max(1, next_call.total_tokens) > limits.tokens:
            return f"the limit of {limits.tokens} tokens was reached: {used.tokens} are used"
        if limits.cost is not None and used.unpriced:
            return (
                f"a limit of ${limits.cost:g} cannot be kept, because the model's prices are not known: "
                "set them in the configuration, or drop the limit"
            )
        cost = used.cost + (reserved.cost or 0.0)
        if limits.cost is not None and (cost + (next_call.cost or 0.0) > limits.cost or cost >= limits.cost):
            return f"the limit of ${limits.cost:g} was reached: ${used.cost:.4g} is used"
        return ""

    def _reservations(self) -> Usage:
        total = sum(self._beside, self._reserved or NOTHING_USED)
        for child in self._children.values():
            total = total + child._reservations()
        return total

    def _estimate(self) -> Usage:
        """The next call is taken to be like the last, a child's first one like its parent's last. Where there
        was none yet, what the model is told is counted."""
        for budget, _ in self._with_parents():
            last = budget._run.last_usage if budget._run else None
            if last is not None and last.source == "reported":
                return msgspec.structs.replace(last, cost=last.cost or 0.0)
        if all(budget._limits.tokens is None for budget, _ in self._with_parents()):
            return NOTHING_USED  # nobody asks for tokens, and a long transcript takes long to count
        characters = sum(len(message.text) for message in self._journal.state.transcript)
        return Usage(input_tokens=characters // CHARACTERS_A_TOKEN, cost=0.0)

    async def warn(self) -> None:
        """Says once, for each limit of the run and of those above it, that most of it is used."""
        for budget, depth in self._with_parents():
            run = budget._run
            if not budget._has_own_limits or run is None:
                continue
            for name, used, limit in budget._shares(depth):
                if limit and used >= limit * WARN_AT - TINY and name not in run.warned:
                    budget._journal.record(limit_warning(name, used, limit))
                    await budget._journal.commit()

    def _shares(self, depth: int) -> list[tuple[str, float, float | None]]:
        used, limits = self.used(), self._limits
        return [
            ("steps", used.steps, limits.steps),
            ("tokens", used.tokens, limits.tokens),
            ("cost", used.cost, limits.cost),
            ("children", used.children, limits.children),
            ("depth", depth, limits.depth),
        ]


_UNITS = {"cost": "dollars", "depth": "levels of children"}


def limit_warning(name: str, used: float, limit: float) -> Warned:
    """The fact that most of a limit is used."""
    text = f"{used:.4g} of {limit:g} {_UNITS.get(name, name)} are used"
    return Warned(text, about="limit", details={"limit": name, "used": used, "of": limit})


def limits_of(begun_with: Limits, now: Limits) -> Limits:
    """A run that somebody goes on with keeps the limits it was begun with, where no others are given now."""
    given = {name: limit for name in now.__struct_fields__ if (limit := getattr(now, name)) is not None}
    return msgspec.structs.replace(begun_with, **given)


LOOK_AGAIN = 0.25
"""Seconds after which it is seen that a person has answered."""

TIME_IS_UP = "seconds was reached"


def is_time_limit(ended: RunEnded) -> bool:
    """Whether time cut the run, and not what it did."""
    return ended.status == "limit" and ended.reason.endswith(TIME_IS_UP)


@asynccontextmanager
async def time_limit(journal: Journal, seconds: float | None, cancel: CancelToken) -> AsyncIterator[None]:
    """Fires the token when the open run has had its time. While a person is waited for, time stands still."""
    run = journal.state.run
    if run is None or seconds is None:
        yield
        return
    watching = asyncio.ensure_future(_Watch(journal, run).watch(seconds, cancel))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})


class _Watch:
    """Counts the time of a run from the end of its log: while no process drove it, none has passed."""

    def __init__(self, journal: Journal, run: RunState) -> None:
        self._journal = journal
        self._run = run
        self._unattended_ms = max(0, journal.world.now_ms() - journal.state.last_time_ms)
        if run.still_since_ms is not None:
            self._unattended_ms = 0  # it stood still in any case

    async def watch(self, seconds: float, cancel: CancelToken) -> None:
        await self._until(seconds * WARN_AT)
        journal, run = self._journal, self._run
        if "seconds" not in run.warned and journal.state.run is run and not journal.failed:
            journal.record(limit_warning("seconds", seconds * WARN_AT, seconds))
            with suppress(StoreError):  # `Journal.fail` has published it
                await journal.commit()
        await self._until(seconds)
        cancel.cancel(f"the limit of {seconds:g} {TIME_IS_UP}", is_limit=True)

    async def _until(self, used: float) -> None:
        while (left := used - self._used()) > 0:  # noqa: ASYNC110  # it is time that is waited for
            await asyncio.sleep(left if self._run.still_since_ms is None else max(left, LOOK_AGAIN))

    def _used(self) -> float:
        run, now_ms = self._run, self._journal.world.now_ms()
        until_ms = now_ms if run.still_since_ms is None else run.still_since_ms
        return (until_ms - run.time_ms - run.still_ms - self._unattended_ms) / 1000
