"""The tool by which a model loads a skill."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ostler.context.skills import Skill, activated
from ostler.context.text_files import Unusable
from ostler.kernel.tool import ToolContext, ToolSpec, checked
from ostler.tools.paths import shown
from ostler.tools.threads import in_thread
from ostler.vocabulary.display import Display
from ostler.vocabulary.errors import InvalidArguments, ToolFailed
from ostler.vocabulary.outcomes import Ok, ok

NAME = "skill"


class Activation(msgspec.Struct, frozen=True):
    name: str


class SkillTool:
    """Tells what a skill says. It only reads, and only skills that were found."""

    def __init__(self, skills: Mapping[str, Skill]) -> None:
        self.skills = skills
        name = {"type": "string", "enum": [*skills], "description": "the skill"}
        self.spec = ToolSpec(
            name=NAME,
            description="Loads a skill: how a certain task is done, and which files there are for it.",
            schema={
                "type": "object",
                "properties": {"name": name},
                "required": ["name"],
                "additionalProperties": False,
            },
            kind="agent",
            parallel=True,
            display=Display(view="markdown", title="{name}", icon="skill"),
        )

    def validate(self, arguments: dict[str, Any]) -> Activation:
        activation = checked(arguments, Activation, NAME)
        if activation.name not in self.skills:
            known = ", ".join(self.skills)
            raise InvalidArguments(f"there is no skill {activation.name!r}; the skills are: {known}")
        return activation

    async def run(self, arguments: Activation, context: ToolContext) -> Ok:
        skill = self.skills[arguments.name]
        try:
            told = await in_thread(lambda stop: activated(skill, context.cwd))
        except Unusable as error:
            raise ToolFailed(f"the skill {skill.name} cannot be used: {error}") from None
        details = {"skill": skill.name, "source": shown(Path(skill.source), context.cwd)}
        return ok(told, details=details, summary=skill.description)
