"""What may run without asking: the profile, and the rules that are remembered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ostler.faces.tui.commands.command import Command
from ostler.faces.tui.commands.lines import print_lines
from ostler.faces.tui.switching import BUSY
from ostler.runs.lease import hold
from ostler.tools.permissions import PROFILES, Profile
from ostler.vocabulary.errors import SessionBusy, UsageError
from ostler.vocabulary.events import SettingsChanged

if TYPE_CHECKING:
    from ostler.faces.tui.desk import Desk


def permission_commands(desk: Desk) -> list[Command]:
    group = _Permissions(desk)
    return [
        Command(
            "permissions",
            "what may run without asking",
            group.permissions,
            (),
            "[profile|revoke number]",
            complete=_words,
        ),
        Command("yolo", "let everything run without asking, or as it was before", group.everything),
    ]


async def _words(typed: str) -> list[str]:
    return [*PROFILES, "revoke"]


class _Permissions:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._before: Profile | None = None
        """The profile that held before everything was let run."""

    async def permissions(self, arguments: str) -> None:
        from ostler.faces.cli.permissions import known_rules, lines_of, take_back

        harness = self._desk.conversation.harness
        profile = next((one for one in PROFILES if one == arguments), None)
        if profile is not None:
            await self._use(profile)
            return
        known = await asyncio.to_thread(lambda: list(known_rules(harness.cwd, "")))
        verb, _, number = arguments.partition(" ")
        if verb == "revoke":
            chosen = [one for one in known if number.strip() in (str(one.number), one.rule)]
            if len(chosen) != 1:
                raise UsageError("say which rule, by its number: /permissions revoke NUMBER")
            await asyncio.to_thread(take_back, chosen[0])
            self._desk.say(f"revoked {chosen[0].effect} {chosen[0].rule}")
            return
        if arguments:
            raise UsageError(
                f"say /permissions, /permissions {'|'.join(PROFILES)}, or /permissions revoke NUMBER"
            )
        heading = f"the profile is {harness.permissions}; /permissions {'|'.join(PROFILES)} changes it"
        rules = lines_of(known) or ["there are no rules; the profile alone decides"]
        print_lines(self._desk, [heading, *rules], has_heading=True)

    async def everything(self, arguments: str) -> None:
        if self._desk.conversation.harness.permissions != "full":
            await self._use("full")
        elif self._before is not None:
            await self._use(self._before)
        else:
            raise UsageError(f"it began so; say which profile: /permissions {'|'.join(PROFILES[:-1])}")

    async def _use(self, profile: Profile) -> None:
        """In between two runs: a run says at its beginning under which profile it works."""
        from ostler.runs.permissions import configured_rules, user_guard
        from ostler.runs.settings import load_settings

        conversation = self._desk.conversation
        if await conversation.is_busy():
            raise SessionBusy(BUSY)
        harness, journal = conversation.harness, conversation.session.journal
        rules = configured_rules(load_settings(harness.cwd, {}).settings)
        await hold(journal)
        self._before = next((one for one in PROFILES if one == harness.permissions), None)
        harness.permission = user_guard(profile, harness.cwd, rules)
        harness.permissions = profile
        journal.record(SettingsChanged(permissions=profile, by="tui"))
        await journal.commit()
        self._desk.say(f"the profile is {profile} from now on, in this terminal")
