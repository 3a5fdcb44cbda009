"""`Judge`: decides on a call by rules (deny, then ask, then allow), then by the profile; and suggests rules.

A command is judged part by part: it is allowed only if every part is, and denied if any part is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ostler.core.tool import ToolKind
from ostler.permissions.known_programs import is_git, is_read_only, may_read
from ostler.permissions.rules import (
    EFFECTS,
    Effect,
    Match,
    Profile,
    Rule,
    Verdict,
    by_profile,
    command_pattern,
    escaped_path,
    host_of,
    judge,
    matches_command,
    matches_host,
    matches_path,
    preview_line,
    reason,
)
from ostler.permissions.shell_parser import parse_command
from ostler.permissions.shell_words import Command, FileWrite, ParsedCommand, Part, Unparsed, word_set


def is_in_repository_of(cwd: Path, folder: Path | None) -> bool:
    """Whether git finds the same repository in both folders, and not one that was put together there."""
    if folder is None:
        return False
    found = _repository(folder.resolve())
    return found is not None and found == _repository(cwd.resolve())


def _repository(folder: Path) -> Path | None:
    for one in (folder, *folder.parents):
        if (one / ".git").exists():
            return one
        if (one / "HEAD").exists():  # git takes such a folder for a repository without files
            return None
    return None


def lies_in_git_folder(path: Path) -> bool:
    """Its settings and hooks name programs that git runs."""
    return any(part.lower() == ".git" for part in path.parts)


_SEVERITY: dict[Verdict, int] = {"allow": 0, "ask": 1, "refuse": 2}
_PATHS = ("path", "file_path")


class Finding(msgspec.Struct, frozen=True):
    """What one part of a call met with."""

    verdict: Verdict
    part: str = ""
    """As it stands in the call; empty for the call itself."""
    why: str = ""
    subject: Command | Path | str | None = None
    """What a rule could allow it by; None where no rule can."""


class Judgement(msgspec.Struct, frozen=True):
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    """Why: those that weigh most."""
    is_whole: bool = True
    """The findings are about the whole call, not about parts of it."""

    @property
    def reason(self) -> str:
        return "; ".join(dict.fromkeys(one.why for one in self.findings if one.why))


class Judge:
    """Judges the calls of one working directory by a profile and rules."""

    def __init__(self, profile: Profile, rules: Iterable[Rule], cwd: Path, *, looking: bool = True) -> None:
        """`looking`: commands that only look need neither a rule nor a person."""
        self._profile = profile
        self._looking = looking and profile != "read-only"
        self._cwd = cwd
        self._rules: dict[Effect, list[Rule]] = {effect: [] for effect in EFFECTS}
        for rule in rules:
            self._rules[rule.effect].append(rule)

    def judge(self, tool: str, kind: ToolKind, arguments: dict[str, Any]) -> Judgement:
        command = arguments.get("command")
        try:
            if kind == "execute" and isinstance(command, str):
                return self._judge_command(tool, kind, command)
            return _weighed([self._judge_call(tool, kind, arguments)])
        except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a name too long or with NUL
            why = f"where a path leads cannot be found out ({error})"
            return _weighed([Finding("refuse", why=why)])

    # --- calls that name a path, a URL, or nothing ----------------------------------------------------

    def _judge_call(self, tool: str, kind: ToolKind, arguments: dict[str, Any]) -> Finding:
        if kind in ("read", "search", "edit"):
            path = self._path(kind, arguments)
            return self._judge_path(tool, kind, path, "")
        if kind == "fetch":
            url = arguments.get("url")
            host = host_of(url) if isinstance(url, str) else None
            found = self._by_rules(tool, kind, "", lambda rule: matches_host(rule, host))
            return found or self._by_profile(kind, "", host or None)
        found = self._by_rules(tool, kind, "", _without_subject)
        return found or self._by_profile(kind, "", tool)

    def _path(self, kind: ToolKind, arguments: dict[str, Any]) -> Path | None:
        named = next((arguments[name] for name in _PATHS if isinstance(arguments.get(name), str)), None)
        if named is None and kind != "edit":
            named = "."
        if named is None or named.startswith("blob:") or "\0" in named:
            return None
        return self._absolute(named, self._cwd)

    def _absolute(self, path: str, folder: Path) -> Path:
        try:
            return folder / Path(path).expanduser()
        except RuntimeError:  # no such user; the tool will say so
            return folder / path

    def _judge_path(self, tool: str, kind: ToolKind, path: Path | None, part: str) -> Finding:
        if path is None:
            found = self._by_rules(tool, kind, part, _without_subject)
            return found or self._by_profile(kind, part, tool)
        found = self._by_rules(tool, kind, part, lambda rule: matches_path(rule, path, self._cwd))
        if found:
            return found
        if kind == "edit" and self._profile == "edit" and (problem := self._beyond_edit(path)):
            return Finding("ask", part, problem, path)
        return self._by_profile(kind, part, path)

    def _beyond_edit(self, path: Path) -> str:
        real = path.resolve()
        if not real.is_relative_to(self._cwd.resolve()):
            return f"permissions are edit: {path} lies outside of the working directory"
        if lies_in_git_folder(real):
            return f"permissions are edit: {path} is git's own, and could make it run something"
        return ""

    def _by_profile(self, kind: ToolKind, part: str, subject: Command | Path | str | None) -> Finding:
        why = reason(self._profile, kind) or by_profile(self._profile)
        return Finding(judge(self._profile, kind), part, why, subject)

    # --- rules ----------------------------------------------------------------------------------------

    def _by_rules(
        self, tool: str, kind: str, part: str, match: Callable[[Rule], Match], via: str = ""
    ) -> Finding | None:
        """What the rules say, if anything. A rule that allows all of the tool `via` allows this, too."""
        for effect in ("deny", "ask"):
            asking: Rule | None = None
            for rule in self._rules[effect]:
                found = match(rule) if rule.covers(tool, kind) else "no"
                if found == "yes" and effect == "deny":
                    return Finding("refuse", part, _denied(rule, part))
                asking = asking if found == "no" else asking or rule
            if asking is not None:
                may = "may deny this" if effect == "deny" else "wants a person asked"
                return Finding("ask", part, f"the rule {effect} {asking.text} {may}{_in(part)}")
        for rule in self._rules["allow"]:
            covers_all = bool(via) and rule.pattern is None and rule.covers(via, "execute")
            if covers_all or (rule.covers(tool, kind) and match(rule) == "yes"):
                return Finding("allow", part, _allowed(rule))
        return None

    def _restricts(self, *subjects: tuple[str, str]) -> bool:
        rules = (*self._rules["deny"], *self._rules["ask"])
        return any(rule.covers(tool, kind) for rule in rules for tool, kind in subjects)

    # --- commands -------------------------------------------------------------------------------------

    def _judge_command(self, tool: str, kind: ToolKind, command: str) -> Judgement:
        general = self._by_rules(tool, kind, "", _only_without_pattern)
        if general and general.verdict == "refuse":
            return _weighed([general])
        allowed = general if general and general.verdict == "allow" else None
        if self._profile == "full":
            allowed = allowed or Finding("allow", why=by_profile("full"))
        if allowed and not self._restricts((tool, kind), ("write", "edit"), ("read", "read")):
            return _weighed([allowed])
        taken = parse_command(command)
        findings = [self._judge_part(tool, kind, part, taken) for part in taken.parts]
        if general and general.verdict == "ask":
            findings.append(general)
        if not any(isinstance(part, Command) for part in taken.parts):
            findings.append(general or self._by_profile_for_nothing(kind))
        return _weighed(findings, parts=len(taken.parts))

    def _by_profile_for_nothing(self, kind: ToolKind) -> Finding:
        """A command that runs no program: only a profile that refuses all commands objects."""
        found = self._by_profile(kind, "", None)
        return found if found.verdict == "refuse" else Finding("allow", why="it runs no program")

    def _judge_part(self, tool: str, kind: ToolKind, part: Part, taken: ParsedCommand) -> Finding:
        folder = None if taken.folder is None else self._absolute(taken.folder, self._cwd)
        if isinstance(part, Unparsed):
            return self._judge_unclear(tool, kind, part)
        if isinstance(part, Command):
            return self._judge_program(tool, kind, part, folder)
        writes = isinstance(part, FileWrite)
        if folder is None and not Path(part.path).is_absolute():
            return self._judge_unclear(tool, kind, Unparsed("in which folder is uncertain", part.source))
        path = self._absolute(part.path, folder or self._cwd)
        name, about = ("write", "edit") if writes else ("read", "read")
        found = self._by_rules(
            name, about, part.source, lambda rule: matches_path(rule, path, self._cwd), tool
        )
        return found or self._judge_path(name, "edit" if writes else "read", path, part.source)

    def _judge_unclear(self, tool: str, kind: ToolKind, part: Unparsed) -> Finding:
        rules = (rule for effect in EFFECTS for rule in self._rules[effect])
        is_wanted = any(rule.pattern is None and rule.covers(tool, kind) for rule in rules)
        if self._profile == "read-only" and not is_wanted:
            return self._by_profile(kind, part.source, None)
        return Finding(
            "ask", part.source, f"a person must look at this, because {part.why}{_in(part.source)}"
        )

    def _judge_program(self, tool: str, kind: ToolKind, part: Command, folder: Path | None) -> Finding:
        found = self._by_rules(
            tool, kind, part.source, lambda rule: matches_command(rule, part.words, part.assignments)
        )
        if found and found.verdict != "allow":
            return found
        looks = is_read_only(part.words)
        if looks and (kept := self._kept_from(part, folder)):
            return kept
        if found or part.only_restricts:
            return found or Finding("allow", part.source)
        if self._profile == "full":
            return self._by_profile(kind, part.source, part)
        if part.words[0] == "cd" and self._looking:
            return self._judge_move(part)
        if looks and tool == "bash" and self._looking and not part.assignments:
            if is_git(part.words) and not is_in_repository_of(self._cwd, folder):
                return Finding("ask", part.source, _other_repository(part), part)
            return Finding("allow", part.source, f"{by_profile(self._profile)}, it only looks")
        return self._by_profile(kind, part.source, part)

    def _judge_move(self, part: Command) -> Finding:
        target = part.words[1] if len(part.words) == 2 else None
        if target and not target.startswith("-"):
            path = self._absolute(target, self._cwd).resolve()
            if path.is_relative_to(self._cwd.resolve()):
                return Finding("allow", part.source, by_profile(self._profile))
        why = f"permissions are {self._profile}: {part.source} leaves the working directory"
        return Finding("ask", part.source, why, part)

    def _kept_from(self, part: Command, folder: Path | None) -> Finding | None:
        """What only looks is held to the rules about reading, as far as the words can be paths."""
        if not self._restricts(("read", "read")):
            return None
        for word in _possible_paths(may_read(part.words)):
            path = None if word is None or folder is None else self._absolute(word, folder)
            match = _unknown_path if path is None else _path_matcher(path, self._cwd)
            found = self._by_rules("read", "read", part.source, match)
            if found and found.verdict != "allow":
                return found
        return None


def _weighed(findings: Sequence[Finding], parts: int = 1) -> Judgement:
    verdict: Verdict = max((one.verdict for one in findings), key=_SEVERITY.__getitem__, default="allow")
    heavy = tuple(dict.fromkeys(one for one in findings if one.verdict == verdict))
    return Judgement(verdict, heavy, is_whole=parts <= 1)


def _possible_paths(words: Iterable[str | None]) -> Iterator[str | None]:
    for word in words:
        if word is None or not word.startswith("-"):
            yield word
        elif "=" in word:
            yield word.partition("=")[2]
        elif len(word) > 2 and not word.startswith("--"):
            yield word[2:]


def _path_matcher(path: Path, cwd: Path) -> Callable[[Rule], Match]:
    return lambda rule: matches_path(rule, path, cwd)


def _unknown_path(rule: Rule) -> Match:
    return "yes" if rule.pattern is None else "maybe"


def _without_subject(rule: Rule) -> Match:
    """For a call that no pattern can be about: what restricts may be meant all the same."""
    return "yes" if rule.pattern is None else "maybe" if rule.restricts else "no"


def _only_without_pattern(rule: Rule) -> Match:
    return "yes" if rule.pattern is None else "no"


def _allowed(rule: Rule) -> str:
    return f"rule {rule.text} {rule.origin}".rstrip()


def _denied(rule: Rule, part: str) -> str:
    origin = f" ({rule.origin})" if rule.origin else ""
    return f"the rule deny {rule.text}{origin} forbids this{_in(part)}; work without it"


def _in(part: str) -> str:
    return f": {preview_line(part)}" if part else ""


def _other_repository(part: Command) -> str:
    return f"which repository git would work in is uncertain{_in(part.source)}"


Scope = Literal["session", "project", "user"]
SCOPES: tuple[Scope, ...] = ("session", "project", "user")

_WITH_SUBCOMMANDS = word_set(
    "apt brew bun bundle cargo composer deno docker dotnet gh git go gradle helm kubectl make mvn npm pip "
    "pip3 pnpm poetry rails rake ruff terraform tox uv yarn"
)

_WITH_SCRIPTS = frozenset({"npm", "pnpm", "yarn", "bun", "uv", "poetry"})
"""What stands behind their `run` is what matters."""


class RuleBases(msgspec.Struct, frozen=True):
    """Where the relative paths of each scope's rules begin."""

    cwd: Path
    project: Path


def suggest_rules(tool: str, judgement: Judgement, places: RuleBases) -> dict[Scope, tuple[str, ...]]:
    """For each scope the rules that would allow all that is asked about; empty where rules cannot."""
    rules: dict[Scope, tuple[str, ...]] = {}
    for scope in SCOPES:
        texts = [_rule(tool, finding, scope, places) for finding in judgement.findings]
        known = [text for text in texts if text]
        if not known or len(known) < len(texts):
            return {}
        rules[scope] = tuple(dict.fromkeys(known))
    return rules


def _rule(tool: str, finding: Finding, scope: Scope, places: RuleBases) -> str:
    match finding.subject:
        case Command() as command:
            pattern = _words(command)
            return f"{tool}({pattern})" if pattern else ""
        case Path() as path:
            return f"edit({_path(path, finding, scope, places)})"
        case str() as name if name != tool:
            return f"{tool}({name})"
        case str() as name:
            return name
    return ""


def _words(command: Command) -> str:
    """The program with its subcommand where there is one, else exactly this command."""
    words = command.words
    name = words[0]
    if name in _WITH_SUBCOMMANDS and not command.assignments and len(words) > 1:
        length = 3 if name in _WITH_SCRIPTS and words[1] == "run" else 2
        beginning = [word for word in words[:length] if word is not None and not word.startswith("-")]
        if len(beginning) == length:
            return command_pattern(beginning, exact=False)
    known = [word for word in words if word is not None]
    if len(known) < len(words):
        return ""
    return command_pattern([*command.assignments, *known], exact=True)


def _path(path: Path, finding: Finding, scope: Scope, places: RuleBases) -> str:
    """The folder of a file that a tool changes, or one file for a redirection and outside of the folder."""
    real = path.resolve()
    base = {"session": places.cwd, "project": places.project, "user": None}[scope]
    folder = places.cwd.resolve()
    is_below = real.parent != folder and real.is_relative_to(folder) and not finding.part
    target = real.parent if is_below else real
    root = base.resolve() if base else None
    if root is None or not target.is_relative_to(root) or target == root:
        text = escaped_path(target)
    else:
        relative = escaped_path(target.relative_to(root))
        text = relative if "/" in relative or is_below else f"./{relative}"
    return f"{text}/**" if is_below else text
