"""Named agents, which Markdown files describe, and the tool that delegates a task to a child.

A project's file is only text for the model: it runs nothing, its tools and limits only restrict, and its
model is used only after `ostler trust`. The files are read on use.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from ostler.context.files import FileSearch, Unusable, quoted_path, read_bytes
from ostler.core.children import ChildRequest, ExecutionPolicy, HistoryPolicy
from ostler.core.lazy import lazy_module
from ostler.core.tool import ToolContext, ToolSpec
from ostler.schema.errors import ConfigurationError, InvalidArguments
from ostler.schema.events import Limits
from ostler.schema.messages import as_content
from ostler.schema.outcomes import Display, Failed, Ok
from ostler.store.paths import configuration_file, project_folder
from ostler.tools import BUILTIN_TOOLS

if TYPE_CHECKING:
    from ostler.context import markdown, policy
    from ostler.core import function_tool, validation
    from ostler.permissions import trust
    from ostler.sessions import children
else:
    function_tool = lazy_module("ostler.core.function_tool")
    markdown = lazy_module("ostler.context.markdown")
    policy = lazy_module("ostler.context.policy")
    trust = lazy_module("ostler.permissions.trust")
    validation = lazy_module("ostler.core.validation")
    children = lazy_module("ostler.sessions.children")

AGENT_FOLDERS = (".ostler/agents", ".agents/agents")
"""In a project's folders; the first one wins."""

LARGEST_FILE = 256 * 1024
INHERIT = "inherit"
_NAME = r"[a-z0-9_-]{1,64}"

_LIMITS = ("steps", "tokens", "cost", "seconds", "depth", "children")
"""Each is the field `max_…` of the front matter."""

_OTHER_NAMES = {"glob": "find", "list": "ls", "multiedit": "edit"}
"""Other programs' names of our tools, in lower case."""

_NO_EFFECT = ("disallowedTools", "hooks", "permission", "permissionMode")
"""Restrictions of other programs that have no effect here, which the user should know."""

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_PositiveNumber = Annotated[float, msgspec.Meta(gt=0)]


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A child that can be started by name."""

    name: str
    description: str
    """When to use it, for the model."""
    model: str = ""
    """`PROVIDER/ID` or an alias; empty for its parent's model."""
    tools: tuple[str, ...] | None = None
    """Some of its parent's tools; None for all of them."""
    system: str = ""
    judge: str = ""
    limits: Limits = Limits()
    history: int = 0
    """How many of its parent's last runs it gets."""
    context: dict[str, dict[str, Any]] = {}
    scope: Literal["project", "user"]
    source: str


class ModelToTrust(msgspec.Struct, frozen=True):
    """A project's file that names a model, and whose content is not trusted."""

    path: Path
    content: bytes
    model: str
    field: str = "model"


class Agents(msgspec.Struct, frozen=True):
    by_name: dict[str, AgentSpec]
    problems: tuple[str, ...]
    """A line for each problem, which begins with the file's path."""
    models_to_trust: tuple[ModelToTrust, ...]


class _Fields(msgspec.Struct, frozen=True):
    """The front matter that is validated by type."""

    name: str = ""
    description: str = ""
    model: str = ""
    judge: str = ""
    history: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_steps: _Positive | None = None
    max_tokens: _Positive | None = None
    max_cost: _PositiveNumber | None = None
    max_seconds: _PositiveNumber | None = None
    max_depth: Annotated[int, msgspec.Meta(ge=0)] | None = None
    max_children: Annotated[int, msgspec.Meta(ge=0)] | None = None


def find_agents(cwd: Path, tools: Collection[str] = tuple(BUILTIN_TOOLS)) -> Agents:
    """The agents for `cwd`: those of the project, the nearest folder first, then the user's. `tools` are the
    names of the tools that agents can have."""
    search = _AgentSearch(tools)
    cwd = cwd.resolve()
    search.search(cwd, project_folder(cwd), (configuration_file().parent / "agents",))
    return Agents(search.agents, tuple(search.problems), tuple(search.models_to_trust))


def project_of(path: Path) -> Path:
    """The project's folder that an agent's file belongs to."""
    return path.parent.parent.parent


class _AgentSearch(FileSearch):
    def __init__(self, tools: Collection[str]) -> None:
        super().__init__("agent", AGENT_FOLDERS)
        self._tools = {name.lower(): name for name in tools}
        self.agents: dict[str, AgentSpec] = {}
        self.models_to_trust: list[ModelToTrust] = []

    def add(self, path: Path, project: Path | None, problems: list[str]) -> None:
        content = _content(path, project)
        document = markdown.read_document(content)
        values = document.fields
        fields = _validate(values)
        name = _name(fields.name, path.stem, problems)
        if other := self.agents.get(name):
            if Path(other.source).parent == path.parent:
                raise Unusable(f"{other.source} has the name {name}, too")
            return
        if not fields.description.strip():
            raise Unusable("it has no `description`, which says when to use it")
        tools = self._tool_names(values.get("tools"), problems)
        for key in [key for key in _NO_EFFECT if key in values]:
            problems.append(f"its `{key}` has no effect here; `tools` lists what an agent may use")
        self.agents[name] = AgentSpec(
            name=name,
            description=fields.description.strip(),
            model=self._model(fields.model.strip(), path, content, project, problems),
            tools=tools,
            system=document.body.strip(),
            judge=self._judge(fields.judge, tools, problems),
            limits=Limits(**{name: getattr(fields, f"max_{name}") for name in _LIMITS}),
            history=fields.history,
            context=self._context(values.get("context"), path, content, project, problems),
            scope="user" if project is None else "project",
            source=str(path),
        )

    def _tool_names(self, value: Any, problems: list[str]) -> tuple[str, ...] | None:
        names = value.split(",") if isinstance(value, str) else value
        if names is None or names == ["*"]:
            return None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise Unusable("`tools` must be a list of names, or names separated by commas")
        names = [name.strip() for name in names if name.strip()]
        if unknown := [repr(name) for name in names if not self._tool(name)]:
            problems.append(f"there is no tool {', '.join(unknown)}; the agent works without it")
        return tuple(dict.fromkeys(filter(None, map(self._tool, names))))

    def _tool(self, name: str) -> str:
        """Our name of a tool, or empty. `bash(git …)` is not a name: it means less than the tool."""
        name = name.lower()
        return self._tools.get(name) or self._tools.get(_OTHER_NAMES.get(name, ""), "")

    def _judge(self, name: str, tools: tuple[str, ...] | None, problems: list[str]) -> str:
        judge = self._tool(name)
        if not name or (judge and (tools is None or judge in tools)):
            return judge
        problems.append(f"its judge {name!r} is not one of its tools; its answer is its result")
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
        if project is None or trust.is_trusted(path, content):
            return model
        self.models_to_trust.append(ModelToTrust(path, content, model, field))
        problems.append(
            f"its {field} {model!r} is ignored, and its parent's model used, until you review it and run "
            f"`ostler trust {quoted_path(project_of(path))}`"
        )
        return ""

    def _context(
        self, value: Any, path: Path, content: bytes, project: Path | None, problems: list[str]
    ) -> dict[str, dict[str, Any]]:
        if value is None:
            return {}
        try:
            rules = policy.rules_in(value)
            policy.merged(rules, places=("this file",))
        except ConfigurationError as error:
            raise Unusable(error.message) from None
        summaries = rules.get("summaries", {})
        if named := summaries.pop("model", ""):
            field = "context.summaries.model"
            if model := self._model(named, path, content, project, problems, field):
                summaries["model"] = model
        return rules


def _content(path: Path, project: Path | None) -> bytes:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise Unusable("its path is not valid UTF-8") from None
    if (content := read_bytes(path, project, LARGEST_FILE)) is None:
        raise Unusable("it is not a file")
    return content


def _validate(values: dict[str, Any]) -> _Fields:
    typed = {name: values[name] for name in _Fields.__struct_fields__ if values.get(name) is not None}
    try:
        return msgspec.convert(typed, _Fields, strict=False)
    except msgspec.ValidationError:
        raise Unusable(validation.describe_mismatch(typed, _Fields, strict=False)) from None


def _name(named: str, stem: str, problems: list[str]) -> str:
    if named and re.fullmatch(_NAME, named):
        return named
    if not re.fullmatch(_NAME, stem):
        raise Unusable(f"a name may contain only a to z, 0 to 9, - and _, which {named or stem!r} does not")
    if named:
        problems.append(
            f"a name may contain only a to z, 0 to 9, - and _: the agent is called {stem}, not {named!r}"
        )
    return stem


NAME = "delegate"

ABOUT = (
    "Delegates a task to a subagent that works on it alone, with your tools, and returns its answer. "
    "It does not see this conversation: include everything that it needs to know. "
    "Several tasks that do not depend on each other can be delegated at once."
)

CHILD_NOTE = (
    "You work on a task that another agent delegated to you. You cannot ask for more information: "
    "do it with what you have, and answer with the result, complete and to the point."
)


class Delegation(msgspec.Struct, frozen=True):
    task: str
    agent: str = ""


class DelegateTool:
    """Runs each call as a child, with the named agents of the project and the user."""

    def __init__(self, agents: dict[str, AgentSpec]) -> None:
        self._agents = agents
        names = "".join(f"\n- {agent.name}: {agent.description}" for agent in agents.values())
        about = f"{ABOUT}\nThe agents are:{names}" if agents else ABOUT
        task = {"type": "string", "description": "what to do, and everything needed to do it"}
        properties: dict[str, Any] = {"task": task}
        if agents:
            properties["agent"] = {
                "type": "string",
                "enum": ["", *agents],
                "default": "",
                "description": "the agent that does it; empty for one like you",
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
        delegation = function_tool.validate_arguments(arguments, Delegation, NAME)
        if not delegation.task.strip():
            raise InvalidArguments("delegate needs a task: say what to do")
        if delegation.agent and delegation.agent not in self._agents:
            names = ", ".join(self._agents) or "none"
            raise InvalidArguments(f"there is no agent {delegation.agent!r}; the agents are: {names}")
        return delegation

    async def run(self, arguments: Delegation, context: ToolContext) -> Ok | Failed:
        return children.outcome_of(await context.run_child(self.request(arguments)))

    def request(self, delegation: Delegation) -> ChildRequest:
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
