"""Putting a harness together from settings: model, tools, permission, system prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ostler.kernel.harness import Asker, Harness
from ostler.kernel.journal import Journal
from ostler.kernel.model import Model
from ostler.kernel.tool import Tool
from ostler.runs.contexts import NO_RULES, KeptContext
from ostler.runs.first_run import settled
from ostler.runs.guidance import has_folder, skills_in, told_at_first
from ostler.runs.model_choice import model_maker
from ostler.runs.nested_instructions import nested_instructions
from ostler.runs.permissions import configured_rules, remember_answer, user_guard
from ostler.runs.settings import Settings
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.events import Limits

if TYPE_CHECKING:  # most projects have none
    from ostler.context.policy import Rules
    from ostler.context.skills import Skill

DELEGATE = "delegate"
SKILL = "skill"
AGENT = "agent"

Say = Callable[[str], None]
"""Tells a person what is wrong, and does not stop anything."""


def make_harness(
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
    settings = settled(settings) if model is None else settings
    make = model_maker(settings)
    kept = KeptContext(settings, run=context)
    harness = Harness(
        model=model or make(settings.model),
        fallbacks=settings.fallback,
        make_model=make,
        permission=user_guard(settings.permissions, cwd, configured_rules(settings)),
        remember=remember_answer,
        permissions=settings.permissions,
        limits=limits_of(settings),
        reasoning=settings.reasoning,
        max_output_tokens=settings.max_output_tokens,
        silence_limit=settings.silence_limit,
        cwd=cwd,
        asker=asker,
        waits_for_answers=settings.on_question == "wait",
        attend=_auditing(settings.audit, say) if settings.audit else None,
        context=kept,
    )
    harness.tools = choose_tools(settings.tools, cwd, say, agent_tool)
    kept.equip(harness)
    tell_at_first(harness, settings, cwd, date.today(), say)
    if settings.instructions:
        harness.hooks.add(nested_instructions(cwd, say))
    return harness


def tell_at_first(
    harness: Harness, settings: Settings, cwd: Path, today: date, say: Say = lambda text: None
) -> None:
    """Makes the system prompt, and lets it be made anew from the files that it comes from."""
    skills = _skills_of(harness.tools)

    def make(instead: str) -> str:
        named = msgspec.structs.replace(settings, system=instead or settings.system)
        return told_at_first(named, cwd, today, skills, say)

    harness.make_system = make
    harness.system = make("")


def _skills_of(tools: Mapping[str, Tool]) -> Mapping[str, Skill]:
    if SKILL not in tools:
        return {}
    from ostler.context.skill_tool import SkillTool

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


def _auditing(audit: str, say: Say) -> Callable[[Journal], None]:
    from ostler.runs.audit_sinks import audit_to, configured_sinks

    sinks = configured_sinks(audit)

    def attend(journal: Journal) -> None:
        audit_to(journal, sinks, say)

    return attend


def choose_tools(
    names: Iterable[str] | None,
    cwd: Path,
    say: Say = lambda text: None,
    agent_tool: Tool | None = None,
) -> dict[str, Tool]:
    """The tools that come with Ostler, or those of them that are named, by name."""
    from ostler.tools.builtin import BUILTIN_TOOLS, ToolToLoad

    there_are = (*BUILTIN_TOOLS, DELEGATE, SKILL, AGENT)
    names = there_are if names is None else tuple(names)
    unknown = [name for name in names if name not in there_are]
    if unknown:
        raise UsageError(f"there is no tool {unknown[0]!r}; the tools are: {', '.join(sorted(there_are))}")
    tools: dict[str, Tool] = {name: ToolToLoad(name) for name in names if name in BUILTIN_TOOLS}
    if DELEGATE in names:
        tools[DELEGATE] = _delegate(cwd, names, say)
    if SKILL in names and (skill := _skill(cwd, say)):
        tools[SKILL] = skill
    if AGENT in names and agent_tool is not None:
        tools[AGENT] = agent_tool
    return tools


def _delegate(cwd: Path, tools: tuple[str, ...], say: Say) -> Tool:
    from ostler.runs.delegate import DelegateTool

    if not has_folder(cwd, (".ostler/agents", ".agents/agents"), "agents"):
        return DelegateTool({})
    from ostler.runs.agents import find_agents

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
    from ostler.context.skill_tool import SkillTool

    return SkillTool(skills.for_model)
