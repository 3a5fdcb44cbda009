"""Settings, and where they come from.

Later sources override earlier ones: defaults, the user's configuration file, the project's `ostler.toml`,
`OSTLER_*` variables, the command line. `permissions/trust.py` lists what a project may only set with consent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from ostler.context.files import quoted_path
from ostler.core.children import DEFAULT_DEPTH
from ostler.core.lazy import lazy_module
from ostler.core.processes import ProcessLimits
from ostler.models.providers import FOR_ONE_MODEL, ModelOptions, configured_providers
from ostler.permissions.rules import Effect, Profile, anchored, parse_rule
from ostler.schema.errors import ConfigurationError, UsageError
from ostler.store.paths import below_home, configuration_file, expand_home

if TYPE_CHECKING:
    from ostler.context import policy
    from ostler.core import validation
    from ostler.models import catalogue
    from ostler.permissions import trust
else:
    catalogue = lazy_module("ostler.models.catalogue")
    policy = lazy_module("ostler.context.policy")
    trust = lazy_module("ostler.permissions.trust")
    validation = lazy_module("ostler.core.validation")

PROJECT_FILE = "ostler.toml"
RULES: tuple[Effect, ...] = ("allow", "ask", "deny")
TABLES = frozenset(
    {"providers", "models", "aliases", "context", "options", "terminal_agents", "tool_limits", *RULES}
)
"""Settings that have no variable: tables, and lists of rules, which may contain commas."""


class Settings(ModelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """All settings, with their names in configuration files."""

    fallback: tuple[str, ...] = ()
    """Models that continue a run, in this order, if the one before fails permanently."""
    max_retries: Annotated[int, msgspec.Meta(ge=0)] = 20
    """How many failed model calls a run may retry in total."""
    gguf: str = ""
    """A GGUF file to use if no other model can answer; default: one in the state folder's `models`."""
    system: str = ""
    """Replaces the system prompt."""
    append_system: tuple[str, ...] = ()
    """Appended to the system prompt, one paragraph each."""
    instructions: bool = True
    """Whether the model gets AGENTS.md files."""
    context: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """How a long conversation is shortened for the model: `[context.summaries]` and other tables."""
    tools: tuple[str, ...] | None = None
    """Only these tools; absent means all."""
    terminal_agents: dict[str, TerminalAgentSettings] = msgspec.field(default_factory=dict)
    """Agents of other vendors that the tool `agent` can start: `[terminal_agents.NAME]`."""
    max_steps: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The run ends after this many model answers, including its subagents; absent means no limit."""
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The run ends after this many tokens, including its subagents; absent means no limit."""
    max_cost: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """The run ends after this many dollars, including its subagents; absent means no limit."""
    max_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """The run ends after this many seconds, not counting waits for people; absent means no limit."""
    max_children: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """How many subagents a run may start, including nested ones; absent means no limit."""
    max_depth: Annotated[int, msgspec.Meta(ge=0)] = DEFAULT_DEPTH
    """How deep subagents may be nested."""
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The maximum length of one answer; absent means the model's own limit."""
    reasoning: Literal["off", "minimal", "low", "medium", "high"] | None = None
    """How much the model reasons before it answers; absent leaves it to the model."""
    permissions: Profile = "read-only"
    """What runs without asking."""
    allow: tuple[str, ...] = ()
    """Rules for calls that run without asking, such as `bash(git status)`; the rules of all files add up."""
    ask: tuple[str, ...] = ()
    """Rules for calls that need your approval; they override `allow`."""
    deny: tuple[str, ...] = ()
    """Rules for calls that never run; they override all others."""
    confine_harmless: bool = True
    """Whether commands that run only because they were judged harmless are kept from writing and sockets."""
    tool_limits: ProcessLimits = msgspec.field(default_factory=ProcessLimits)
    """Limits for the processes of a tool call: `[tool_limits]`."""
    pass_env: tuple[str, ...] = ()
    """Variables with keys that commands and extension programs get all the same, such as `OPENAI_API_KEY`."""
    on_question: Literal["refuse", "wait"] = "refuse"
    """What to do with a call that needs approval when no person can answer: refuse it, or wait."""
    silence_limit: Annotated[float, msgspec.Meta(gt=0)] = 120.0
    """Seconds without a byte from the model until the call fails."""
    durability: Literal["process", "power"] = "process"
    """What a committed fact survives: a crash of the process, or also a power failure."""
    extensions: tuple[str, ...] = ()
    """Files and folders of extensions, besides those discovered; the lists of all files add up."""
    options: dict[str, str | int | float | bool] = msgspec.field(default_factory=dict)
    """Settings of extensions, by their names."""
    theme: str = ""
    """The theme of the terminal: a built-in one, or a file of your own."""
    appearance: Literal["auto", "light", "dark"] = "auto"
    """Whether to use the theme's light or dark colours; `auto` asks the terminal."""
    notify: Literal["auto", "bell", "off"] = "auto"
    """How the terminal notifies you when you are needed: a notification if it can, a bell, or not at all."""
    images: Literal["auto", "kitty", "iterm2", "blocks", "off"] = "auto"
    """How the terminal shows images: by a protocol that it supports, as coloured blocks, or not at all."""
    screen_reader: bool = False
    """In a terminal: plain lines for screen readers, without boxes or animation."""
    editing: Literal["emacs", "vi"] = "emacs"
    """The key bindings of the input line."""
    audit: str = ""
    """A file for audit lines, one per decision with its reason; `log` writes them to standard error."""


class ProjectFile(msgspec.Struct, frozen=True):
    """A project's `ostler.toml`, read once: the content that is checked is the content that is used."""

    path: Path
    content: bytes
    values: dict[str, Any]
    risky: frozenset[str]
    """The names in it that need trust."""


class Loaded(msgspec.Struct, frozen=True):
    settings: Settings
    notices: tuple[str, ...] = ()
    """For the person, a line each."""


def load_settings(
    cwd: Path,
    overrides: Mapping[str, Any],
    environment: Mapping[str, str] = os.environ,
    *,
    by_default: Mapping[str, Any] | None = None,
) -> Loaded:
    """The settings for work in `cwd`. `overrides` come from the command line; `by_default` applies where no
    other source sets a value."""
    notices: list[str] = []
    values = {**(by_default or {}), **_with_paths_of(configuration_file().parent, read_user_file())}
    rules = {str(configuration_file()): values.get("context", {})}
    project = read_project_file(cwd, environment)
    if project is not None:
        ignored: frozenset[str] = frozenset()
        if project.risky and not trust.is_trusted(project.path.parent, project.content):
            ignored = project.risky
            notices.append(
                f"{project.path} sets {', '.join(sorted(ignored))}, which is ignored until you review it "
                f"and run `ostler trust {quoted_path(project.path.parent)}`"
            )
        wanted = {name: one for name, one in project.values.items() if name not in ignored}
        wanted = _with_paths_of(project.path.parent, _with_rules_of(project.path.parent, wanted))
        values = _merged(values, wanted)
        rules[str(project.path)] = wanted.get("context", {})
    values = _merged(values, _from_environment(environment))
    values = _merged(values, {name: value for name, value in overrides.items() if value is not None})
    rules["--context"] = overrides.get("context") or {}
    if any(rules.values()):
        policy.merged(*rules.values(), places=tuple(rules))
    return Loaded(_checked(values, "the settings"), tuple(notices))


def _merged(values: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Later values win; tables are merged, so that a project can add a provider to the user's.

    Settings for one provider's model are dropped if a model of another provider is named later.
    """
    if values.get("model") and "model" in over and _provider(values["model"]) != _provider(over["model"]):
        values = {name: one for name, one in values.items() if name not in FOR_ONE_MODEL}
    joined = {
        name: values[name] | one
        for name, one in over.items()
        if isinstance(one, dict) and isinstance(values.get(name), dict)
    }
    if "context" in joined:
        joined["context"] = policy.combined(values["context"], over["context"])
    lists = {name: [*values.get(name, ()), *over[name]] for name in (*RULES, "extensions") if name in over}
    return values | over | joined | lists


def _with_rules_of(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Anchors a project's rules to its own folder, whatever the working directory."""
    present = [name for name in RULES if name in values]
    return values | {
        name: [anchored(parse_rule(text, name), folder).text for text in values[name]] for name in present
    }


def paths_of(values: Mapping[str, Any], folder: Path) -> list[str]:
    """The extensions that a configuration file in that folder names, as absolute paths."""
    return [str(folder / expand_home(path)) for path in values.get("extensions", ())]


def project_paths(cwd: Path) -> dict[Path, Path]:
    """The extensions that the project's file names, with the project's folder, which must be trusted."""
    project = read_project_file(cwd)
    if project is None:
        return {}
    return {Path(path): project.path.parent for path in paths_of(project.values, project.path.parent)}


def _with_paths_of(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    return values | {"extensions": paths_of(values, folder)} if "extensions" in values else values


def _provider(model: str) -> str:
    name = model.strip()
    return (name if "/" in name else catalogue.Catalogue().resolve(name)).partition("/")[0]


def read_user_file() -> dict[str, Any]:
    """The values of the user's configuration file."""
    return _read_file(configuration_file())[0]


def read_project_file(cwd: Path, environment: Mapping[str, str] = os.environ) -> ProjectFile | None:
    path = find_project_file(cwd)
    if path is None:
        return None
    # A limit in a variable overrides the project's in any case; a key must not reach the project's model.
    variables = _from_environment(environment)
    own = read_user_file() | {name: variables[name] for name in trust.SENSITIVE if variables.get(name)}
    values, content = _read_file(path)
    return ProjectFile(path, content, values, trust.untrusted_part(values, own))


def find_project_file(cwd: Path) -> Path | None:
    """`ostler.toml` in this folder or, in a repository, in one above it up to the repository's root.

    Outside of a repository the folders above may belong to anyone, so a file there is ignored.
    """
    folders = [cwd, *cwd.parents]
    root = next((depth for depth, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    files = (folder / PROJECT_FILE for folder in folders[: root + 1])
    return next((file for file in files if file.is_file()), None)


def _read_file(path: Path) -> tuple[dict[str, Any], bytes]:
    """Its values and its bytes; empty if there is no such file."""
    if not path.is_file():
        return {}, b""
    import tomllib

    try:
        content = path.read_bytes()
        values = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    _check_parts(_checked(values, str(path)), path)
    return values, content


def _check_parts(settings: Settings, path: Path) -> None:
    try:
        configured_providers(settings.providers)
        if settings.models:
            catalogue.Catalogue(settings.models)
        if settings.context:
            policy.check_rules(settings.context)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error.message}") from None
    for name in RULES:
        for text in getattr(settings, name):
            try:
                parse_rule(text, name)
            except UsageError as error:
                raise ConfigurationError(f"{path}: {name}: {error.message}") from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """`OSTLER_MAX_STEPS=5` sets `max_steps`; lists are separated by commas."""
    values: dict[str, Any] = {}
    for name in Settings.__struct_fields__:
        text = environment.get(f"OSTLER_{name.upper()}")
        if text is None or name in TABLES:
            continue
        if name in ("tools", "append_system", "fallback", "extensions", "pass_env"):
            values[name] = [part.strip() for part in text.split(",") if part.strip()]
        else:
            values[name] = text
        _checked({name: values[name]}, f"the variable OSTLER_{name.upper()}")
    return values


def _checked(values: Mapping[str, Any], where: str) -> Settings:
    try:
        return msgspec.convert(dict(values), Settings, strict=False)
    except msgspec.ValidationError:
        mismatch = validation.describe_mismatch(dict(values), Settings, strict=False)
        raise ConfigurationError(f"{where}: {mismatch}") from None


def working_directory(named: str | None = None) -> Path:
    """The named directory or the current one, as an absolute path that can be stored."""
    try:
        cwd = Path(named or ".").resolve()
    except OSError:
        raise UsageError("the current directory does not exist any more: change to another one") from None
    if not cwd.is_dir():
        raise UsageError(f"there is no directory {cwd}")
    try:
        str(cwd).encode()
    except UnicodeEncodeError:
        raise UsageError("the path of the directory is not valid UTF-8: rename it or use another") from None
    return cwd


def short_path(path: Path, cwd: Path) -> str:
    """The path relative to the directory or the home folder, if it is below one."""
    if path.is_relative_to(cwd):
        return str(path.relative_to(cwd))
    return below_home(path) or str(path)


class TerminalAgentSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Another vendor's agent that the tool `agent` can start: `[terminal_agents.NAME]`."""

    command: tuple[str, ...] = ()
    """The program and its arguments; default: the program of that name."""
    type: str = ""
    """How to read its screen; default: detected from the command."""
    transport: Literal["pty", "acp", "stream-json"] = "pty"
    """How to drive it: through a terminal, or by a protocol that it speaks."""
    description: str = ""
    """For the model: when to use it."""
