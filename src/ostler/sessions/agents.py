"""Named agents: Markdown files that say what a child is for and how it works.

They are read when they are asked for, and never before. A file that came with a project is text for the
model: it runs nothing, its tools and limits only take away, and its model counts after `ostler trust`.
"""
# MERGED: The tool by which a model hands a task to a child, perhaps to a named agent.

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ostler.context.files import Unusable, entries_in, folders_up_to, quoted_path
from ostler.core.children import ChildRequest, ExecutionPolicy, HistoryPolicy
from ostler.core.function_tool import validate_arguments
from ostler.core.tool import ToolContext, ToolSpec
from ostler.permissions.memory import project_folder
from ostler.permissions.trust import is_trusted
from ostler.schema.errors import ConfigurationError, InvalidArguments
from ostler.schema.events import Limits
from ostler.schema.messages import as_content
from ostler.schema.outcomes import Display, Failed, Ok
from ostler.store.paths import configuration_file
from ostler.tools import BUILTIN_TOOLS

AGENT_FOLDERS = (".ostler/agents", ".agents/agents")
"""In a project's folders; the first one wins."""

LARGEST_FILE = 256 * 1024

INHERIT = "inherit"

_NAME = r"[a-z0-9_-]{1,64}"

_OTHER_NAMES = {"glob": "find", "list": "ls", "multiedit": "edit"}
"""What other programs call a tool of ours, in small letters."""

_NOT_FOLLOWED = ("disallowedTools", "hooks", "permission", "permissionMode")
"""What other programs take away with; who wrote it should know that it does not here."""


_FromOne = Annotated[int, msgspec.Meta(ge=1)]

_AboveZero = Annotated[float, msgspec.Meta(gt=0)]


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A child that can be asked for by name."""

    name: str
    description: str
    """When to ask for it, for the model that may."""
    model: str = ""
    """`PROVIDER/ID` or an alias; without one, that of its parent."""
    tools: tuple[str, ...] | None = None
    """Of its parent's; absent means all of them."""
    system: str = ""
    """What the file says below its front matter."""
    judge: str = ""
    limits: Limits = Limits()
    history: int = 0
    """How many of its parent's last runs it knows."""
    context: dict[str, dict[str, Any]] = {}
    """Rules of what it is told, over those of its parent."""
    scope: Literal["project", "user"]
    source: str
    """The path of its file."""


class ModelToTrust(msgspec.Struct, frozen=True):
    """A project's file that names a model, and is not trusted as it is."""

    path: Path
    content: bytes
    model: str
    field: str = "model"


class Agents(msgspec.Struct, frozen=True):
    found: dict[str, AgentSpec]
    problems: tuple[str, ...]
    """What is wrong with files, a line each, which begins with the file's path."""
    models_to_trust: tuple[ModelToTrust, ...]


class _Fields(msgspec.Struct, frozen=True):
    """Front matter, as far as it is checked by its types."""

    name: str = ""
    description: str = ""
    model: str = ""
    judge: str = ""
    history: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_steps: _FromOne | None = None
    max_tokens: _FromOne | None = None
    max_cost: _AboveZero | None = None
    max_seconds: _AboveZero | None = None
    max_depth: Annotated[int, msgspec.Meta(ge=0)] | None = None
    max_children: Annotated[int, msgspec.Meta(ge=0)] | None = None


def find_agents(cwd: Path, tools: Collection[str] = tuple(BUILTIN_TOOLS)) -> Agents:
    """The agents for work in `cwd`: those of the project, the nearest folder first, then the user's.

    `tools` are the names that an agent's tools are looked for in.
    """
    search = _Search(tools)
    users = configuration_file().parent / "agents"
    own = users.resolve()
    cwd = cwd.resolve()
    root = project_folder(cwd)
    for folder in folders_up_to(root, cwd):
        for place in AGENT_FOLDERS:
            if folder / place != own:
                search.look_into(folder / place, root)
    search.look_into(users, None)
    return Agents(search.found, tuple(search.problems), tuple(search.models_to_trust))


def project_of(path: Path) -> Path:
    """The folder of a project in which an agent's file is found."""
    return path.parent.parent.parent


class _Search:
    def __init__(self, tools: Collection[str]) -> None:
        self._tools = {name.lower(): name for name in tools}
        self.found: dict[str, AgentSpec] = {}
        self.problems: list[str] = []
        self.models_to_trust: list[ModelToTrust] = []

    def look_into(self, folder: Path, project: Path | None) -> None:
        try:
            paths = entries_in(folder)
        except Unusable as error:
            self.problems.append(f"{folder}: cannot be read: {error}")
            return
        for path in paths:
            if path.suffix == ".md":
                self._read(path, project)

    def _read(self, path: Path, project: Path | None) -> None:
        problems: list[str] = []
        try:
            self._add(path, project, problems)
        except Unusable as error:
            problems.append(f"{error}; the agent is left out")
        except OSError as error:
            problems.append(f"cannot be read: {error.strerror}; the agent is left out")
        shown = str(path).encode(errors="replace").decode()
        self.problems += [f"{shown}: {problem}" for problem in problems]

    def _add(self, path: Path, project: Path | None, problems: list[str]) -> None:
        content = _content(path, project)
        values, system = _parsed(content)
        fields = _checked(values)
        name = _name(fields.name, path.stem, problems)
        if known := self.found.get(name):
            if Path(known.source).parent == path.parent:
                raise Unusable(f"{known.source} has the name {name}, too")
            return
        if not fields.description.strip():
            raise Unusable("it has no `description`, which says when to ask for it")
        tools = self._chosen_tools(values.get("tools"), problems)
        problems += [
            f"its `{key}` is not followed here; `tools` says what an agent may use"
            for key in _NOT_FOLLOWED
            if key in values
        ]
        self.found[name] = AgentSpec(
            name=name,
            description=fields.description.strip(),
            model=self._model(fields.model.strip(), path, content, project, problems),
            tools=tools,
            system=system.strip(),
            judge=self._judge(fields.judge, tools, problems),
            limits=_limits(fields),
            history=fields.history,
            context=self._context(values.get("context"), path, content, project, problems),
            scope="user" if project is None else "project",
            source=str(path),
        )

    def _chosen_tools(self, value: Any, problems: list[str]) -> tuple[str, ...] | None:
        names = value.split(",") if isinstance(value, str) else value
        if names is None or names == ["*"]:
            return None
        if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
            raise Unusable("`tools` must be a list of names, or names with commas between them")
        named = [one.strip() for one in names if one.strip()]
        unknown = [repr(one) for one in named if not self._tool(one)]
        if unknown:
            problems.append(f"there is no tool {', '.join(unknown)}; it does without")
        return tuple(dict.fromkeys(filter(None, map(self._tool, named))))

    def _tool(self, name: str) -> str:
        """Our name of a tool, or nothing. `bash(git …)` is no name: it asks for less than the tool."""
        name = name.lower()
        return self._tools.get(name) or self._tools.get(_OTHER_NAMES.get(name, ""), "")

    def _judge(self, name: str, tools: tuple[str, ...] | None, problems: list[str]) -> str:
        found = self._tool(name)
        if not name or (found and (tools is None or found in tools)):
            return found
        problems.append(f"its judge {name!r} is not among its tools; its answer is its result")
        return ""

    def _model(
        self,
        model: str,
        path: Path,
        content: bytes,
        project: Path | None,
        problems: list[str],
        field: str = "model",
    ) -> str:
        if model in ("", INHERIT):
            return ""
        if project is None or is_trusted(path, content):
            return model
        self.models_to_trust.append(ModelToTrust(path, content, model, field))
        problems.append(
            f"its {field} {model!r} is ignored, and that of its parent used, until you look at it "
            f"and say `ostler trust {quoted_path(project_of(path))}`"
        )
        return ""

    def _context(
        self, value: Any, path: Path, content: bytes, project: Path | None, problems: list[str]
    ) -> dict[str, dict[str, Any]]:
        if value is None:
            return {}
        from ostler.context.policy import merged, rules_in

        try:
            rules = rules_in(value)
            merged(rules, places=("this file",))
        except ConfigurationError as error:
            raise Unusable(error.message) from None
        summaries = rules.get("summaries", {})
        if named := summaries.pop("model", ""):
            field = "context.summaries.model"
            if model := self._model(named, path, content, project, problems, field):
                summaries["model"] = model
        return rules


def _content(path: Path, project: Path | None) -> bytes:
    if not _is_text(str(path)):
        raise Unusable("its path is not valid UTF-8")
    if not path.is_file():
        raise Unusable("it is not a file")
    if project is not None and not path.resolve().is_relative_to(project):
        raise Unusable("it is a link to a file outside the project")
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise Unusable(f"it is larger than {LARGEST_FILE // 1024} KiB")
    return content


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parsed(content: bytes) -> tuple[dict[str, Any], str]:
    from ostler.context.markdown import InvalidFrontMatter, read_front_matter

    try:
        document = read_front_matter(content.decode())
    except UnicodeDecodeError:
        raise Unusable("it is not UTF-8") from None
    except InvalidFrontMatter as error:
        raise Unusable(str(error)) from None
    return document.fields, document.body


def _checked(values: dict[str, Any]) -> _Fields:
    known = {name: values[name] for name in _Fields.__struct_fields__ if values.get(name) is not None}
    try:
        return msgspec.convert(known, _Fields, strict=False)
    except msgspec.ValidationError:
        from ostler.core.validation import describe_mismatch

        raise Unusable(describe_mismatch(known, _Fields, strict=False)) from None


def _name(named: str, stem: str, problems: list[str]) -> str:
    """The name in the front matter, or that of the file."""
    if named and re.fullmatch(_NAME, named):
        return named
    if not re.fullmatch(_NAME, stem):
        raise Unusable(f"a name has a to z, 0 to 9, - and _, and {named or stem!r} has more")
    if named:
        problems.append(f"a name has a to z, 0 to 9, - and _: the agent is called {stem}, not {named!r}")
    return stem


def _limits(fields: _Fields) -> Limits:
    return Limits(
        steps=fields.max_steps,
        tokens=fields.max_tokens,
        cost=fields.max_cost,
        seconds=fields.max_seconds,
        depth=fields.max_depth,
        children=fields.max_children,
    )


NAME = "delegate"


ABOUT = (
    "Hands a task to a subagent that works on it alone, with your tools, and returns its answer. "
    "It knows nothing of this conversation: say all that it needs to know. "
    "Several tasks that do not depend on each other can be handed out at once."
)


TASK = {"type": "string", "description": "what to do, and everything needed to do it"}


CHILD_NOTE = (
    "You work on a task that another agent handed to you. Nobody can be asked for more: "
    "do it with what you have, and answer with the result, complete and to the point."
)


class Delegation(msgspec.Struct, frozen=True):
    task: str
    agent: str = ""


class DelegateTool:
    """Runs each call as a child; the named agents are those that the project and the user have."""

    def __init__(self, agents: dict[str, AgentSpec]) -> None:
        self._agents = agents
        names = "".join(f"\n- {agent.name}: {agent.description}" for agent in agents.values())
        about = f"{ABOUT}\nThe agents are:{names}" if agents else ABOUT
        properties: dict[str, Any] = {"task": TASK}
        if agents:
            properties["agent"] = {
                "type": "string",
                "enum": ["", *agents],
                "default": "",
                "description": "who shall do it; empty for one like you",
            }
        self.spec = ToolSpec(
            source="built-in",
            name=NAME,
            description=about,
            schema={
                "type": "object",
                "properties": properties,
                "required": ["task"],
                "additionalProperties": False,
            },
            kind="agent",
            parallel=True,
            reattaches=True,
            display=Display(view="agent", title="{agent} {task}", icon="agent"),
        )

    def validate(self, arguments: dict[str, Any]) -> Delegation:
        delegation = validate_arguments(arguments, Delegation, NAME)
        if not delegation.task.strip():
            raise InvalidArguments("delegate needs a task: say what is to be done")
        if delegation.agent and delegation.agent not in self._agents:
            known = ", ".join(self._agents) or "none"
            raise InvalidArguments(f"there is no agent {delegation.agent!r}; the agents are: {known}")
        return delegation

    async def run(self, arguments: Delegation, context: ToolContext) -> Ok | Failed:
        from ostler.sessions.children import outcome_of

        return outcome_of(await context.run_child(self.request(arguments)))

    def request(self, delegation: Delegation) -> ChildRequest:
        """What the child is asked that a delegation makes."""
        agent = self._agents.get(delegation.agent)
        prompt = as_content(delegation.task)
        if agent is None:
            return ChildRequest(prompt, execution=ExecutionPolicy(append_system=CHILD_NOTE))
        return ChildRequest(
            prompt,
            agent=agent.name,
            history=HistoryPolicy(agent.history),
            execution=ExecutionPolicy(
                model=agent.model,
                tools=agent.tools,
                system=agent.system,
                append_system=CHILD_NOTE,
                limits=agent.limits,
                judge=agent.judge,
                context=agent.context,
            ),
        )
