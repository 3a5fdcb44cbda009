"""Commands that report: usage, context, tools, agents, skills, extensions, settings and permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from ostler.app import remembered_rules, reports
from ostler.app.console import aligned
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
    group = _Reports(context)
    return [
        Command("cost", "show token usage and cost", group.cost, ("usage", "u"), "[by]", _groups),
        Command("context", "show the context of the last step", group.context),
        Command("compact", "summarise older messages", group.compact, ("co",), "[instructions]"),
        Command("tools", "list the tools of the model", group.tools, ("t",)),
        Command("agents", "list subagents", group.agents),
        Command("skills", "list skills", group.skills),
        Command("extensions", "list loaded extensions", group.extensions),
        Command("reload", "reload extensions", group.reload, ("reload-ext", "re")),
        Command("settings", "show settings and their files", group.settings),
        Command("doctor", "check models, keys and tools, with advice", group.doctor),
    ]


async def _groups(typed: str) -> list[str]:
    return list(get_args(By))


class _Reports:
    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def cost(self, arguments: str) -> None:
        """The cost of this session by model; of all sessions, if grouped by something."""
        by = next((one for one in get_args(By) if one == arguments), None)
        if arguments and by is None:
            raise UsageError(f"use /cost, or for all sessions /cost {'|'.join(get_args(By))}")
        conversation = self._context.conversation
        session = "" if by else conversation.session.id
        groups, names = await cost_records(conversation.store, (by or "model",), session=session)
        if not groups:
            self._context.say("no model has been called yet")
            return
        lines = reports.lines_of(groups, (by or "model",), names, self._context.app.size.columns)
        print_lines(self._context, list(lines), has_heading=True)

    async def context(self, arguments: str) -> None:
        facts = await self._context.conversation.session.journal.history()
        steps = context_steps(facts)
        if not steps:
            self._context.say("no model has been called in this session yet")
            return
        print_lines(self._context, list(reports.step_lines(with_compactions(steps[-1], facts), len(steps))))

    async def compact(self, arguments: str) -> None:
        conversation = self._context.conversation
        if conversation.session.state.run is not None:
            self._context.say("older messages will be summarised before the next step")
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
        agents = find_agents(cwd)
        self._list(reports.AGENT_HEADINGS, reports.agent_rows(agents, cwd), reports.agent_notices(agents))

    async def skills(self, arguments: str) -> None:
        cwd = self._context.conversation.harness.cwd
        skills = skills_in(cwd)
        self._list(reports.SKILL_HEADINGS, reports.skill_rows(skills, cwd), reports.skill_notices(skills))

    def _list(self, headings: Sequence[str], rows: Sequence[Sequence[str]], notices: Sequence[str]) -> None:
        if rows:
            print_lines(self._context, list(aligned([headings, *rows])), has_heading=True)
        for notice in notices:
            self._context.say(notice)

    async def extensions(self, arguments: str) -> None:
        host = self._context.conversation.host
        if host is None or not host.extensions:
            self._context.say("no extension is loaded; `ostler ext list` shows all extensions")
            return
        rows = [("NAME", "FROM", "STATE", "COMMANDS", "PROBLEM")]
        for one in host.extensions.values():
            commands = " ".join(f"/{name}" for name in one.registered.commands)
            rows.append((one.name, one.origin, one.status, commands, one.problem))
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
        files = " and ".join(str(one) for one in (configuration_file(), project) if one)
        values = msgspec.to_builtins(loaded.settings)
        rows = [(name, _masked(name, value)) for name, value in sorted(values.items())]
        lines = list(aligned(rows)) if rows else ["nothing is set: all defaults apply"]
        print_lines(self._context, [f"from {files}", *lines], has_heading=True)
        for notice in loaded.notices:
            self._context.say(notice, "warning")

    async def doctor(self, arguments: str) -> None:
        harness = self._context.conversation.harness
        diagnosis = await asyncio.to_thread(lambda: asyncio.run(doctor.run_doctor(harness.cwd)))
        heading = f"this session uses {harness.model.name}; other models:"
        print_lines(self._context, [heading, "", *doctor.report_lines(diagnosis)], has_heading=True)


def _first_sentence(text: str) -> str:
    line = text.partition("\n")[0]
    sentence, point, _ = line.partition(". ")
    return sentence + point.rstrip()


def _masked(name: str, value: Any) -> str:
    """Hides secrets."""
    if name in _SECRETS:
        return "(set)"
    if isinstance(value, dict):
        set_values = [(key, one) for key, one in value.items() if one not in (None, "", {})]
        return "; ".join(f"{key}: {_masked(key, one)}" for key, one in set_values)
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


def permission_commands(context: CommandContext) -> list[Command]:
    group = _Permissions(context)
    about, arguments = "show or set what runs without asking", "[profile|revoke number]"
    return [
        Command("permissions", about, group.permissions, (), arguments, _words),
        Command("yolo", "run everything without asking, or undo that", group.everything),
    ]


async def _words(typed: str) -> list[str]:
    return [*PROFILES, "revoke"]


class _Permissions:
    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._before: Profile | None = None
        """The profile before /yolo."""

    async def permissions(self, arguments: str) -> None:
        harness = self._context.conversation.harness
        profile = next((one for one in PROFILES if one == arguments), None)
        if profile is not None:
            await self._use(profile)
            return
        rules = await asyncio.to_thread(lambda: list(remembered_rules.stored_rules(harness.cwd, "")))
        verb, _, number = arguments.partition(" ")
        if verb == "revoke":
            matches = [one for one in rules if number.strip() in (str(one.number), one.rule)]
            if len(matches) != 1:
                raise UsageError("name a rule by its number: /permissions revoke NUMBER")
            await asyncio.to_thread(remembered_rules.revoke_rule, matches[0])
            self._context.say(f"revoked {matches[0].effect} {matches[0].rule}")
            return
        profiles = "|".join(PROFILES)
        if arguments:
            raise UsageError(f"use /permissions, /permissions {profiles}, or /permissions revoke NUMBER")
        heading = f"the profile is {harness.permission_profile}; /permissions {profiles} changes it"
        lines = remembered_rules.lines_of(rules) or ["there are no rules: only the profile applies"]
        print_lines(self._context, [heading, *lines], has_heading=True)

    async def everything(self, arguments: str) -> None:
        if self._context.conversation.harness.permission_profile != "full":
            await self._use("full")
        elif self._before is not None:
            await self._use(self._before)
        else:
            profiles = "|".join(PROFILES[:-1])
            raise UsageError(f"the terminal started like this; choose a profile: /permissions {profiles}")

    async def _use(self, profile: Profile) -> None:
        """Sets the profile between two runs: a run records its profile when it starts."""
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
        self._context.say(f"the profile of this terminal is now {profile}")
