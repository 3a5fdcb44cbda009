"""Instruction files and skills for a directory: where the user's own are, and which files are trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.context.instructions import Instructions, find_instructions, system_prompt
from ostler.context.text_files import folders_up_to
from ostler.kernel.user_paths import home_folder
from ostler.runs.home import configuration_file
from ostler.runs.permission_memory import project_folder
from ostler.runs.settings import Settings
from ostler.runs.trust import is_trusted

if TYPE_CHECKING:  # most projects have none
    from ostler.context.skills import Skill, Skills


def instructions_in(cwd: Path) -> Instructions:
    """The user's own, then the project's."""
    cwd = cwd.resolve()
    return find_instructions(cwd, project_folder(cwd), (shared_folder(), own_folder()))


def has_folder(cwd: Path, places: tuple[str, ...], own: str) -> bool:
    """Whether there is such a folder between `cwd` and its project's root, or one of the user's own."""
    cwd = cwd.resolve()
    root = project_folder(cwd)
    if any((folder / own).is_dir() for folder in (own_folder(), shared_folder())):
        return True
    return any((folder / place).is_dir() for folder in folders_up_to(root, cwd) for place in places)


def skills_in(cwd: Path) -> Skills:
    """The project's as far as they are trusted, then the user's own."""
    from ostler.context.skills import find_skills

    cwd = cwd.resolve()
    users = [(folder / "skills").resolve() for folder in (own_folder(), shared_folder())]
    return find_skills(cwd, project_folder(cwd), users, is_trusted)


def told_at_first(
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


def own_folder() -> Path:
    """What is the user's and for Ostler alone."""
    return configuration_file().parent


def shared_folder() -> Path:
    """What is the user's and for all programs of this kind."""
    home = home_folder()
    return own_folder() if home is None else home / ".agents"
