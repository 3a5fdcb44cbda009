"""`Judge`: decides on a call by rules (deny, then ask, then allow), then by the profile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.core.lazy import lazy_module
from ostler.core.tool import ToolKind
from ostler.permissions.protected import is_key_file, protected_reason
from ostler.permissions.rules import (
    EFFECTS,
    Effect,
    Forms,
    Match,
    Profile,
    Rule,
    Verdict,
    by_profile,
    host_of,
    judge,
    matches_host,
    matches_path,
    names_one_path,
    preview_line,
    reason,
)
from ostler.store.paths import project_folder

if TYPE_CHECKING:
    from ostler.permissions import command_judge
    from ostler.permissions.offers import Subject
else:
    command_judge = lazy_module("ostler.permissions.command_judge")

_SEVERITY: dict[Verdict, int] = {"allow": 0, "ask": 1, "refuse": 2}
_PATHS = ("path", "file_path")


class Finding(msgspec.Struct, frozen=True):
    """The verdict on one part of a call."""

    verdict: Verdict
    part: str = ""
    """The part, verbatim; empty for the call itself."""
    why: str = ""
    subject: Any = None
    """What a rule that allows it would name, a `Subject`; None if no rule can."""
    access: Literal["", "edit", "read"] = ""
    """For a path, what a rule would allow; empty for `edit` of its folder."""
    cause: str = ""
    """What exactly in a command needs a person."""
    harmless: bool = False
    """It is allowed only because it was judged harmless: not by a rule, and it writes nothing."""


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
    """Judges the calls of one working directory by a profile and rules."""

    def __init__(
        self, profile: Profile, rules: Iterable[Rule], cwd: Path, *, readable: Sequence[Path] = ()
    ) -> None:
        self._profile = profile
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
                judge_of_commands = command_judge.CommandJudge(
                    self, self._profile, self._rules, self._cwd, tool, kind
                )
                return judge_of_commands.judge(command)
            if kind not in ("read", "search", "edit"):
                return weighed([self._judge_call(tool, kind, arguments)])
            path = self._path(kind, arguments)
            judged = weighed([self._judge_path(tool, kind, path, "")])
            return judged if path is None else msgspec.structs.replace(judged, path=str(path.real))
        except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a name too long or with NUL
            return weighed([Finding("refuse", why=f"a path cannot be resolved ({error})")])

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

    def _by_profile(self, kind: ToolKind, part: str, subject: Subject) -> Finding:
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
                return Finding("ask", part, f"the rule {effect} {asking.text} {may}{in_part(part)}")
        for rule in self._rules["allow"]:
            covers_all = bool(via) and rule.pattern is None and rule.covers(via, "execute")
            if covers_all or (rule.covers(tool, kind) and match(rule) == "yes"):
                return Finding("allow", part, f"rule {rule.text} {rule.origin}".rstrip())
        return None

    def by_rules(self, tool: str, kind: str, part: str, match: Callable[[Rule], Match]) -> Finding | None:
        """The rules' verdict on a part of a command, if one applies."""
        return self._by_rules(tool, kind, part, match)

    def by_profile(self, kind: ToolKind, part: str, subject: Subject) -> Finding:
        """The profile's verdict on a part of a command."""
        return self._by_profile(kind, part, subject)

    def judge_file(self, kind: Literal["read", "edit"], path: Path, part: str, via: str = "") -> Finding:
        """A file that a command reads or writes, judged like a call of `read` or `write`.

        A rule that allows the whole tool `via` allows this too.
        """
        tool = "write" if kind == "edit" else "read"
        judged = JudgedPath.of(path)
        protected = "" if self._profile == "full" else judged.protected(writes=kind == "edit")
        if via and not protected:
            finding = self._by_rules(tool, kind, part, self._path_matcher(judged), via)
            if finding:
                return finding
        return self._judge_path(tool, kind, judged, part)

    def restricted_file(self, kind: Literal["read", "edit"], path: Path | None, part: str) -> Finding | None:
        """The verdict of the rules that ask or deny; with None for a path that is not known."""
        tool = "write" if kind == "edit" else "read"
        match = _unknown_path if path is None else self._path_matcher(JudgedPath.of(path))
        finding = self._by_rules(tool, kind, part, match)
        return finding if finding and finding.verdict != "allow" else None

    def restricts(self, *subjects: tuple[str, str]) -> bool:
        """Whether a rule asks about or denies calls of one of these tools."""
        rules = (*self._rules["deny"], *self._rules["ask"])
        return any(rule.covers(tool, kind) for rule in rules for tool, kind in subjects)


def weighed(findings: Sequence[Finding], parts: int = 1) -> Judgement:
    """The gravest verdict counts, with its findings."""
    verdict: Verdict = max((one.verdict for one in findings), key=_SEVERITY.__getitem__, default="allow")
    heavy = tuple(dict.fromkeys(one for one in findings if one.verdict == verdict))
    return Judgement(verdict, heavy, is_whole=parts <= 1)


def _unknown_path(rule: Rule) -> Match:
    return "yes" if rule.pattern is None else "maybe"


def _without_subject(rule: Rule) -> Match:
    """For a call without anything that a pattern could match: a rule that restricts may still apply."""
    return "yes" if rule.pattern is None else "maybe" if rule.restricts else "no"


def _denied(rule: Rule, part: str) -> Finding:
    origin = f" ({rule.origin})" if rule.origin else ""
    return Finding(
        "refuse", part, f"the rule deny {rule.text}{origin} forbids this{in_part(part)}; work without it"
    )


def in_part(part: str) -> str:
    return f": {preview_line(part)}" if part else ""
