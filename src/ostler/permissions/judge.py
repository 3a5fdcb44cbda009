"""`Judge`: decides on a call by rules (deny, then ask, then allow), then by the profile; and suggests rules.

A command is judged part by part: it is allowed only if every part is, and denied if any part is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from os.path import normpath
from pathlib import Path
from typing import Any, Literal

import msgspec

from ostler.core.tool import ToolKind
from ostler.permissions.known_programs import is_read_only, may_read
from ostler.permissions.protected import contains_keys, is_key_file, protected_reason
from ostler.permissions.rules import (
    EFFECTS,
    Effect,
    Forms,
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
    names_one_path,
    preview_line,
    reason,
)
from ostler.permissions.shell_parser import parse_command
from ostler.permissions.shell_words import Command, FileWrite, ParsedCommand, Part, Unparsed, word_set
from ostler.store.paths import project_folder

_SEARCHES = word_set("grep egrep fgrep rg diff")
"""Programs that may read every file below a folder."""
_SEVERITY: dict[Verdict, int] = {"allow": 0, "ask": 1, "refuse": 2}
_PATHS = ("path", "file_path")


class Finding(msgspec.Struct, frozen=True):
    """The verdict on one part of a call."""

    verdict: Verdict
    part: str = ""
    """The part, verbatim; empty for the call itself."""
    why: str = ""
    subject: Command | Path | str | None = None
    """What a rule that allows it would name; None if no rule can."""
    harmless: bool = False
    """It is allowed only because it was judged harmless: not by a rule, and it writes nothing."""
    access: Literal["", "edit", "read"] = ""
    """For a protected path, which only a rule for exactly this path can allow: what the rule would allow."""


class Judgement(msgspec.Struct, frozen=True):
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    """The findings with this verdict."""
    is_whole: bool = True
    """The findings are about the whole call, not about parts of it."""
    path: str = ""
    """The resolved path that was judged: the tool must use this one."""

    @property
    def is_harmless(self) -> bool:
        """Every part is allowed only because it was judged harmless."""
        return self.verdict == "allow" and bool(self.findings) and all(one.harmless for one in self.findings)

    @property
    def reason(self) -> str:
        return "; ".join(dict.fromkeys(one.why for one in self.findings if one.why))


class JudgedPath(msgspec.Struct, frozen=True):
    """A path as given, made absolute; and without links. It is resolved once: a link may change."""

    given: Path
    real: Path

    @classmethod
    def of(cls, path: Path) -> JudgedPath:
        return cls(path, path.resolve())

    def protected(self, *, writes: bool) -> str:
        """Why it is protected, by its real or its given name."""
        given = Path(normpath(self.given))
        return protected_reason(self.real, writes=writes) or (
            protected_reason(given, writes=writes) if given != self.real else ""
        )


class Judge:
    """Judges the calls of one working directory by a profile and rules.

    With `allow_reads`, commands that only read need neither a rule nor a person.
    """

    def __init__(
        self,
        profile: Profile,
        rules: Iterable[Rule],
        cwd: Path,
        *,
        allow_reads: bool = True,
        readable: Sequence[Path] = (),
    ) -> None:
        self._profile = profile
        self._allow_reads = allow_reads and profile != "read-only"
        self._cwd = cwd
        self._readable = readable
        self._forms: Forms = {}
        self._rules: dict[Effect, list[Rule]] = {effect: [] for effect in EFFECTS}
        for rule in rules:
            self._rules[rule.effect].append(rule)

    def judge(self, tool: str, kind: ToolKind, arguments: dict[str, Any]) -> Judgement:
        command = arguments.get("command")
        try:
            if kind == "execute" and isinstance(command, str):
                return self._judge_command(tool, kind, command)
            if kind not in ("read", "search", "edit"):
                return _weighed([self._judge_call(tool, kind, arguments)])
            path = self._path(kind, arguments)
            judged = _weighed([self._judge_path(tool, kind, path, "")])
            return judged if path is None else msgspec.structs.replace(judged, path=str(path.real))
        except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a name too long or with NUL
            return _weighed([Finding("refuse", why=f"a path cannot be resolved ({error})")])

    def _judge_call(self, tool: str, kind: ToolKind, arguments: dict[str, Any]) -> Finding:
        """Judges a call that names a URL, or nothing."""
        if kind == "fetch":
            url = arguments.get("url")
            host = host_of(url) if isinstance(url, str) else None
            finding = self._by_rules(tool, kind, "", lambda rule: matches_host(rule, host))
            return finding or self._by_profile(kind, "", host or None)
        return self._by_rules(tool, kind, "", _without_subject) or self._by_profile(kind, "", tool)

    def _path(self, kind: ToolKind, arguments: dict[str, Any]) -> JudgedPath | None:
        default = None if kind == "edit" else "."
        path = next((arguments[name] for name in _PATHS if isinstance(arguments.get(name), str)), default)
        if path is None or path.startswith("blob:") or "\0" in path:
            return None
        return JudgedPath.of(self._absolute(path, self._cwd))

    def _absolute(self, path: str, folder: Path) -> Path:
        try:
            return folder / Path(path).expanduser()
        except RuntimeError:  # there is no such user; the tool reports that
            return folder / path

    def _judge_path(self, tool: str, kind: ToolKind, path: JudgedPath | None, part: str) -> Finding:
        if path is None:
            return self._by_rules(tool, kind, part, _without_subject) or self._by_profile(kind, part, tool)
        writes = kind == "edit"
        protected = "" if self._profile == "full" else path.protected(writes=writes)
        if finding := self._by_rules(tool, kind, part, self._path_matcher(path, exactly=bool(protected))):
            return finding
        by_profile = self._by_profile(kind, part, path.given)
        if by_profile.verdict == "refuse" or self._profile == "full":
            return by_profile
        if protected:
            if not writes and not part and is_key_file(path.real):
                why = f"{path.given} contains the keys of your providers, and no tool reads it"
                return Finding("refuse", part, why)
            return Finding("ask", part, protected, path.given, access="edit" if writes else "read")
        if problem := self._outside(path, writes=writes):
            return Finding("ask", part, problem, path.given, access="" if writes else "read")
        return by_profile

    def _path_matcher(self, path: JudgedPath, *, exactly: bool = False) -> Callable[[Rule], Match]:
        """With `exactly`, a rule that allows must name the path itself, without any wildcard."""

        def match(rule: Rule) -> Match:
            if exactly and not rule.restricts and not names_one_path(rule):
                return "no"
            return matches_path(rule, path.given, self._cwd, path.real, self._forms)

        return match

    def _outside(self, path: JudgedPath, *, writes: bool) -> str:
        """Why it is asked about: `edit` changes, and `ask` reads, only what is in the workspace."""
        if self._profile != ("edit" if writes else "ask"):
            return ""
        folders = (self._cwd,) if writes else (self._cwd, project_folder(self._cwd), *self._readable)
        if any(path.real.is_relative_to(folder) for folder in folders):
            return ""
        return f"permissions are {self._profile}: {path.given} is outside the working directory"

    def hides(self, path: Path) -> bool:
        """Whether a search skips the file at this resolved path: it would be asked about, or denied."""
        judged = JudgedPath(path, path)
        protected = "" if self._profile == "full" else protected_reason(path, writes=False)
        finding = self._by_rules("read", "read", "", self._path_matcher(judged, exactly=bool(protected)))
        return bool(protected) if finding is None else finding.verdict != "allow"

    def denial(self, path: Path) -> str:
        """The deny rule that forbids reading the file at this resolved path; empty if none does."""
        finding = self._by_rules("read", "read", "", self._path_matcher(JudgedPath(path, path)))
        return finding.why if finding and finding.verdict == "refuse" else ""

    def _by_profile(self, kind: ToolKind, part: str, subject: Command | Path | str | None) -> Finding:
        why = reason(self._profile, kind) or by_profile(self._profile)
        return Finding(judge(self._profile, kind), part, why, subject)

    def _by_rules(
        self, tool: str, kind: str, part: str, match: Callable[[Rule], Match], via: str = ""
    ) -> Finding | None:
        """The rules' verdict, if one applies. A rule that allows the whole tool `via` allows this too."""
        for effect in ("deny", "ask"):
            asking: Rule | None = None
            for rule in self._rules[effect]:
                matches = match(rule) if rule.covers(tool, kind) else "no"
                if matches == "yes" and effect == "deny":
                    return _denied(rule, part)
                asking = asking if matches == "no" else asking or rule
            if asking is not None:
                may = "may deny this" if effect == "deny" else "wants a person asked"
                return Finding("ask", part, f"the rule {effect} {asking.text} {may}{_in(part)}")
        for rule in self._rules["allow"]:
            covers_all = bool(via) and rule.pattern is None and rule.covers(via, "execute")
            if covers_all or (rule.covers(tool, kind) and match(rule) == "yes"):
                return Finding("allow", part, f"rule {rule.text} {rule.origin}".rstrip())
        return None

    def _restricts(self, *subjects: tuple[str, str]) -> bool:
        rules = (*self._rules["deny"], *self._rules["ask"])
        return any(rule.covers(tool, kind) for rule in rules for tool, kind in subjects)

    def _judge_command(self, tool: str, kind: ToolKind, command: str) -> Judgement:
        general = self._by_rules(tool, kind, "", lambda rule: "yes" if rule.pattern is None else "no")
        if general and general.verdict == "refuse":
            return _weighed([general])
        allowed = general if general and general.verdict == "allow" else None
        if self._profile == "full":
            allowed = allowed or Finding("allow", why=by_profile("full"))
        if allowed and not self._restricts((tool, kind), ("write", "edit"), ("read", "read")):
            return _weighed([allowed])
        parsed = parse_command(command)
        findings = [self._judge_part(tool, kind, part, parsed) for part in parsed.parts]
        if general and general.verdict == "ask":
            findings.append(general)
        if not any(isinstance(part, Command) for part in parsed.parts):
            finding = general or self._by_profile(kind, "", None)
            # Only a profile that refuses all commands refuses one that runs no program.
            is_needed = general or finding.verdict == "refuse"
            nothing = Finding("allow", why="it runs no program", harmless=True)
            findings.append(finding if is_needed else nothing)
        return _weighed(findings, parts=len(parsed.parts))

    def _judge_part(self, tool: str, kind: ToolKind, part: Part, parsed: ParsedCommand) -> Finding:
        folder = None if parsed.folder is None else self._absolute(parsed.folder, self._cwd)
        if isinstance(part, Unparsed):
            return self._judge_unclear(tool, kind, part)
        if isinstance(part, Command):
            return self._judge_program(tool, kind, part, folder)
        writes = isinstance(part, FileWrite)
        if folder is None and not Path(part.path).is_absolute():
            return self._judge_unclear(tool, kind, Unparsed("its folder is uncertain", part.source))
        path = JudgedPath.of(self._absolute(part.path, folder or self._cwd))
        name: str = "write" if writes else "read"
        file_kind: ToolKind = "edit" if writes else "read"
        finding = self._by_rules(name, file_kind, part.source, self._path_matcher(path), tool)
        if finding is None:
            finding = self._judge_path(name, file_kind, path, part.source)
            if not writes or str(path) == os.devnull:
                return msgspec.structs.replace(finding, harmless=True)
        return finding

    def _judge_unclear(self, tool: str, kind: ToolKind, part: Unparsed) -> Finding:
        rules = (rule for effect in EFFECTS for rule in self._rules[effect])
        has_rule = any(rule.pattern is None and rule.covers(tool, kind) for rule in rules)
        if self._profile == "read-only" and not has_rule:
            return self._by_profile(kind, part.source, None)
        why = f"a person must check this, because {part.why}{_in(part.source)}"
        return Finding("ask", part.source, why)

    def _judge_program(self, tool: str, kind: ToolKind, part: Command, folder: Path | None) -> Finding:
        words, matches = part.words, partial(matches_command, words=part.words, assignments=part.assignments)
        finding = self._by_rules(tool, kind, part.source, matches)
        if finding and finding.verdict != "allow":
            return finding
        only_reads = is_read_only(words)
        if only_reads and (denied := self._judge_reads(part, folder)):
            return denied
        if finding or part.only_restricts:
            return finding or Finding("allow", part.source, harmless=True)
        if self._profile == "full":
            return self._by_profile(kind, part.source, part)
        if words[0] == "cd" and self._allow_reads:
            return self._judge_move(part)
        if only_reads and tool == "bash" and self._allow_reads and not part.assignments:
            if words[0] == "git" and not self._is_in_same_repository(folder):
                why = f"it is uncertain which repository git would use{_in(part.source)}"
                return Finding("ask", part.source, why, part)
            return Finding("allow", part.source, f"{by_profile(self._profile)}, it only reads", harmless=True)
        return self._by_profile(kind, part.source, part)

    def _is_in_same_repository(self, folder: Path | None) -> bool:
        """Whether git would use the working directory's repository in that folder."""
        if folder is None:
            return False
        repository = _repository(folder.resolve())
        return repository is not None and repository == _repository(self._cwd.resolve())

    def _judge_move(self, part: Command) -> Finding:
        target = part.words[1] if len(part.words) == 2 else None
        if target and not target.startswith("-"):
            path = self._absolute(target, self._cwd).resolve()
            if path.is_relative_to(self._cwd.resolve()):
                return Finding("allow", part.source, by_profile(self._profile), harmless=True)
        why = f"permissions are {self._profile}: {part.source} leaves the working directory"
        return Finding("ask", part.source, why, part)

    def _judge_reads(self, part: Command, folder: Path | None) -> Finding | None:
        """Applies what restricts reading to every word that may be a path."""
        searched = [folder] if folder and part.words[0] in _SEARCHES else []
        for word in _possible_paths(may_read(part.words)):
            path = None if word is None or folder is None else JudgedPath.of(self._absolute(word, folder))
            match = _unknown_path if path is None else self._path_matcher(path)
            finding = self._by_rules("read", "read", part.source, match)
            if finding and finding.verdict != "allow":
                return finding
            if path is not None and part.words[0] in _SEARCHES:
                searched.append(path.real)
            if path is None or self._profile == "full":
                continue
            found = self._judge_path("read", "read", path, part.source)
            if found.verdict != "allow":
                return found
        if self._profile != "full" and any(contains_keys(one.resolve()) for one in searched):
            why = f"it may search the folder with the keys of your providers{_in(part.source)}"
            return Finding("ask", part.source, why, part)
        return None


def _repository(folder: Path) -> Path | None:
    for one in (folder, *folder.parents):
        if (one / ".git").exists():
            return one
        if (one / "HEAD").exists():  # git uses such a folder as a bare repository
            return None
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


def _unknown_path(rule: Rule) -> Match:
    return "yes" if rule.pattern is None else "maybe"


def _without_subject(rule: Rule) -> Match:
    """For a call without anything that a pattern could match: a rule that restricts may still apply."""
    return "yes" if rule.pattern is None else "maybe" if rule.restricts else "no"


def _denied(rule: Rule, part: str) -> Finding:
    origin = f" ({rule.origin})" if rule.origin else ""
    return Finding(
        "refuse", part, f"the rule deny {rule.text}{origin} forbids this{_in(part)}; work without it"
    )


def _in(part: str) -> str:
    return f": {preview_line(part)}" if part else ""


Scope = Literal["session", "project", "user"]
_WITH_SUBCOMMANDS = word_set(
    "apt brew bun bundle cargo composer deno docker dotnet gh git go gradle helm kubectl make mvn npm pip "
    "pip3 pnpm poetry rails rake ruff terraform tox uv yarn"
)

_WITH_SCRIPTS = frozenset({"npm", "pnpm", "yarn", "bun", "uv", "poetry"})
"""For these, the word after `run` is the subcommand."""


def suggest_rules(tool: str, judgement: Judgement, cwd: Path, project: Path) -> dict[Scope, tuple[str, ...]]:
    """For each scope, the rules that would allow everything that is asked about; empty if rules cannot."""
    bases: dict[Scope, Path | None] = {"session": cwd, "project": project, "user": None}
    suggested: dict[Scope, tuple[str, ...]] = {}
    for scope, base in bases.items():
        rules = [_rule(tool, finding, cwd, base) for finding in judgement.findings]
        if not rules or not all(rules):
            return {}
        suggested[scope] = tuple(dict.fromkeys(rules))
    return suggested


def _rule(tool: str, finding: Finding, cwd: Path, base: Path | None) -> str:
    """The rule that would allow a part; a relative path in it begins at `base`."""
    match finding.subject:
        case Command() as command:
            pattern = _words(command)
            return f"{tool}({pattern})" if pattern else ""
        case Path() as path:
            return f"{finding.access or 'edit'}({_path(path, finding, cwd, base)})"
        case str() as name:
            return name if name == tool else f"{tool}({name})"
    return ""


def _words(command: Command) -> str:
    """The program with its subcommand if it has one, else exactly this command."""
    words = command.words
    name = words[0]
    if name in _WITH_SUBCOMMANDS and not command.assignments and len(words) > 1:
        length = 3 if name in _WITH_SCRIPTS and words[1] == "run" else 2
        beginning = [word for word in words[:length] if word is not None and not word.startswith("-")]
        if len(beginning) == length:
            return command_pattern(beginning, exact=False)
    literal = [word for word in words if word is not None]
    if len(literal) < len(words):
        return ""
    return command_pattern([*command.assignments, *literal], exact=True)


def _path(path: Path, finding: Finding, cwd: Path, base: Path | None) -> str:
    """The folder of a file that a tool changes; only the file for a redirection, or outside `cwd`."""
    real, folder = path.resolve(), cwd.resolve()
    is_below = real.parent != folder and real.is_relative_to(folder) and not finding.part
    is_below = is_below and not finding.access
    target = real.parent if is_below else real
    root = base.resolve() if base else None
    if root is None or not target.is_relative_to(root) or target == root:
        text = escaped_path(target)
    else:
        relative = escaped_path(target.relative_to(root))
        text = relative if "/" in relative or is_below else f"./{relative}"
    return f"{text}/**" if is_below else text
