"""Requests about a session's names and its tree: the journal is all that is needed to take them up."""

from __future__ import annotations

from ostler.kernel.cancel import CancelToken
from ostler.kernel.harness import Harness
from ostler.kernel.hooks import PlannedFork
from ostler.kernel.journal import Journal, oversight
from ostler.kernel.state import path_of
from ostler.vocabulary import events
from ostler.vocabulary.errors import NotFound
from ostler.vocabulary.messages import text_of
from ostler.vocabulary.requests import Fork, Label, Navigate, Rename, UndoCompaction

TreeRequest = Rename | Label | Navigate


async def take_up(journal: Journal, request: TreeRequest) -> None:
    """Turns the request into a fact, or into a refusal, and commits it."""
    if reason := await _reason_against_branch(journal, request):
        journal.record(events.RequestRefused(request.id, reason), settles=request.id)
    else:
        journal.record(_fact_of(request), settles=request.id)
    await journal.commit()
    if journal.is_moved:
        await journal.reload()


async def _reason_against_branch(journal: Journal, request: TreeRequest) -> str:
    if isinstance(request, Rename):
        return ""
    if isinstance(request, Navigate) and journal.state.run is not None:
        return "the leaf cannot be moved while a run is open"
    if isinstance(request, Navigate) and request.entry == 0:
        return ""
    return "" if await is_entry(journal, request.entry) else f"there is no entry {request.entry}"


async def is_entry(journal: Journal, number: int) -> bool:
    if not 1 <= number <= journal.state.last_seq:
        return False
    facts = await journal.store.read(journal.session, number - 1, 1)
    return bool(facts) and facts[0].parent is not None


def _fact_of(request: TreeRequest) -> events.Event:
    match request:
        case Rename(title=title):
            return events.SessionRenamed(title, request.id)
        case Label(entry=entry, label=label):
            return events.Labelled(entry, label, request.id)
        case Navigate(entry=entry):
            return events.LeafMoved(entry, request.id)


async def undo_compaction(journal: Journal, request: UndoCompaction) -> None:
    """The model is told again what that compaction had replaced, from the next call on."""
    facts = await journal.store.read_opening(journal.session)
    path = path_of(facts)
    undone = {fact.event.compaction for fact in facts if isinstance(fact.event, events.CompactionUndone)}
    made = {fact.seq for fact in facts if fact.type == "compacted" and fact.seq in path}
    if request.compaction in made - undone:
        journal.record(events.CompactionUndone(request.compaction, request.id), settles=request.id)
    else:
        reason = f"there is no compaction {request.compaction} that could be undone"
        journal.record(events.RequestRefused(request.id, reason), settles=request.id)
    await journal.commit()
    await journal.reload()


async def fork_here(journal: Journal, harness: Harness, request: Fork) -> None:
    """A new session with a copy of the path to that entry, unless a hook does not want it."""
    from ostler.log.fork import fork

    over = oversight(journal, CancelToken())
    planned = PlannedFork(journal.session, request.entry, await _prompt_behind(journal, request.entry))
    refusal = await harness.hooks.before_leaving(planned, over)
    if refusal is not None:
        reason = refusal.reason or "a hook does not want the session to be forked"
    else:
        await journal.commit()
        try:
            made = await fork(journal.store, journal.session, request.entry, journal.world, request.title)
        except NotFound as error:
            reason = error.message
        else:
            about = {"session": made, "entry": request.entry, "who": request.by}
            journal.record(events.Audited("session.fork", "somebody asked for it", about), settles=request.id)
            await journal.commit()
            return
    journal.record(events.RequestRefused(request.id, reason), settles=request.id)
    await journal.commit()


async def _prompt_behind(journal: Journal, entry: int) -> str:
    """What was said right behind an entry, where the session stands: a fork there takes it back."""
    facts = await journal.history()
    path = path_of(facts)
    behind = next((fact.event for fact in facts if fact.parent == entry and fact.seq in path), None)
    return text_of(behind.content) if isinstance(behind, events.UserMessage) else ""
