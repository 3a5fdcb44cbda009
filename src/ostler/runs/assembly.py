"""Putting a harness together from settings: model, tools, permission, system prompt."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path

from ostler.context.instructions import system_prompt
from ostler.kernel.harness import Asker, Harness
from ostler.kernel.hooks import Ask, Hook, PlannedCall, Refuse
from ostler.kernel.tool import Tool
from ostler.runs.first_run import settled
from ostler.runs.model_choice import model_maker
from ostler.runs.settings import Settings
from ostler.tools.permissions import Profile, judge, preview, reason
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.events import Limits
from ostler.vocabulary.outcomes import Question


def make_harness(settings: Settings, cwd: Path, *, asker: Asker | None = None) -> Harness:
    """Everything an agent works with, as the settings say."""
    settings = settled(settings)
    make = model_maker(settings)
    harness = Harness(
        model=make(settings.model),
        fallbacks=settings.fallback,
        make_model=make,
        system=system_prompt(cwd, date.today(), instead=settings.system, appended=settings.append_system),
        permission=permission_guard(settings.permissions),
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


def permission_guard(profile: Profile) -> Hook | None:
    """The last guard before a tool runs. `full` needs none."""
    if profile == "full":
        return None

    def guard(planned: PlannedCall) -> Refuse | Ask | None:
        verdict = judge(profile, planned.kind)
        if verdict == "allow":
            return None
        if verdict == "refuse":
            return Refuse(reason(profile, planned.kind))
        question = Question(
            text=f"Allow {planned.name}: {preview(planned.name, planned.arguments)}",
            kind="permission",
            choices=("yes", "no"),
            details={"tool": planned.name, "arguments": planned.arguments},
            reason=reason(profile, planned.kind),
        )
        return Ask(question, by="permission")

    return Hook("before_tool", guard, guard=True, name="permission")
