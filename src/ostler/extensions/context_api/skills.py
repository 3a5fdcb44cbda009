"""`context.skills`: the available skills, their contents, and adding one to the context."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.context import skills as context_skills
from ostler.context.files import Unusable, printable_path, quoted_path, read_head
from ostler.context.instructions import skills_in
from ostler.context.skills import FILE, LARGEST_FILE, SKILL_FOLDERS, contents, skill_notice
from ostler.permissions.trust import is_trusted
from ostler.schema.errors import UsageError
from ostler.store.paths import expand_home, project_folder

if TYPE_CHECKING:
    from ostler.extensions.extension_context import ExtensionContext


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill and its content."""

    name: str
    description: str
    content: str
    """The text below its front matter."""
    path: str
    license: str = ""
    compatibility: str = ""
    metadata: dict[str, str] = {}
    allowed_tools: tuple[str, ...] = ()
    """The tools that it uses; this permits nothing."""
    for_model: bool = True
    """Whether the model may choose it, not only the user."""
    tags: tuple[str, ...] = ()
    when: str = ""
    scope: Literal["project", "user"] = "user"


class SkillSearchResult(msgspec.Struct, frozen=True):
    """The skills, and a line for each one that cannot be used."""

    skills: tuple[Skill, ...]
    problems: tuple[str, ...]


class Skills:
    """`context.skills`. A project's skill is used only if the user trusts its present content."""

    def __init__(self, context: ExtensionContext) -> None:
        self._context = context
        self._cache: context_skills.Skills | None = None

    def available(self) -> list[Skill]:
        """The skills of the session's folder and of the user, as they were at the first call."""
        return list(self._read(self._skills()).skills)

    def discover(self) -> SkillSearchResult:
        """Searches for skills again."""
        self._cache = None
        return self._read(self._skills())

    def load(self, path: str | Path) -> Skill:
        """The skill in that folder, or of that SKILL.md. Raises `UsageError`."""
        folder = self._absolute(path)
        folder = folder.parent if folder.name == FILE else folder
        root = self._project_of(folder)
        result = self._read(context_skills.read_skill(folder, root, is_trusted), root)
        if result.skills:
            return result.skills[0]
        raise UsageError("; ".join(result.problems) or f"there is no {FILE} in {printable_path(folder)}")

    def load_from(self, folder: str | Path) -> SkillSearchResult:
        """All skills in the folders of a folder."""
        place = self._absolute(folder)
        root = self._project_of(place)
        return self._read(context_skills.skills_among(place, root, is_trusted), root)

    def inject(self, name: str) -> int:
        """Adds an entry with the content of a skill, which the model gets with its next call; returns its
        number. No run is started for it. Raises `UsageError` for a skill that cannot be used."""
        told = skill_notice(name, self._skills(), self._context.cwd)
        return self._context.history.append("skill", {"skill": name}, told=told)

    def inject_file(self, path: str | Path) -> int:
        """Like `inject`, for any file, whatever its front matter says."""
        file = self._absolute(path)
        try:
            body = self._body(file)
        except Unusable as error:
            raise UsageError(f"{printable_path(file)} cannot be used: {error}") from None
        name = file.parent.name if file.name == FILE else file.stem
        told = f'<skill name="{context_skills.escaped(name)}">\n{body.strip()}\n</skill>'
        return self._context.history.append("skill", {"path": printable_path(file)}, told=told)

    def _body(self, file: Path) -> str:
        root = self._project_of(file)
        head = read_head(file, root, LARGEST_FILE)
        if head is None:
            raise Unusable("there is no such file")
        if head.size > LARGEST_FILE:
            raise Unusable(f"it is larger than {LARGEST_FILE // 1024} KiB")
        if root is not None and not is_trusted(file, head.content):
            raise Unusable(_untrusted(file, root))
        return context_skills.parsed(head.content)[1]

    def _skills(self) -> context_skills.Skills:
        if self._cache is None:
            self._cache = skills_in(self._context.cwd)
        return self._cache

    def _absolute(self, path: str | Path) -> Path:
        return (self._context.cwd / expand_home(path)).absolute()

    def _project_of(self, path: Path) -> Path | None:
        """The session's project, if the path is in it; then it needs trust."""
        root = project_folder(self._context.cwd.resolve())
        return root if path.resolve().is_relative_to(root) else None

    def _read(self, search: context_skills.Skills, root: Path | None = None) -> SkillSearchResult:
        skills: list[Skill] = []
        problems = list(search.problems)
        for one in search.to_trust:
            project = root or context_skills.project_of(one.path)
            problems.append(f"{one.path}: {_untrusted(one.path, project)}")
        for skill in search.by_name.values():
            try:
                fields, body = contents(skill)
            except Unusable as error:
                problems.append(f"{skill.source}: {error}")
                continue
            skills.append(
                Skill(
                    name=skill.name,
                    description=skill.description,
                    content=body.strip(),
                    path=skill.source,
                    license=skill.license,
                    compatibility=skill.compatibility,
                    metadata=skill.metadata,
                    allowed_tools=skill.allowed_tools,
                    for_model=skill.for_model,
                    tags=_texts(fields.get("tags")),
                    when=str(fields.get("when") or ""),
                    scope=skill.scope,
                )
            )
        return SkillSearchResult(tuple(skills), tuple(problems))


def _untrusted(path: Path, project: Path) -> str:
    """Why a project's file is not used, and how to change that."""
    if any(f"/{place}/" in path.as_posix() for place in SKILL_FOLDERS):
        return f"it belongs to this project: review it and run `ostler trust {quoted_path(project)}`"
    return f"it belongs to this project, and can be trusted only in {' or '.join(SKILL_FOLDERS)}"


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(filter(None, (one.strip() for one in value.split(","))))
    return tuple(map(str, value)) if isinstance(value, list) else ()
