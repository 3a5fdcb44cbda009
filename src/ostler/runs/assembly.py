"""Putting a harness together from settings: model, tools, permission, system prompt."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path

from ostler.context.instructions import system_prompt
from ostler.kernel.harness import Asker, Harness
from ostler.kernel.tool import Tool
from ostler.runs.first_run import settled
from ostler.runs.model_choice import model_maker
from ostler.runs.permissions import configured_rules, remember_answer, user_guard
from ostler.runs.settings import Settings
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.events import Limits


def make_harness(settings: Settings, cwd: Path, *, asker: Asker | None = None) -> Harness:
    """Everything an agent works with, as the settings say."""
    settings = settled(settings)
    make = model_maker(settings)
    harness = Harness(
        model=make(settings.model),
        fallbacks=settings.fallback,
        make_model=make,
        system=system_prompt(cwd, date.today(), instead=settings.system, appended=settings.append_system),
        permission=user_guard(settings.permissions, cwd, configured_rules(settings)),
        remember=remember_answer,
        permissions=settings.permissions,
        limits=Limits(steps=settings.max_steps, retries=settings.max_retries),
        reasoning=settings.reasoning,
        max_output_tokens=settings.max_output_tokens,
        silence_limit=settings.silence_limit,
        cwd=cwd,
        asker=asker,
        waits_for_answers=settings.on_question == "wait",
    )
    harness.use(choose_tools(settings.tools))
    return harness


def choose_tools(names: Iterable[str] | None) -> list[Tool]:
    """The built-in tools, or those of them that are named."""
    from ostler.tools.builtin import BUILTIN_TOOLS, builtin_tools

    if names is None:
        return builtin_tools()
    names = tuple(names)
    unknown = [name for name in names if name not in BUILTIN_TOOLS]
    if unknown:
        raise UsageError(
            f"there is no tool {unknown[0]!r}; the tools are: {', '.join(sorted(BUILTIN_TOOLS))}"
        )
    return builtin_tools(names)
