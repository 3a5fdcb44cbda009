"""`ostler sessions check|repair|prune|delete`: keeping the store sound and small."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Sequence

from ostler.faces.cli.columns import one_line
from ostler.faces.cli.saying import counted, print_json, say
from ostler.kernel.journal import World
from ostler.kernel.store import SessionSummary, Store
from ostler.log.sqlite_space import Unnamed, collect_output, shrink, unnamed_output
from ostler.runs.home import store_file
from ostler.runs.run_tree import root_of, state_of
from ostler.runs.session import delete_session
from ostler.runs.stores import find_session
from ostler.vocabulary.errors import SessionBusy, UsageError

_DAY_MS = 24 * 60 * 60 * 1000
_AGE = re.compile(r"([1-9]\d{0,4})([dw])")


async def check(options: argparse.Namespace, store: Store) -> int:
    from ostler.log.sqlite_check import MENDABLE
    from ostler.log.sqlite_check import check as problems_of

    ids = [await find_session(store, one) for one in options.ids]
    problems = await asyncio.to_thread(problems_of, store_file(), ids or None)
    for problem in problems:
        if options.json:
            print_json(problem)
        else:
            print(one_line(str(problem)))
    if not problems:
        number = len(ids) or len(await store.sessions())
        say(f"{counted(number, 'session')} checked, nothing is wrong")
    elif any(problem.number in MENDABLE for problem in problems):
        say(
            f"{counted(len(problems), 'problem')}; `ostler sessions repair` mends what follows from the facts"
        )
    else:
        say(f"{counted(len(problems), 'problem')}")
    return 1 if problems else 0


async def repair(options: argparse.Namespace, store: Store) -> int:
    from ostler.log.sqlite_repair import repair as repaired

    outcome = await asyncio.to_thread(repaired, store_file(), World())
    for problem in outcome.mended:
        print(f"mended: {one_line(str(problem))}")
    for problem in outcome.left:
        print(f"left as it is: {one_line(str(problem))}")
    if outcome.copy:
        say(f"the store as it was before is kept in {outcome.copy}; delete it when all is well")
    elif not outcome.left:
        say("nothing is wrong")
    return 1 if outcome.left else 0


async def prune(options: argparse.Namespace, store: Store) -> None:
    from ostler.runs.pruning import delete_unused, unused

    world, path = World(), store_file()
    families = []
    if options.older_than is not None or options.keep is not None:
        since = None if options.older_than is None else world.now_ms() - options.older_than
        found = unused(
            await store.sessions(),
            unused_since_ms=since,
            keep=options.keep or 0,
            with_waiting=options.waiting,
        )
        families = [family for family in found if not await _is_held(store, family)]
    if options.dry_run:
        for family in families:
            _print_family("would delete", family)
        left = await asyncio.to_thread(unnamed_output, path, world)
        say(f"{_output(left)} could be collected; nothing was changed")
        return
    if families and not options.yes and not _is_agreed([one for family in families for one in family]):
        say("nothing was deleted")
        return
    for family in families:
        if reason := await delete_unused(store, family, world):
            say(f"kept: {reason}")
        else:
            _print_family("deleted", family)
    collected = await asyncio.to_thread(collect_output, path, world)
    freed = await asyncio.to_thread(shrink, path, world)
    if freed is None:
        say(f"{_output(collected)} collected; the file keeps its size while others work with it")
    else:
        say(f"{_output(collected)} collected; the file is {_size(freed)} smaller")


def age(text: str) -> int:
    """`30d` or `8w`, in milliseconds."""
    match = _AGE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no age: say 30d for thirty days, or 8w for eight weeks"
        )
    return int(match[1]) * _DAY_MS * (7 if match[2] == "w" else 1)


async def _is_held(store: Store, family: Sequence[SessionSummary]) -> bool:
    return any([await store.holder(one.id) is not None for one in family])


def _print_family(verb: str, family: Sequence[SessionSummary]) -> None:
    for one in family:
        print(f"{verb} {one.id}  {one_line(one.title or one.preview)}".rstrip())


def _output(found: Sequence[Unnamed]) -> str:
    return f"{counted(len(found), 'output')} that nothing names ({_size(sum(one.size for one in found))})"


def _size(number: int) -> str:
    return f"{number / 1_000_000:.1f} MB" if number >= 100_000 else f"{number / 1000:.1f} kB"


async def delete(options: argparse.Namespace, store: Store) -> None:
    sessions = list(dict.fromkeys([await find_session(store, one) for one in options.ids]))
    for session in sessions:
        await require_no_parent_at_work(store, session)
    if not options.yes and not _is_agreed([await store.summary(one) for one in sessions]):
        say("nothing was deleted")
        return
    for session in sessions:
        await delete_session(store, session)
        print(f"deleted {session}")


async def require_no_parent_at_work(store: Store, session: str) -> None:
    if not (await store.summary(session)).child_of:
        return
    root = await root_of(store, await state_of(store, session))
    if root.id != session:
        raise SessionBusy(
            f"session {session} works for session {root.id}, whose run is open: "
            f"`ostler cancel {root.id}` ends both"
        )


def _is_agreed(sessions: list[SessionSummary]) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("deleting cannot be undone: say --yes when there is nobody to ask")
    for one in sessions:
        print(f"{one.id}  {one_line(one.title or one.preview)}", file=sys.stderr)
    print("delete for good? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
