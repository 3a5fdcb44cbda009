"""Skills, as an extension sees them: which there are, what they say, and telling the model of one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.context import skills as found_skills
from ostler.context.files import Unusable, printable_path, quoted_path, read_head
from ostler.context.instructions import skills_in
from ostler.context.skills import FILE, LARGEST_FILE, SKILL_FOLDERS, SkillToTrust, contents, skill_notice
from ostler.permissions.trust import is_trusted
from ostler.schema.errors import UsageError
from ostler.store.paths import expand_home, project_folder

if TYPE_CHECKING:
    from ostler.extensions.extension_context import ExtensionContext


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill, with what it says."""

    name: str
    description: str
    content: str
    """The text below its front matter."""
    path: str
    license: str = ""
    compatibility: str = ""
    metadata: dict[str, str] = {}
    allowed_tools: tuple[str, ...] = ()
    """What it says it uses. It permits nothing."""
    for_model: bool = True
    """The model may choose it; without that, only a person can."""
    tags: tuple[str, ...] = ()
    when: str = ""
    scope: Literal["project", "user"] = "user"


class SkillSearchResult(msgspec.Struct, frozen=True):
    """What was found, and what is wrong with the rest, a line each."""

    skills: tuple[Skill, ...]
    problems: tuple[str, ...]


class Skills:
    """`context.skills`. A project's skill counts only as far as the user trusts it as it is."""

    def __init__(self, context: ExtensionContext) -> None:
        self._context = context
        self._found: found_skills.Skills | None = None

    def available(self) -> list[Skill]:
        """Those of the session's folder and the user's own, as they were when somebody first asked."""
        return list(self._read(self._known()).skills)

    def discover(self) -> SkillSearchResult:
        """Looks for them anew."""
        self._found = None
        return self._read(self._known())

    def load(self, path: str | Path) -> Skill:
        """The skill in that folder, or of that SKILL.md. Raises `UsageError` with what is wrong."""
        folder = self._absolute(path)
        folder = folder.parent if folder.name == FILE else folder
        root = self._project_of(folder)
        read = self._read(found_skills.read_skill(folder, root, is_trusted), root)
        if read.skills:
            return read.skills[0]
        raise UsageError("; ".join(read.problems) or f"there is no {FILE} in {printable_path(folder)}")

    def load_from(self, folder: str | Path) -> SkillSearchResult:
        """All skills in a folder that holds the folders of skills."""
        place = self._absolute(folder)
        root = self._project_of(place)
        return self._read(found_skills.skills_among(place, root, is_trusted), root)

    def inject(self, name: str) -> int:
        """Tells the model what a skill says, from its next call on; no run is started for it.

        It becomes an entry of this extension; returns its number. Raises `UsageError` for a skill that
        there is not, or that may not be used.
        """
        told = skill_notice(name, self._known(), self._context.cwd)
        return self._context.history.append("skill", {"skill": name}, told=told)

    def inject_file(self, path: str | Path) -> int:
        """Tells the model a file as if it were a skill, whatever its front matter says or lacks."""
        file = self._absolute(path)
        try:
            body = self._body(file)
        except Unusable as error:
            raise UsageError(f"{printable_path(file)} cannot be used: {error}") from None
        name = file.parent.name if file.name == FILE else file.stem
        told = f'<skill name="{found_skills.escaped(name)}">\n{body.strip()}\n</skill>'
        return self._context.history.append("skill", {"path": printable_path(file)}, told=told)

    def _body(self, file: Path) -> str:
        root = self._project_of(file)
        beginning = read_head(file, root, LARGEST_FILE)
        if beginning is None:
            raise Unusable("there is no such file")
        if beginning.size > LARGEST_FILE:
            raise Unusable(f"it is larger than {LARGEST_FILE // 1024} KiB")
        if root is not None and not is_trusted(file, beginning.content):
            raise Unusable(_untrusted(file, root))
        return found_skills.parsed(beginning.content)[1]

    def _known(self) -> found_skills.Skills:
        if self._found is None:
            self._found = skills_in(self._context.cwd)
        return self._found

    def _absolute(self, path: str | Path) -> Path:
        return (self._context.cwd / expand_home(path)).absolute()

    def _project_of(self, path: Path) -> Path | None:
        """The project that a path belongs to, if that is the session's: then it needs trust."""
        root = project_folder(self._context.cwd.resolve())
        return root if path.resolve().is_relative_to(root) else None

    def _read(self, found: found_skills.Skills, root: Path | None = None) -> SkillSearchResult:
        texts: list[Skill] = []
        problems = [*found.problems, *_waiting(found.to_trust, root)]
        for skill in found.found.values():
            try:
                fields, body = contents(skill)
            except Unusable as error:
                problems.append(f"{skill.source}: {error}")
                continue
            texts.append(
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
        return SkillSearchResult(tuple(texts), tuple(problems))


def _waiting(skills: Iterable[SkillToTrust], root: Path | None) -> list[str]:
    return [
        f"{one.path}: {_untrusted(one.path, root or found_skills.project_of(one.path))}" for one in skills
    ]


def _untrusted(path: Path, project: Path) -> str:
    """Why a project's file is not used, and what to do about it."""
    if any(f"/{place}/" in path.as_posix() for place in SKILL_FOLDERS):
        return f"it belongs to this project: review it and run `ostler trust {quoted_path(project)}`"
    return f"it is this project's, and can be trusted only in {' or '.join(SKILL_FOLDERS)}"


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(filter(None, (one.strip() for one in value.split(","))))
    return tuple(map(str, value)) if isinstance(value, list) else ()
