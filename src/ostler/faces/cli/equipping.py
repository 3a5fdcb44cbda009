"""From options to what an agent works with: settings, and the harness that they make."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ostler.faces.cli.person import ask_person, has_terminal
from ostler.faces.cli.saying import say
from ostler.kernel.harness import Harness
from ostler.kernel.tool import Tool
from ostler.runs.assembly import AGENT, make_harness
from ostler.runs.first_run import settled
from ostler.runs.settings import Settings, load_settings
from ostler.vocabulary.errors import ConfigurationError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:  # most have no such agents
    from ostler.terminals.delegated_agent import OnStart

LIMITS = ("max_steps", "max_tokens", "max_cost", "max_seconds", "max_children", "max_depth")


def settings_from(
    options: argparse.Namespace, cwd: Path, by_default: Mapping[str, Any] | None = None
) -> Settings:
    """The settings for work in that directory, with what the options say; says what a person should know."""
    loaded = load_settings(cwd, _overrides(options), by_default=by_default)
    for notice in loaded.notices:
        say(notice)
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


def equipped(
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
    settings = settled(settings, ask=ask, say=say, says_demo=says_demo)
    rules, agents = rules_of(options), terminal_agents(settings)
    return settings, make_harness(settings, cwd, say=say, context=rules, agent_tool=agents)


def terminal_agents(settings: Settings, on_start: OnStart | None = None) -> Tool | None:
    """The tool that starts other vendors' agents: where some are configured, or it is asked for by name.

    Not wherever one is installed: the model would be told of it in each step of every run.
    """
    is_named = AGENT in (settings.tools or ())
    if not settings.terminal_agents and not is_named:
        return None
    from ostler.terminals.agent_commands import PROGRAMS, agent_commands
    from ostler.terminals.agent_tool import AgentTool

    agents = agent_commands(settings.terminal_agents, with_installed=is_named)
    if not agents:
        raise UsageError(
            f"there is nobody for the tool {AGENT!r} to ask: install one of {', '.join(PROGRAMS)}, "
            "or configure [terminal_agents.NAME]"
        )
    return AgentTool(agents, on_start=on_start)
