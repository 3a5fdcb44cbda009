"""Commands that report: usage, context, tools, agents, skills, extensions, settings and permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from ostler.app import remembered_rules
from ostler.app.console import aligned
from ostler.app.reports import (
    AGENT_HEADINGS,
    SKILL_HEADINGS,
    agent_notices,
    agent_rows,
    lines_of,
    skill_notices,
    skill_rows,
    step_lines,
)
from ostler.app.settings import find_project_file, load_settings
from ostler.context.instructions import skills_in
from ostler.core.lazy import lazy_module
from ostler.history.context_trace import context_steps, with_compactions
from ostler.history.costs import By, cost_records
from ostler.permissions.guard import configured_rules, user_guard
from ostler.permissions.rules import PROFILES, Profile
from ostler.schema.errors import SessionBusy, UsageError
from ostler.schema.events import SettingsChanged
from ostler.schema.requests import Compact
from ostler.sessions.agents import find_agents
from ostler.sessions.lease import hold_lease
from ostler.store.paths import configuration_file
from ostler.tui.command_context import BUSY
from ostler.tui.commands.registry import Command, print_lines

if TYPE_CHECKING:
    from ostler.app import doctor
    from ostler.tui.command_context import CommandContext
else:
    doctor = lazy_module("ostler.app.doctor")


_SECRETS = ("api_key", "key_command")


def report_commands(context: CommandContext) -> list[Command]:
    group = _Looking(context)
    return [
        Command("cost", "what models used here", group.cost, ("usage", "u"), "[by]", complete=_groups),
        Command("context", "what the model was told in the last step", group.context),
        Command("compact", "tell older messages in a summary", group.compact, ("co",), "[wish]"),
        Command("tools", "what the model can use", group.tools, ("t",)),
        Command("agents", "agents that work can be given to", group.agents),
        Command("skills", "skills that can be used", group.skills),
        Command("extensions", "extensions that are loaded", group.extensions),
        Command("reload", "load the extensions anew", group.reload, ("reload-ext", "re")),
        Command("settings", "what is set, and where", group.settings),
        Command("doctor", "what could answer, what was found, and what to do", group.doctor),
    ]


async def _groups(typed: str) -> list[str]:
    return list(get_args(By))


class _Looking:
    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def cost(self, arguments: str) -> None:
        """Of this session by model; of all sessions, if it is said by what."""
        by = next((one for one in get_args(By) if one == arguments), None)
        if arguments and by is None:
            raise UsageError(f"say /cost, or for all sessions /cost {'|'.join(get_args(By))}")
        conversation = self._context.conversation
        session = "" if by else conversation.session.id
        groups, known = await cost_records(conversation.store, (by or "model",), session=session)
        if not groups:
            self._context.say("no model was called yet")
            return
        width = self._context.app.size.columns
        print_lines(self._context, list(lines_of(groups, (by or "model",), known, width)), has_heading=True)

    async def context(self, arguments: str) -> None:
        facts = await self._context.conversation.session.journal.history()
        steps = context_steps(facts)
        if not steps:
            self._context.say("no model was asked in this session yet")
            return
        print_lines(self._context, list(step_lines(with_compactions(steps[-1], facts), len(steps))))

    async def compact(self, arguments: str) -> None:
        conversation = self._context.conversation
        if conversation.session.state.run is not None:
            self._context.say("older messages are summarised before the next step")
        await conversation.ask(lambda id: Compact(id=id, by="tui", instructions=arguments))

    async def tools(self, arguments: str) -> None:
        tools = self._context.conversation.harness.tools
        rows = [(name, _first_sentence(tools[name].spec.description)) for name in sorted(tools)]
        if rows:
            print_lines(self._context, list(aligned(rows)))
        else:
            self._context.say("the model has no tools")

    async def agents(self, arguments: str) -> None:
        cwd = self._context.conversation.harness.cwd
        found = find_agents(cwd)
        self._list(AGENT_HEADINGS, agent_rows(found, cwd), agent_notices(found))

    async def skills(self, arguments: str) -> None:
        cwd = self._context.conversation.harness.cwd
        found = skills_in(cwd)
        self._list(SKILL_HEADINGS, skill_rows(found, cwd), skill_notices(found))

    def _list(self, headings: Sequence[str], rows: Sequence[Sequence[str]], notices: Sequence[str]) -> None:
        if rows:
            print_lines(self._context, list(aligned([headings, *rows])), has_heading=True)
        for notice in notices:
            self._context.say(notice)

    async def extensions(self, arguments: str) -> None:
        host = self._context.conversation.host
        if host is None or not host.extensions:
            self._context.say("no extension is loaded; `ostler ext list` shows all that there are")
            return
        rows = [("NAME", "FROM", "STATE", "COMMANDS", "PROBLEM")]
        for one in host.extensions.values():
            commands = " ".join(f"/{name}" for name in one.registered.commands)
            rows.append((one.name, one.origin, one.standing, commands, one.problem))
        print_lines(self._context, list(aligned(rows)), has_heading=True)

    async def reload(self, arguments: str) -> None:
        host = self._context.conversation.host
        if host is None:
            self._context.say("no extension is loaded")
            return
        await host.reload()
        self._context.say(f"loaded: {', '.join(one.name for one in host.loaded) or 'none'}")

    async def settings(self, arguments: str) -> None:
        cwd = self._context.conversation.harness.cwd
        loaded = load_settings(cwd, {})
        project = find_project_file(cwd)
        places = [str(configuration_file()), *([str(project)] if project else [])]
        values = msgspec.to_builtins(loaded.settings)
        rows = [(name, _shown(name, value)) for name, value in sorted(values.items())]
        lines = list(aligned(rows)) if rows else ["nothing is set: everything is as it comes"]
        print_lines(self._context, [f"from {' and '.join(places)}", *lines], has_heading=True)
        for notice in loaded.notices:
            self._context.say(notice, "warning")

    async def doctor(self, arguments: str) -> None:
        harness = self._context.conversation.harness
        diagnosis = await asyncio.to_thread(lambda: asyncio.run(doctor.run_doctor(harness.cwd)))
        heading = f"{harness.model.name} answers in this session; for others:"
        print_lines(self._context, [heading, "", *doctor.report_lines(diagnosis)], has_heading=True)


def _first_sentence(text: str) -> str:
    line = text.partition("\n")[0]
    sentence, point, _ = line.partition(". ")
    return sentence + point.rstrip()


def _shown(name: str, value: Any) -> str:
    """Without what nobody should read over a shoulder."""
    if name in _SECRETS:
        return "(set)"
    if isinstance(value, dict):
        there = [(key, one) for key, one in value.items() if one not in (None, "", {})]
        return "; ".join(f"{key}: {_shown(key, one)}" for key, one in there)
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


def permission_commands(context: CommandContext) -> list[Command]:
    group = _Permissions(context)
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
    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._before: Profile | None = None
        """The profile that held before everything was let run."""

    async def permissions(self, arguments: str) -> None:
        harness = self._context.conversation.harness
        profile = next((one for one in PROFILES if one == arguments), None)
        if profile is not None:
            await self._use(profile)
            return
        known = await asyncio.to_thread(lambda: list(remembered_rules.stored_rules(harness.cwd, "")))
        verb, _, number = arguments.partition(" ")
        if verb == "revoke":
            chosen = [one for one in known if number.strip() in (str(one.number), one.rule)]
            if len(chosen) != 1:
                raise UsageError("say which rule, by its number: /permissions revoke NUMBER")
            await asyncio.to_thread(remembered_rules.revoke_rule, chosen[0])
            self._context.say(f"revoked {chosen[0].effect} {chosen[0].rule}")
            return
        if arguments:
            raise UsageError(
                f"say /permissions, /permissions {'|'.join(PROFILES)}, or /permissions revoke NUMBER"
            )
        heading = f"the profile is {harness.permission_profile}; /permissions {'|'.join(PROFILES)} changes it"
        rules = remembered_rules.lines_of(known) or ["there are no rules; the profile alone decides"]
        print_lines(self._context, [heading, *rules], has_heading=True)

    async def everything(self, arguments: str) -> None:
        if self._context.conversation.harness.permission_profile != "full":
            await self._use("full")
        elif self._before is not None:
            await self._use(self._before)
        else:
            raise UsageError(f"it began so; say which profile: /permissions {'|'.join(PROFILES[:-1])}")

    async def _use(self, profile: Profile) -> None:
        """In between two runs: a run says at its beginning under which profile it works."""
        conversation = self._context.conversation
        if await conversation.is_busy():
            raise SessionBusy(BUSY)
        harness, journal = conversation.harness, conversation.session.journal
        settings = load_settings(harness.cwd, {}).settings
        rules = configured_rules(settings.allow, settings.ask, settings.deny)
        await hold_lease(journal)
        self._before = next((one for one in PROFILES if one == harness.permission_profile), None)
        harness.permission_hook = user_guard(profile, harness.cwd, rules)
        harness.permission_profile = profile
        journal.record(SettingsChanged(permissions=profile, by="tui"))
        await journal.commit()
        self._context.say(f"the profile is {profile} from now on, in this terminal")
