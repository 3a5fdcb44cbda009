"""Limits of a run and its children: counted over the whole tree, reserved before each model call; and the
time limit, which ends the run wherever it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

import msgspec

from ostler.core.cancellation import CancelToken, background_task
from ostler.core.run_state import BudgetUse, RunState
from ostler.schema.errors import StoreError
from ostler.schema.events import Limits, RunEnded, Warned
from ostler.schema.usage import NOTHING_USED, Usage

if TYPE_CHECKING:
    from ostler.core.journal import Journal

WARN_AT = 0.8
"""The share of a limit at which there is one warning."""

TINY = 1e-9
"""The rounding error of sums of dollars."""

CHARACTERS_A_TOKEN = 4


class Budget:
    """The budget of an open run. A child's budget also asks its parent's, which counts the child.

    Use is computed from the facts; only reservations are stored here. So one process counts a whole tree, and
    after a crash the facts have its use. `time_limit` counts the time, because it must also stop a call that
    hangs.
    """

    def __init__(self, journal: Journal, limits: Limits, parent: Budget | None = None) -> None:
        self._journal = journal
        self._limits = limits
        self._parent = parent
        self._children: dict[str, Budget] = {}
        """Those that this process drives, by their session."""
        self._inactive: dict[str, BudgetUse] = {}
        """What the others had used at the last check: they wait, or were interrupted."""
        self._reserved: Usage | None = None
        self._side_calls: list[Usage] = []
        """Reservations for calls outside of steps."""
        self._final: BudgetUse | None = None
        if parent is not None:
            parent._children[journal.session] = self
            parent._inactive.pop(journal.session, None)
        self._numbers = {budget: budget.used().children for budget, depth in self._with_parents() if depth}
        """For each budget above, how many children it had when this one started, including this one."""
        own = (limits.steps, limits.tokens, limits.cost, limits.depth, limits.children)
        self._has_own_limits = any(limit is not None for limit in own)
        self.is_limited: bool = self._has_own_limits or (parent is not None and parent.is_limited)

    @property
    def _run(self) -> RunState | None:
        return self._journal.state.run

    def used(self) -> BudgetUse:
        """By the run and its children, ended or not."""
        if self._final is not None:
            return self._final
        total = self._run.used() if self._run is not None else BudgetUse()
        for used in (*(child.used() for child in self._children.values()), *self._inactive.values()):
            total.add(used)
            total.children += 1
        return total

    def close(self) -> None:
        """The run is about to end: its last count is used until the parent has it as a fact."""
        self._final = self.used()
        self._reserved = None
        self._side_calls.clear()

    def count(self, child: str, used: BudgetUse) -> None:
        """What a child that this process does not drive has used so far."""
        self._inactive[child] = used

    def forget(self, child: str) -> None:
        """A child's end is a fact now, so its use is no longer counted here."""
        self._children.pop(child, None)
        self._inactive.pop(child, None)

    async def reserve(self) -> str:
        """Reserves what the next model call will use. Returns the limit that forbids it, or nothing."""
        if not self.is_limited:  # most runs have no limits
            return ""
        await self.warn()
        next_call = self._estimate()
        for budget, depth in self._with_parents():
            is_new_child = depth and not (self._run and self._run.steps)  # only its first step is refused
            refusal = budget._refusal(depth, self._numbers[budget]) if is_new_child else ""
            if reason := refusal or budget._limit_reached(next_call):
                self._reserved = None
                return reason
        self._reserved = next_call
        return ""

    def release(self) -> None:
        """The call has its usage."""
        self._reserved = None

    async def reserve_side_call(self) -> Usage | str:
        """Reserves what a call outside of steps will use, for `release_side_call`; or the limit that forbids
        it."""
        await self.warn()
        call = self._estimate()
        for budget, _ in self._with_parents():
            if reason := budget._limit_reached(call, steps=0):
                return reason
        self._side_calls.append(call)
        return call

    def release_side_call(self, call: Usage) -> None:
        """That call has its usage, unless the run ended before."""
        if call in self._side_calls:
            self._side_calls.remove(call)

    @property
    def is_reserved(self) -> bool:
        return self._reserved is not None or not self.is_limited

    def admit_child(self, child: str) -> str:
        """Counts a child without a budget, which another vendor's agent is. Returns the limit that forbids
        it, or nothing."""
        self.count(child, BudgetUse())
        for budget, depth in self._with_parents():
            if reason := budget._refusal(depth + 1, budget.used().children):
                return reason
        return ""

    def _refusal(self, depth: int, number: int) -> str:
        """Why a child of that depth below this run, and of that number among its children, may not start."""
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
                f"a limit of ${limits.cost:g} cannot be enforced, because the model's prices are unknown: "
                "set them in the configuration, or remove the limit"
            )
        cost = used.cost + (reserved.cost or 0.0)
        if limits.cost is not None and (cost + (next_call.cost or 0.0) > limits.cost or cost >= limits.cost):
            return f"the limit of ${limits.cost:g} was reached: ${used.cost:.4g} is used"
        return ""

    def _reservations(self) -> Usage:
        total = sum(self._side_calls, self._reserved or NOTHING_USED)
        for child in self._children.values():
            total = total + child._reservations()
        return total

    def _estimate(self) -> Usage:
        """The next call is assumed to be like the last one, and a child's first like its parent's last. If
        there was none yet, the transcript is counted."""
        for budget, _ in self._with_parents():
            last = budget._run.last_usage if budget._run else None
            if last is not None and last.source == "reported":
                return msgspec.structs.replace(last, cost=last.cost or 0.0)
        if all(budget._limits.tokens is None for budget, _ in self._with_parents()):
            return NOTHING_USED  # tokens are not limited, and a long transcript takes long to count
        characters = sum(len(message.text) for message in self._journal.state.transcript)
        return Usage(input_tokens=characters // CHARACTERS_A_TOKEN, cost=0.0)

    async def warn(self) -> None:
        """Records a warning, once for each limit of the run and of its parents that is almost used up."""
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
    text = f"{used:.4g} of {limit:g} {_UNITS.get(name, name)} are used"
    return Warned(text, about="limit", details={"limit": name, "used": used, "of": limit})


def limits_of(at_start: Limits, now: Limits) -> Limits:
    """The limits of a run that is resumed: those from its start, unless the harness sets others now."""
    changes = {name: limit for name in now.__struct_fields__ if (limit := getattr(now, name)) is not None}
    return msgspec.structs.replace(at_start, **changes)


LOOK_AGAIN = 0.25
"""Seconds until it notices that the user has answered."""

TIME_IS_UP = "seconds was reached"


def is_time_limit(ended: RunEnded) -> bool:
    return ended.status == "limit" and ended.reason.endswith(TIME_IS_UP)


def time_limit(
    journal: Journal, seconds: float | None, cancel: CancelToken
) -> AbstractAsyncContextManager[None]:
    """Fires the token when the open run has used its time. Waiting for a user does not count."""
    if (run := journal.state.run) is None or seconds is None:
        return nullcontext()
    return background_task(_RunTimer(journal, run).run(seconds, cancel))


class _RunTimer:
    """Counts the time of a run, without the time in which no process drove it."""

    def __init__(self, journal: Journal, run: RunState) -> None:
        self._journal = journal
        self._run = run
        is_waiting = run.still_since_ms is not None
        self._undriven_ms = 0 if is_waiting else max(0, journal.world.now_ms() - journal.state.last_time_ms)

    async def run(self, seconds: float, cancel: CancelToken) -> None:
        await self._until(seconds * WARN_AT)
        journal, run = self._journal, self._run
        if "seconds" not in run.warned and journal.state.run is run and not journal.failed:
            journal.record(limit_warning("seconds", seconds * WARN_AT, seconds))
            with suppress(StoreError):  # `Journal.fail` has published it
                await journal.commit()
        await self._until(seconds)
        cancel.cancel(f"the limit of {seconds:g} {TIME_IS_UP}", is_limit=True)

    async def _until(self, used: float) -> None:
        while (left := used - self._used()) > 0:  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(left if self._run.still_since_ms is None else max(left, LOOK_AGAIN))

    def _used(self) -> float:
        run, now_ms = self._run, self._journal.world.now_ms()
        until_ms = now_ms if run.still_since_ms is None else run.still_since_ms
        return (until_ms - run.time_ms - run.idle_ms - self._undriven_ms) / 1000
