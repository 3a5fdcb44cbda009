"""Putting a harness together from settings: model, tools, permission, system prompt."""
# MERGED: From options to what an agent works with: settings, and the harness that they make.

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.app.console import ask_person, has_terminal, print_stderr
from ostler.app.default_model import resolve_model
from ostler.app.settings import Settings, load_settings
from ostler.context.instructions import (
    Instructions,
    has_folder,
    instructions_in,
    nested_instructions,
    skills_in,
    system_prompt,
)
from ostler.context.session_context import NO_RULES, SessionContext
from ostler.core.harness import Harness, JournalListener
from ostler.core.model import Model
from ostler.core.questions import Asker
from ostler.core.tool import Tool
from ostler.models.factory import ModelFactory
from ostler.permissions.guard import configured_rules, remember_answer, user_guard
from ostler.schema.errors import ConfigurationError, UsageError
from ostler.schema.events import Limits

if TYPE_CHECKING:
    from ostler.context.policy import Rules
    from ostler.context.skills import Skill
    from ostler.drivers.child_agent import OnStart


DELEGATE = "delegate"


SKILL = "skill"


AGENT = "agent"


Say = Callable[[str], None]
"""Tells a person what is wrong, and does not stop anything."""


def build_harness(
    settings: Settings,
    cwd: Path,
    *,
    asker: Asker | None = None,
    say: Say = lambda text: None,
    context: Rules = NO_RULES,
    model: Model | None = None,
    agent_tool: Tool | None = None,
) -> Harness:
    """Everything an agent works with, as the settings say, and `context` for its runs and their children.

    Without a `model` it is the one that the settings name, or whichever can answer. `agent_tool` starts
    other vendors' agents, for those who have any.
    """
    settings = resolve_model(settings) if model is None else settings
    make = ModelFactory(settings)
    kept = SessionContext(settings.context, limits_of=make.limits, run=context)
    harness = Harness(
        model=model or make(settings.model),
        fallbacks=settings.fallback,
        make_model=make,
        permission_hook=user_guard(
            settings.permissions, cwd, configured_rules(settings.allow, settings.ask, settings.deny)
        ),
        remember=remember_answer,
        permission_profile=settings.permissions,
        limits=limits_of(settings),
        reasoning=settings.reasoning,
        max_output_tokens=settings.max_output_tokens,
        silence_limit=settings.silence_limit,
        cwd=cwd,
        asker=asker,
        waits_for_answers=settings.on_question == "wait",
        listeners=[_auditing(settings.audit, say)] if settings.audit else [],
        context=kept,
    )
    harness.tools = choose_tools(settings.tools, cwd, say, agent_tool)
    kept.equip(harness)
    set_system_prompt(harness, settings, cwd, date.today(), say)
    if settings.instructions:
        harness.hooks.add(nested_instructions(cwd, say))
    return harness


def set_system_prompt(
    harness: Harness, settings: Settings, cwd: Path, today: date, say: Say = lambda text: None
) -> None:
    """Makes the system prompt, and lets it be made anew from the files that it comes from."""
    skills = _skills_of(harness.tools)

    def make(instead: str) -> str:
        named = msgspec.structs.replace(settings, system=instead or settings.system)
        return system_prompt_for(named, cwd, today, skills, say)

    harness.make_system = make
    harness.system = make("")


def _skills_of(tools: Mapping[str, Tool]) -> Mapping[str, Skill]:
    if SKILL not in tools:
        return {}
    from ostler.context.skills import SkillTool

    tool = tools[SKILL]
    return tool.skills if isinstance(tool, SkillTool) else {}


def limits_of(settings: Settings) -> Limits:
    """What ends a run, counted over it and its children."""
    return Limits(
        steps=settings.max_steps,
        tokens=settings.max_tokens,
        cost=settings.max_cost,
        seconds=settings.max_seconds,
        depth=settings.max_depth,
        children=settings.max_children,
        retries=settings.max_retries,
    )


def _auditing(audit: str, say: Say) -> JournalListener:
    from ostler.history.audit import audit_to, configured_sinks

    sinks = configured_sinks(audit)

    return JournalListener(lambda journal: audit_to(journal, sinks, say))


def choose_tools(
    names: Iterable[str] | None,
    cwd: Path,
    say: Say = lambda text: None,
    agent_tool: Tool | None = None,
) -> dict[str, Tool]:
    """The tools that come with Ostler, or those of them that are named, by name."""
    from ostler.tools import BUILTIN_TOOLS, LazyTool

    there_are = (*BUILTIN_TOOLS, DELEGATE, SKILL, AGENT)
    names = there_are if names is None else tuple(names)
    unknown = [name for name in names if name not in there_are]
    if unknown:
        raise UsageError(f"there is no tool {unknown[0]!r}; the tools are: {', '.join(sorted(there_are))}")
    tools: dict[str, Tool] = {name: LazyTool(name) for name in names if name in BUILTIN_TOOLS}
    if DELEGATE in names:
        tools[DELEGATE] = _delegate(cwd, names, say)
    if SKILL in names and (skill := _skill(cwd, say)):
        tools[SKILL] = skill
    if AGENT in names and agent_tool is not None:
        tools[AGENT] = agent_tool
    return tools


def _delegate(cwd: Path, tools: tuple[str, ...], say: Say) -> Tool:
    from ostler.sessions.agents import DelegateTool

    if not has_folder(cwd, (".ostler/agents", ".agents/agents"), "agents"):
        return DelegateTool({})
    from ostler.sessions.agents import find_agents

    agents = find_agents(cwd, tools)
    for problem in agents.problems:
        say(problem)
    return DelegateTool(agents.found)


def _skill(cwd: Path, say: Say) -> Tool | None:
    """No tool where there is no skill that the model may choose."""
    if not has_folder(cwd, (".ostler/skills", ".agents/skills"), "skills"):
        return None
    skills = skills_in(cwd)
    for notice in skills.notices:
        say(notice)
    if not skills.for_model:
        return None
    from ostler.context.skills import SkillTool

    return SkillTool(skills.for_model)


LIMITS = ("max_steps", "max_tokens", "max_cost", "max_seconds", "max_children", "max_depth")


def settings_for(
    options: argparse.Namespace, cwd: Path, by_default: Mapping[str, Any] | None = None
) -> Settings:
    """The settings for work in that directory, with what the options say; says what a person should know."""
    loaded = load_settings(cwd, _overrides(options), by_default=by_default)
    for notice in loaded.notices:
        print_stderr(notice)
    if options.no_tools and options.tools is not None:
        raise UsageError("--no-tools and --tools exclude each other")
    if options.yes and options.permissions not in (None, "full"):
        raise UsageError(f"--yes and --permissions {options.permissions} exclude each other")
    return loaded.settings


def _overrides(options: argparse.Namespace) -> dict[str, Any]:
    tools = None
    if options.tools is not None:
        tools = [name.strip() for name in options.tools.split(",") if name.strip()]
    return {
        "model": options.model,
        "base_url": options.base_url,
        "api_key": options.api_key,
        "reasoning": options.reasoning,
        "system": options.system,
        "append_system": options.append_system,
        "instructions": options.instructions,
        "context": rules_of(options) or None,
        "tools": [] if options.no_tools else tools,
        "permissions": "full" if options.yes else options.permissions,
        "on_question": options.on_question,
        **{name: getattr(options, name) for name in LIMITS},
    }


def rules_of(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What `--context` says of what the model is told."""
    if not options.context:
        return {}
    from ostler.context.policy import check_rules, combined

    try:
        rules = combined(*options.context)
        check_rules(rules)
    except ConfigurationError as error:
        raise UsageError(f"--context: {error.message}") from None
    return rules


def prepare_harness(
    settings: Settings,
    cwd: Path,
    kept_model: str,
    options: argparse.Namespace,
    *,
    says_demo: bool = True,
) -> tuple[Settings, Harness]:
    """With a model, in any case: the one that is named, the session's, or what else can answer."""
    if not settings.model and kept_model:
        settings = msgspec.structs.replace(settings, model=kept_model)
    ask = ask_person if has_terminal() else None
    settings = resolve_model(settings, ask=ask, say=print_stderr, says_demo=says_demo)
    rules, agents = rules_of(options), terminal_agents(settings)
    return settings, build_harness(settings, cwd, say=print_stderr, context=rules, agent_tool=agents)


def terminal_agents(settings: Settings, on_start: OnStart | None = None) -> Tool | None:
    """The tool that starts other vendors' agents: where some are configured, or it is asked for by name.

    Not wherever one is installed: the model would be told of it in each step of every run.
    """
    is_named = AGENT in (settings.tools or ())
    if not settings.terminal_agents and not is_named:
        return None
    from ostler.drivers.agent_spec import PROGRAMS, agent_commands
    from ostler.drivers.agent_tool import AgentTool

    agents = agent_commands(settings.terminal_agents, with_installed=is_named)
    if not agents:
        raise UsageError(
            f"there is nobody for the tool {AGENT!r} to ask: install one of {', '.join(PROGRAMS)}, "
            "or configure [terminal_agents.NAME]"
        )
    return AgentTool(agents, on_start=on_start)


def system_prompt_for(
    settings: Settings,
    cwd: Path,
    today: date,
    skills: Mapping[str, Skill],
    say: Callable[[str], None] = lambda text: None,
) -> str:
    """The system prompt, as the settings say, with the instruction files as they are now, and with skills."""
    instructions = instructions_in(cwd) if settings.instructions else Instructions()
    for problem in instructions.problems:
        say(problem)
    listed = _listed(skills, say) if skills else ""
    found = filter(None, (instructions.text, listed))
    return system_prompt(cwd, today, instead=settings.system, appended=(*found, *settings.append_system))


def _listed(skills: Mapping[str, Skill], say: Callable[[str], None]) -> str:
    from ostler.context.skills import catalogue

    listed, left_out = catalogue(skills)
    if left_out:
        say(f"there are too many skills; the model is not told of these: {', '.join(left_out)}")
    return listed
