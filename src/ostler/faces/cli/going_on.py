"""Driving on a run that somebody else began, here and as it was begun."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.driving import Work, collect_garbage_from_here, drive, keep_model, opened, require_free
from ostler.faces.cli.equipping import LIMITS, equipped, settings_from
from ostler.faces.cli.extending import extended
from ostler.faces.cli.saying import say
from ostler.kernel.run_state import RunState
from ostler.kernel.state import SessionState
from ostler.kernel.store import Store
from ostler.runs.settings import Settings
from ostler.runs.stores import open_store
from ostler.tools.permissions import PROFILES
from ostler.vocabulary.errors import UsageError


async def drive_on(options: argparse.Namespace, store: Store, state: SessionState, work: Work) -> int:
    """Opens the session with what its run needs, in its own directory, and does the work."""
    await require_free(store, state.id)
    cwd = _place(options, state)
    settings = settings_from(options, cwd)
    if state.run is not None:
        settings = _as_begun(settings, state.run, options)
    settings, harness = equipped(settings, cwd, state.settings.model, options)
    if settings.durability != "process":
        store = open_store(settings)
    await extended(options, settings, harness)
    session = await opened(store, state.id, harness)
    collect_garbage_from_here()
    keep_model(options, session)
    return await drive(session, work, as_lines=options.json)


def _place(options: argparse.Namespace, state: SessionState) -> Path:
    if options.cwd is not None:
        return working_directory(options.cwd)
    place = Path(state.cwd)
    if not place.is_dir():
        raise UsageError(f"session {state.id} worked in {place}, which is gone: say where with --cwd")
    if not place.samefile("."):
        say(f"working in {place}, where the session is")
    return working_directory(state.cwd)


def _as_begun(settings: Settings, run: RunState, options: argparse.Namespace) -> Settings:
    """The settings, with the limits of the run, and so that a person is asked and not refused.

    The permissions that it was begun with are not taken from the log: an imported one could bring its own.
    """
    changes: dict[str, Any] = {}
    for name in LIMITS:
        begun, now = getattr(run.started.limits, name.removeprefix("max_")), getattr(settings, name)
        if begun is not None and getattr(options, name) is None:
            changes[name] = begun if now is None else min(begun, now)
    begun_with = run.started.permissions
    is_unsaid = options.permissions is None and not options.yes
    if is_unsaid and begun_with in PROFILES[PROFILES.index(settings.permissions) + 1 :]:
        say(f"the run began with --permissions {begun_with}; until you say so again, it asks")
        changes["permissions"] = max(settings.permissions, "ask", key=PROFILES.index)
        changes["on_question"] = "wait"
    if run.waiting or run.still_ms:
        changes["on_question"] = "wait"
    if options.on_question is not None:
        changes.pop("on_question", None)
    return msgspec.structs.replace(settings, **changes)
