"""The permission profiles of sessions: remote callers choose them, up to the server's ceiling."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ostler.app.settings import Settings
from ostler.core.harness import Harness, harness_without_model
from ostler.core.journal import Journal
from ostler.core.state import SessionState
from ostler.permissions.guard import configured_rules, user_guard
from ostler.permissions.rules import PROFILES, Profile
from ostler.schema.errors import SessionBusy
from ostler.schema.events import SettingsChanged
from ostler.server.problems import Conflict, Forbidden
from ostler.server.scopes import SCOPES, require_scope
from ostler.server.tokens import Principal
from ostler.sessions.lease import hold_lease
from ostler.sessions.run_tree import load_state
from ostler.sessions.session import open_session
from ostler.sessions.supervisor import Supervisor

FRESH = 30.0
"""Seconds for which the profile of a folder's settings is cached."""

AT_LEAST: Profile = "edit"
"""The lowest ceiling that applies by default."""

rank = PROFILES.index


def ceiling_of(chosen: Profile | None, started_with: Profile) -> Profile:
    """The ceiling of `--max-permissions`; by default the profile of the server, at least `edit`."""
    if chosen is not None:
        return chosen
    return max(started_with, AT_LEAST, key=rank)


class SessionProfiles:
    """Sets the profiles of the sessions that are open here.

    A profile above that of the settings holds while this process runs: a log that somebody exported, changed
    and imported cannot grant itself any. A lower one is taken from the log.
    """

    def __init__(
        self, supervisor: Supervisor, settings: Callable[[Path], Settings], ceiling: Profile
    ) -> None:
        self.ceiling = ceiling
        self._supervisor = supervisor
        self._settings = settings
        self._chosen: dict[str, Profile] = {}
        self._usual: dict[Path, tuple[float, Profile]] = {}

    def usual(self, cwd: Path) -> Profile:
        """The profile of a folder's settings, below the ceiling."""
        now = time.monotonic()
        if (cached := self._usual.get(cwd)) is None or now - cached[0] > FRESH:
            cached = self._usual[cwd] = (now, min(self._settings(cwd).permissions, self.ceiling, key=rank))
        return cached[1]

    def of_session(self, state: SessionState) -> Profile:
        """The profile of a session that is not open."""
        return self._chosen.get(state.id) or _lower(self.usual(Path(state.cwd)), state.settings.permissions)

    def highest(self, principal: Principal, cwd: Path) -> Profile:
        """The highest profile that the principal may choose."""
        allowed = SCOPES[principal.scope]
        if "admin" in allowed:
            return PROFILES[-1]
        return self.ceiling if "all" in allowed else self.usual(cwd)

    def require(self, principal: Principal, profile: Profile, cwd: Path) -> None:
        """Raises `Forbidden` if the principal may not choose the profile."""
        if rank(profile) > rank(self.ceiling):
            self.require_everything(principal, f"the profile {profile}")
        elif rank(profile) > rank(self.usual(cwd)):
            require_scope(principal, "all")

    def require_everything(self, principal: Principal, what: str) -> None:
        """For what may do anything, such as another program. Raises `Forbidden`."""
        if self.ceiling != PROFILES[-1] and "admin" not in SCOPES[principal.scope]:
            raise Forbidden(
                f"{what} is above this server's --max-permissions {self.ceiling}: use a token with the scope "
                "`admin` (`ostler token new NAME --scope admin`)"
            )

    async def choose(self, session: str, profile: Profile, principal: Principal) -> None:
        """Sets the profile between two runs. Raises `Forbidden`, `SessionBusy` and `SessionHeld`."""
        state = await load_state(self._supervisor.store, session)
        if state.driver != "agent":
            raise Conflict("another vendor's agent has its own permissions: change them there")
        if state.child_of:
            raise Conflict(f"a child has the permissions of its parent, {state.child_of}")
        self.require(principal, profile, Path(state.cwd))
        opened = self._supervisor.get(session)
        if (opened.state if opened else state).run is not None:
            raise SessionBusy("the permission profile can be changed between two runs, not during one")
        if opened is None:
            bare = await open_session(self._supervisor.store, session, harness_without_model(state.cwd))
            try:
                await _record(bare.journal, profile)
            finally:
                await bare.close()
        else:
            await hold_lease(opened.journal)
            await _record(opened.journal, profile)
            self._set(opened.harness, profile)
        self._chosen[session] = profile

    def apply(self, harness: Harness, journal: Journal) -> None:
        """Sets the profile of a session that is being opened."""
        if journal.state.child_of:
            return
        usual = next(one for one in PROFILES if one == harness.permission_profile)
        profile = self._chosen.get(journal.session) or _lower(usual, journal.state.settings.permissions)
        if profile != usual:
            self._set(harness, profile)

    def _set(self, harness: Harness, profile: Profile) -> None:
        settings = self._settings(harness.cwd)
        rules = configured_rules(settings.allow, settings.ask, settings.deny)
        harness.permission_hook = user_guard(profile, harness.cwd, rules)
        harness.permission_profile = profile


async def _record(journal: Journal, profile: Profile) -> None:
    journal.record(SettingsChanged(permissions=profile, by="api"))
    await journal.commit()


def _lower(usual: Profile, logged: str) -> Profile:
    return next((one for one in PROFILES[: rank(usual)] if one == logged), usual)
