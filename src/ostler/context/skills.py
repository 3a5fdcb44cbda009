"""Skills by the Agent Skills standard: folders with a SKILL.md that explains how to do a task.

The model gets each skill's name and description, loads the text with the `skill` tool, and reads the skill's
other files itself. A project's skill could mislead it, so it is used only if the user trusts its present
content.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.context.files import FileSearch, Unusable, printable_path, quoted_path, read_bytes
from ostler.core.function_tool import validate_arguments
from ostler.core.lazy import lazy_module
from ostler.core.tool import ToolContext, ToolSpec
from ostler.schema.errors import InvalidArguments, ToolFailed, UsageError
from ostler.schema.outcomes import Display, Ok, ok
from ostler.tools.files import digest_of, display_path, run_cancellable
from ostler.tools.truncation import byte_length, without_surrogates

if TYPE_CHECKING:
    from ostler.context import markdown
else:
    markdown = lazy_module("ostler.context.markdown")

SKILL_FOLDERS = (".ostler/skills", ".agents/skills")
"""Folders of skills in a project; the first one wins."""

FILE = "SKILL.md"
LARGEST_FILE = 64 * 1024

LARGEST_CATALOGUE = 32 * 1024
"""The maximum size of the skills section in the system prompt, in bytes."""

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500

MOST_FILES = 50
"""Files of a skill's folder that are listed for the model."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_INVOCATION = re.compile(r"\s*/skill:(\S*)\s*(.*)", re.DOTALL)

IsTrusted = Callable[[Path, bytes], bool]
"""Whether a project's file with this content is trusted."""


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    """What it is for, and when to use it: the model decides by it."""
    license: str = ""
    compatibility: str = ""
    """What it requires."""
    metadata: dict[str, str] = {}
    allowed_tools: tuple[str, ...] = ()
    """The tools that it declares. This grants no permission."""
    for_model: bool = True
    """Whether the model may choose it; otherwise only a user can."""
    scope: Literal["project", "user"]
    source: str
    """The path of its SKILL.md."""
    digest: str
    """The digest of that file."""


class SkillToTrust(msgspec.Struct, frozen=True):
    """A project's skill whose present content is not trusted."""

    path: Path
    content: bytes
    name: str
    description: str


class Skills(msgspec.Struct, frozen=True):
    by_name: dict[str, Skill]
    problems: tuple[str, ...]
    """Problems with files, one line each, starting with the file's path."""
    to_trust: tuple[SkillToTrust, ...]

    @property
    def for_model(self) -> dict[str, Skill]:
        return {name: skill for name, skill in self.by_name.items() if skill.for_model}

    @property
    def notices(self) -> tuple[str, ...]:
        """Messages for the user: the problems, and a line about untrusted skills."""
        if not self.to_trust:
            return self.problems
        names = ", ".join(dict.fromkeys(one.name for one in self.to_trust))
        projects = dict.fromkeys(project_of(one.path) for one in self.to_trust)
        how = " and ".join(f"`ostler trust {quoted_path(project)}`" for project in projects)
        untrusted = f"skills of this project are not used until you review them and run {how}: {names}"
        return (*self.problems, untrusted)


def find_skills(cwd: Path, root: Path, users: Iterable[Path], is_trusted: IsTrusted) -> Skills:
    """The skills for work in `cwd`: those of the project, the nearest folder first, then the user's.

    `users` are the folders of skills that are the user's own. The first one of a name wins.
    """
    search = _SkillSearch(is_trusted)
    search.search(cwd, root, tuple(users))
    return search.skills()


def skills_among(folder: Path, project: Path | None, is_trusted: IsTrusted) -> Skills:
    """The skills in one folder, which may belong to a project."""
    search = _SkillSearch(is_trusted)
    search.read_folder(folder, project)
    return search.skills()


def read_skill(folder: Path, project: Path | None, is_trusted: IsTrusted) -> Skills:
    """The skill in its own folder, if there is one."""
    search = _SkillSearch(is_trusted)
    search.read(folder / FILE, project)
    return search.skills()


def project_of(path: Path) -> Path:
    """The project folder that contains a skill's file."""
    return path.parents[3]


class _SkillSearch(FileSearch):
    def __init__(self, is_trusted: IsTrusted) -> None:
        super().__init__("skill", SKILL_FOLDERS)
        self._is_trusted = is_trusted
        self._skills: dict[str, Skill] = {}
        self._to_trust: list[SkillToTrust] = []

    def skills(self) -> Skills:
        return Skills(self._skills, tuple(self.problems), tuple(self._to_trust))

    def file_of(self, entry: Path) -> Path:
        return entry / FILE

    def add(self, path: Path, project: Path | None, problems: list[str]) -> None:
        content = read_bytes(path, project, LARGEST_FILE)
        if content is None:
            return
        if printable_path(path) != str(path):
            raise Unusable("its path has unprintable characters")
        fields, _ = parsed(content)
        name = _name(fields.get("name"), path.parent.name)
        description = _description(fields.get("description"))
        if name in self._skills:
            return
        if project is not None and not self._is_trusted(path, content):
            self._to_trust.append(SkillToTrust(path, content, name, description))
            return
        self._skills[name] = Skill(
            name=name,
            description=description,
            license=_text("license", fields.get("license"), problems),
            compatibility=_compatibility(fields.get("compatibility"), problems),
            metadata=_metadata(fields.get("metadata"), problems),
            allowed_tools=_tools(fields.get("allowed-tools"), problems),
            for_model=fields.get("disable-model-invocation") is not True,
            scope="user" if project is None else "project",
            source=str(path),
            digest=digest_of(content),
        )


def parsed(content: bytes) -> tuple[dict[str, Any], str]:
    """The fields of the front matter, and the text after it. Raises `Unusable`."""
    document = markdown.read_document(content)
    return document.fields, document.body


def _name(value: Any, folder: str) -> str:
    if value is None:
        raise Unusable("it has no `name`, which must be the name of its folder")
    name = str(value)
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        rule = (
            f"a name consists of a-z, 0-9 and single hyphens between them, at most {LONGEST_NAME} characters"
        )
        raise Unusable(f"{rule}; {name[:100]!r} does not")
    if name != folder:
        raise Unusable(f"its name {name!r} is not the name of its folder {folder!r}")
    return name


def _description(value: Any) -> str:
    description = " ".join(value.split()) if isinstance(value, str) else ""
    if not description:
        raise Unusable("it has no `description` of what it is for, and when to use it")
    if (length := len(description)) > LONGEST_DESCRIPTION:
        raise Unusable(f"its description has {length} characters; the limit is {LONGEST_DESCRIPTION}")
    return description


# A skill with an invalid optional field is still used.


def _text(name: str, value: Any, problems: list[str]) -> str:
    if value is None or isinstance(value, str | int):
        return "" if value is None else str(value).strip()
    problems.append(f"its `{name}` is not a string and is ignored")
    return ""


def _compatibility(value: Any, problems: list[str]) -> str:
    text = _text("compatibility", value, problems)
    if len(text) <= LONGEST_COMPATIBILITY:
        return text
    problems.append(f"its `compatibility` has more than {LONGEST_COMPATIBILITY} characters and is cut")
    return text[:LONGEST_COMPATIBILITY]


def _metadata(value: Any, problems: list[str]) -> dict[str, str]:
    if value is None:
        return {}
    if isinstance(value, dict) and not any(isinstance(one, list | dict) for one in value.values()):
        return {name: "" if one is None else str(one) for name, one in value.items()}
    problems.append("its `metadata` is not a table of strings and is ignored")
    return {}


def _tools(value: Any, problems: list[str]) -> tuple[str, ...]:
    names = value.split() if isinstance(value, str) else value
    if names is None:
        return ()
    if isinstance(names, list) and all(isinstance(one, str) for one in names):
        return tuple(names)
    problems.append("its `allowed-tools` are not names and are ignored")
    return ()


def catalogue(skills: Mapping[str, Skill]) -> tuple[str, tuple[str, ...]]:
    """The skills section of the system prompt, and the names of skills that do not fit."""
    rows: list[str] = []
    left_out: list[str] = []
    room = LARGEST_CATALOGUE
    for skill in skills.values():
        row = (
            f'<skill name="{skill.name}" location="{escaped(skill.source)}">'
            f"{escaped(without_surrogates(skill.description))}</skill>"
        )
        room -= byte_length(row)
        if room >= 0:
            rows.append(row)
        else:
            left_out.append(skill.name)
    if not rows:
        return "", tuple(left_out)
    about = (
        "# Skills\n\nEach skill explains how to do a certain task here. When a task matches a description, "
        "load that skill with the tool `skill` before you begin."
    )
    return "\n".join((about, "", "<skills>", *rows, "</skills>")), tuple(left_out)


def activated(skill: Skill, cwd: Path) -> str:
    """The text of a skill and the list of its files. Raises `Unusable`.

    The file is read again. A project's skill must be unchanged since its trust was checked.
    """
    folder = Path(skill.source).parent
    _, body = contents(skill)
    parts = [f'<skill name="{skill.name}" folder="{escaped(str(folder))}">', body.strip(), "</skill>"]
    files = list(islice(_files(folder), MOST_FILES + 1))
    if files:
        parts += ["", "Paths in it are relative to its folder, which has these files:"]
        parts += [without_surrogates(display_path(file, cwd)) for file in files[:MOST_FILES]]
    if len(files) > MOST_FILES:
        parts.append("[more files: list the folder]")
    return "\n".join(parts)


def contents(skill: Skill) -> tuple[dict[str, Any], str]:
    """The front matter of a skill and the text below it, read again as for `activated`."""
    path = Path(skill.source)
    content = read_bytes(path, None, LARGEST_FILE)
    if content is None:
        raise Unusable(f"{path} no longer exists")
    if skill.scope == "project" and digest_of(content) != skill.digest:
        raise Unusable(f"{path} has changed: the user must review it and run `ostler trust` again")
    return parsed(content)


def _files(folder: Path) -> Iterator[Path]:
    """The files beside and below SKILL.md."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and not (name == FILE and Path(place) == folder):
                yield Path(place, name)


def expand_skill(text: str, skills: Skills, cwd: Path) -> str | None:
    """Expands a prompt like `/skill:NAME what to do` to the skill's text and the request.

    None for any other text. Raises `UsageError` for a skill that cannot be used.
    """
    invocation = _INVOCATION.fullmatch(text)
    if invocation is None:
        return None
    text, request = skill_notice(invocation[1], skills, cwd), invocation[2].rstrip()
    return f"{text}\n\n{request}" if request else text


def skill_notice(name: str, skills: Skills, cwd: Path) -> str:
    """The text of a skill for the model. Raises `UsageError` if it cannot be used."""
    if name not in skills.by_name:
        for one in skills.to_trust:
            if one.name == name:
                advice = f"review it and run `ostler trust {quoted_path(project_of(one.path))}`"
                raise UsageError(f"the skill {name} belongs to this project: {advice}")
        names = ", ".join(sorted(skills.by_name)) or "none"
        raise UsageError(f"there is no skill {name!r}; the skills are: {names}")
    try:
        return activated(skills.by_name[name], cwd)
    except Unusable as error:
        raise UsageError(f"the skill {name} cannot be used: {error}") from None


def escaped(text: str) -> str:
    for character, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot")):
        text = text.replace(character, f"&{name};")
    return text


NAME = "skill"


class Activation(msgspec.Struct, frozen=True):
    name: str


class SkillTool:
    """The tool `skill`: returns a skill's text. It only reads discovered skills."""

    def __init__(self, skills: Mapping[str, Skill]) -> None:
        self.skills = skills
        name = {"type": "string", "enum": [*skills], "description": "the skill"}
        self.spec = ToolSpec(
            source="built-in",
            name=NAME,
            description="Loads a skill: instructions for a certain task, and the list of its files.",
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
        activation = validate_arguments(arguments, Activation, NAME)
        if activation.name not in self.skills:
            names = ", ".join(self.skills)
            raise InvalidArguments(f"there is no skill {activation.name!r}; the skills are: {names}")
        return activation

    async def run(self, arguments: Activation, context: ToolContext) -> Ok:
        skill = self.skills[arguments.name]
        try:
            text = await run_cancellable(lambda stop: activated(skill, context.cwd))
        except Unusable as error:
            raise ToolFailed(f"the skill {skill.name} cannot be used: {error}") from None
        details = {"skill": skill.name, "source": display_path(Path(skill.source), context.cwd)}
        return ok(text, details=details, summary=skill.description)
