"""Putting a harness together from settings: model, tools, permission, system prompt."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

from ostler.context.instructions import system_prompt
from ostler.kernel.harness import Asker, Harness
from ostler.kernel.hooks import Ask, Hook, PlannedCall, Refuse
from ostler.kernel.model import Model
from ostler.kernel.tool import Tool
from ostler.runs.settings import Settings
from ostler.tools.permissions import Profile, judge, preview, reason
from ostler.vocabulary.errors import ConfigurationError, NoModel, UsageError
from ostler.vocabulary.events import Limits
from ostler.vocabulary.outcomes import Question

KEY_COMMAND_SECONDS = 30.0


def make_harness(settings: Settings, cwd: Path, *, asker: Asker | None = None) -> Harness:
    """Everything an agent works with, as the settings say."""
    harness = Harness(
        model=choose_model(settings),
        system=system_prompt(cwd, date.today(), instead=settings.system, appended=settings.append_system),
        permission=permission_guard(settings.permissions),
        permissions=settings.permissions,
        limits=Limits(steps=settings.max_steps),
        reasoning=settings.reasoning,
        max_output_tokens=settings.max_output_tokens,
        silence_limit=settings.silence_limit,
        cwd=cwd,
        asker=asker,
        waits_for_answers=settings.on_question == "wait",
    )
    harness.use(choose_tools(settings.tools))
    return harness


def choose_model(settings: Settings, environment: Mapping[str, str] = os.environ) -> Model:
    """What was named; else the default model of the first vendor whose key is in the environment."""
    from ostler.models.providers import PROVIDERS, make_model

    if settings.model == "demo":
        from ostler.models.demo import DemoModel

        return DemoModel()
    name = settings.model
    if not name:
        with_key = [
            one for one in PROVIDERS.values() if one.default_model and environment.get(one.key_variable)
        ]
        if not with_key:
            variables = " or ".join(one.key_variable for one in list(PROVIDERS.values())[:2])
            raise NoModel(
                f"no model can answer: set {variables}, name a local server's with --model ollama/NAME, "
                "or try --model demo"
            )
        name = f"{with_key[0].name}/{with_key[0].default_model}"
    key = settings.api_key or _key_from_command(settings.key_command)
    return make_model(name, base_url=settings.base_url or None, api_key=key or None, environment=environment)


def _key_from_command(command: str) -> str:
    if not command:
        return ""
    try:
        done = subprocess.run(
            command, shell=True, capture_output=True, text=True, timeout=KEY_COMMAND_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"key_command gave no key within {KEY_COMMAND_SECONDS:g} s") from None
    if done.returncode != 0 or not done.stdout.strip():
        raise ConfigurationError(
            f"key_command failed (exit code {done.returncode}): run it by hand to see why"
        )
    return done.stdout.strip()


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
