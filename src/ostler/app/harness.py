"""Builds the harness of a session from settings and options: model, tools, permissions, context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.app.console import ask_person, has_terminal, print_stderr
from ostler.app.options import RunOptions
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
from ostler.core import secrets
from ostler.core.harness import Harness, JournalListener
from ostler.core.lazy import lazy_module
from ostler.core.model import Model
from ostler.core.questions import Asker
from ostler.core.tool import Tool
from ostler.models.factory import ModelFactory
from ostler.permissions.guard import configured_rules, remember_answer, user_guard
from ostler.schema.errors import ConfigurationError, UsageError
from ostler.schema.events import Limits
from ostler.sessions.agents import DelegateTool, find_agents
from ostler.tools import BUILTIN_TOOLS, LazyTool

if TYPE_CHECKING:
    from ostler.app import default_model
    from ostler.context import policy, skills
    from ostler.context.policy import Rules
    from ostler.drivers import agent_spec, agent_tool
    from ostler.drivers.child_agent import OnStart
    from ostler.history import audit
else:
    agent_spec = lazy_module("ostler.drivers.agent_spec")
    agent_tool = lazy_module("ostler.drivers.agent_tool")
    audit = lazy_module("ostler.history.audit")
    default_model = lazy_module("ostler.app.default_model")
    policy = lazy_module("ostler.context.policy")
    skills = lazy_module("ostler.context.skills")

DELEGATE = "delegate"
SKILL = "skill"
AGENT = "agent"
LIMITS = ("max_steps", "max_tokens", "max_cost", "max_seconds", "max_children", "max_depth")

_MODEL_NAMES = ("model", "base_url", "api_key", "reasoning", "system", "append_system", "instructions")
"""Options of the model that set the setting of the same name."""

Notify = Callable[[str], None]
"""Shows a person a problem that does not stop anything."""


def settings_for(options: RunOptions, cwd: Path, by_default: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a directory, overridden by the options. Prints the notices that loading them gave."""
    loaded = load_settings(cwd, _overrides(options), by_default=by_default)
    for notice in loaded.notices:
        print_stderr(notice)
    if options.no_tools and options.tools is not None:
        raise UsageError("--no-tools and --tools cannot be combined")
    if options.yes and options.permissions not in (None, "full"):
        raise UsageError(f"--yes and --permissions {options.permissions} cannot be combined")
    return loaded.settings


def _overrides(options: RunOptions) -> dict[str, Any]:
    tools = None
    if options.tools is not None:
        tools = [name.strip() for name in options.tools.split(",") if name.strip()]
    return {
        **{name: getattr(options, name) for name in (*_MODEL_NAMES, *LIMITS, "on_question")},
        "context": context_rules(options) or None,
        "tools": [] if options.no_tools else tools,
        "permissions": "full" if options.yes else options.permissions,
    }


def context_rules(options: RunOptions) -> dict[str, dict[str, Any]]:
    """The context rules of `--context`."""
    if not options.context:
        return {}
    try:
        rules = policy.combined(*options.context)
        policy.check_rules(rules)
    except ConfigurationError as error:
        raise UsageError(f"--context: {error.message}") from None
    return rules


def prepare_harness(
    settings: Settings, cwd: Path, stored_model: str, options: RunOptions, *, announces_demo: bool = True
) -> tuple[Settings, Harness]:
    """The harness, and the settings with the model that answers: the one that is named, the one stored with
    the session, or the default."""
    if not settings.model and stored_model:
        settings = msgspec.structs.replace(settings, model=stored_model)
    if not settings.model:
        ask = ask_person if has_terminal() else None
        resolve = default_model.resolve_model
        settings = resolve(settings, ask=ask, say=print_stderr, announces_demo=announces_demo)
    rules, agents = context_rules(options), terminal_agents(settings)
    return settings, build_harness(settings, cwd, say=print_stderr, context=rules, agent_tool=agents)


def build_harness(
    settings: Settings,
    cwd: Path,
    *,
    asker: Asker | None = None,
    say: Notify = lambda text: None,
    context: Rules = NO_RULES,
    model: Model | None = None,
    agent_tool: Tool | None = None,
) -> Harness:
    """The harness for these settings, which must name a model, unless `model` is given.

    `context` has rules for the session's runs and their children. `agent_tool` starts other vendors' agents.
    """
    make = ModelFactory(settings)
    secrets.pass_variables(settings.pass_env)
    secrets.wipe_own_block([settings.api_key])
    rules = configured_rules(settings.allow, settings.ask, settings.deny)
    session_context = SessionContext(settings.context, limits_of=make.limits, run=context)
    harness = Harness(
        model=model or make(settings.model),
        fallbacks=settings.fallback,
        make_model=make,
        permission_hook=user_guard(settings.permissions, cwd, rules),
        remember=remember_answer,
        permission_profile=settings.permissions,
        limits=limits_of(settings),
        reasoning=settings.reasoning,
        max_output_tokens=settings.max_output_tokens,
        silence_limit=settings.silence_limit,
        cwd=cwd,
        confine_harmless=settings.confine_harmless,
        process_limits=settings.tool_limits,
        asker=asker,
        wait_for_answers=settings.on_question == "wait",
        listeners=[_audit_listener(settings.audit, say)] if settings.audit else [],
        context=session_context,
    )
    harness.tools = choose_tools(settings.tools, cwd, say, agent_tool)
    session_context.equip(harness)
    set_system_prompt(harness, settings, cwd, date.today(), say)
    if settings.instructions:
        harness.hooks.add(nested_instructions(cwd, say))
    return harness


def limits_of(settings: Settings) -> Limits:
    """The limits of a run and its children together."""
    return Limits(
        steps=settings.max_steps,
        tokens=settings.max_tokens,
        cost=settings.max_cost,
        seconds=settings.max_seconds,
        depth=settings.max_depth,
        children=settings.max_children,
        retries=settings.max_retries,
    )


def _audit_listener(target: str, say: Notify) -> JournalListener:
    sinks = audit.configured_sinks(target)
    return JournalListener(lambda journal: audit.audit_to(journal, sinks, say))


def choose_tools(
    names: Iterable[str] | None, cwd: Path, say: Notify = lambda text: None, agent_tool: Tool | None = None
) -> dict[str, Tool]:
    """The built-in tools by name, or those of them that are named."""
    available = (*BUILTIN_TOOLS, DELEGATE, SKILL, AGENT)
    names = available if names is None else tuple(names)
    unknown = [name for name in names if name not in available]
    if unknown:
        raise UsageError(f"there is no tool {unknown[0]!r}; the tools are: {', '.join(sorted(available))}")
    tools: dict[str, Tool] = {name: LazyTool(name) for name in names if name in BUILTIN_TOOLS}
    if DELEGATE in names:
        tools[DELEGATE] = _delegate_tool(cwd, names, say)
    if SKILL in names and (skill := _skill_tool(cwd, say)):
        tools[SKILL] = skill
    if AGENT in names and agent_tool is not None:
        tools[AGENT] = agent_tool
    return tools


def _delegate_tool(cwd: Path, tools: tuple[str, ...], say: Notify) -> Tool:
    if not has_folder(cwd, (".ostler/agents", ".agents/agents"), "agents"):
        return DelegateTool({})
    agents = find_agents(cwd, tools)
    for problem in agents.problems:
        say(problem)
    return DelegateTool(agents.by_name)


def _skill_tool(cwd: Path, say: Notify) -> Tool | None:
    """None if there is no skill that the model may choose."""
    if not has_folder(cwd, (".ostler/skills", ".agents/skills"), "skills"):
        return None
    available = skills_in(cwd)
    for notice in available.notices:
        say(notice)
    return skills.SkillTool(available.for_model) if available.for_model else None


def terminal_agents(settings: Settings, on_start: OnStart | None = None) -> Tool | None:
    """The tool that starts other vendors' agents, if some are configured or the settings name the tool.

    An installed agent is not enough: every request of every run would then describe the tool to the model.
    """
    is_named = AGENT in (settings.tools or ())
    if not settings.terminal_agents and not is_named:
        return None
    agents = agent_spec.agent_commands(settings.terminal_agents, with_installed=is_named)
    if not agents:
        raise UsageError(
            f"the tool {AGENT!r} has no agent to start: install one of {', '.join(agent_spec.PROGRAMS)}, "
            "or configure [terminal_agents.NAME]"
        )
    return agent_tool.AgentTool(agents, on_start=on_start)


def set_system_prompt(
    harness: Harness, settings: Settings, cwd: Path, today: date, say: Notify = lambda text: None
) -> None:
    """Sets the system prompt, and how to rebuild it from the files that it is made of."""
    skill_tool = harness.tools.get(SKILL)
    available = skill_tool.skills if skill_tool and isinstance(skill_tool, skills.SkillTool) else {}

    def make(instead: str) -> str:
        effective = msgspec.structs.replace(settings, system=instead or settings.system)
        return system_prompt_for(effective, cwd, today, available, say)

    harness.make_system = make
    harness.system = make("")


def system_prompt_for(
    settings: Settings,
    cwd: Path,
    today: date,
    available: Mapping[str, skills.Skill],
    say: Notify = lambda text: None,
) -> str:
    """The system prompt of the settings, with the instruction files as they are now, and the skills."""
    instructions = instructions_in(cwd) if settings.instructions else Instructions()
    for problem in instructions.problems:
        say(problem)
    listing = ""
    if available:
        listing, left_out = skills.catalogue(available)
        if left_out:
            say(f"there are too many skills; the model does not see these: {', '.join(left_out)}")
    appended = filter(None, (instructions.text, listing))
    return system_prompt(cwd, today, instead=settings.system, appended=(*appended, *settings.append_system))
