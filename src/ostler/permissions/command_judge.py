"""The verdict on a shell command: part by part if it is plain, else as one text.

A plain command is allowed only if every part is: by a rule, or because it is harmless. A command that is not
plain is allowed only by a rule for the whole tool or for exactly this text, or by the profile.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from glob import iglob
from itertools import islice
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from ostler.core.tool import ToolKind
from ostler.permissions.git_repository import repository_of, repository_problem
from ostler.permissions.harmless import Harmless, NotHarmless, check_harmless, shadow_of
from ostler.permissions.judge import Finding, Judgement, in_part, weighed
from ostler.permissions.offers import ProgramUse, WholeText
from ostler.permissions.plain_shell import (
    BUILTINS,
    NotPlain,
    PlainCommand,
    PlainPart,
    Redirection,
    read_plain,
)
from ostler.permissions.protected import contains_keys
from ostler.permissions.rules import (
    Effect,
    Match,
    Profile,
    Rule,
    by_profile,
    matches_command,
    matches_text,
    mentions,
)
from ostler.permissions.wrappers import is_wrapper

if TYPE_CHECKING:
    from ostler.permissions.judge import Judge

_MOVES = ("cd", "chdir", "pushd", "popd")
_MAX_MATCHES = 500
_SEARCHES = ("grep", "egrep", "fgrep", "rg", "diff")
"""Programs that may read every file below a folder."""
_OTHER_IN_EACH_PROCESS = re.compile(r"/+(?:dev/+(?:fd|std|tty|tcp|udp)|proc/+(?:self|thread-self))")
_FIRST_WORDS = re.compile(
    r"(?:\A|[;&|(){`\n!])\s*(?:(?:then|do|else|elif|if|while|until|time)\s+)*(?:\w+=\S*\s+)*"
    r"([\w./+-]+)((?:[ \t]+[\w./+=-]+)*)"
)
"""Where programs stand in a text that is not plain, as far as that can be guessed."""

_FILES = (("write", "edit"), ("read", "read"))


class CommandJudge:
    """Judges one command of a tool."""

    def __init__(
        self,
        judge: Judge,
        profile: Profile,
        rules: dict[Effect, list[Rule]],
        cwd: Path,
        tool: str,
        kind: ToolKind,
    ) -> None:
        self._judge = judge
        self._profile = profile
        self._rules = rules
        self._cwd = cwd
        self._tool = tool
        self._kind = kind
        self._text = ""
        self._uncertain: dict[str, str] = {}
        """What is uncertain about each program of a command, which stays in one folder."""
        self._accepts_harmless = profile in ("ask", "edit") and tool == "bash"

    def judge(self, command: str) -> Judgement:
        self._text = command.strip()
        general = self._by_rules("", lambda rule: "yes" if rule.pattern is None else "no")
        if general and general.verdict == "refuse":
            return weighed([general])
        allowed = self._allowed_as_whole(command, general)
        if allowed and not self._judge.restricts((self._tool, self._kind), *_FILES):
            return weighed([allowed])
        asked = [general] if general and general.verdict == "ask" else []
        plain = read_plain(command)
        checks: list[Harmless | NotHarmless] = []
        if isinstance(plain, PlainCommand):
            checks = [check_harmless(part.words, part.globs) for part in plain.parts]
            if plain.uses_home and (changing := _changes_shell(plain, checks)):
                plain = NotPlain("what ~ stands for may change", changing)
        if isinstance(plain, NotPlain):
            finding = self._judge_text(command, plain, allowed)
            return msgspec.structs.replace(weighed([finding, *asked]), is_whole=False)
        if not plain.parts:
            nothing = allowed or self._judge.by_profile(self._kind, "", None)
            if nothing.verdict == "ask":
                nothing = Finding("allow", why="it runs no program", harmless=True)
            return weighed([nothing, *asked])
        findings = list(self._judge_parts(plain, checks, allowed))
        return weighed([*findings, *asked], parts=len(plain.parts))

    def _by_rules(self, part: str, match: Callable[[Rule], Match]) -> Finding | None:
        return self._judge.by_rules(self._tool, self._kind, part, match)

    def _allowed_as_whole(self, command: str, general: Finding | None) -> Finding | None:
        """What allows the command whatever its words are, if no rule restricts it."""
        if general and general.verdict == "allow":
            return general
        for rule in self._rules["allow"]:
            if rule.covers(self._tool, self._kind) and matches_text(rule, command):
                return Finding("allow", why=f"rule {rule.text} {rule.origin}".rstrip())
        return Finding("allow", why=by_profile("full")) if self._profile == "full" else None

    def _denies_commands(self) -> Rule | None:
        """A rule that denies commands by their words."""
        covering = (rule for rule in self._rules["deny"] if rule.covers(self._tool, self._kind))
        return next((rule for rule in covering if rule.pattern is not None), None)

    # --- not plain -------------------------------------------------------------------------------------

    def _judge_text(self, command: str, plain: NotPlain, allowed: Finding | None) -> Finding:
        for effect in ("deny", "ask"):
            for rule in self._rules[effect]:
                is_about_files = any(rule.covers(tool, kind) for tool, kind in _FILES)
                if not is_about_files and not rule.covers(self._tool, self._kind):
                    continue
                if effect == "deny" and not is_about_files and matches_text(rule, command):
                    return Finding("refuse", "", f"the rule deny {rule.text} forbids this; work without it")
                if mentions(rule, command):
                    may = "may deny this" if effect == "deny" else "wants a person asked"
                    return self._unclear(f"the rule {effect} {rule.text} {may}, and ", plain)
        denying = self._denies_commands()
        if denying is not None:
            for match in _FIRST_WORDS.finditer(command):
                words = (match[1], *match[2].split())
                if is_wrapper(words):
                    return self._wrapped(denying, " ".join(words))
        if allowed:
            return allowed
        has_rule = any(
            rule.pattern is None and rule.covers(self._tool, self._kind)
            for rules in self._rules.values()
            for rule in rules
        )
        if self._profile == "read-only" and not has_rule:
            finding = self._judge.by_profile(self._kind, plain.part, None)
            return msgspec.structs.replace(finding, cause=plain.why)
        return msgspec.structs.replace(self._unclear("", plain), subject=WholeText(self._text))

    def _unclear(self, before: str, plain: NotPlain) -> Finding:
        why = f"{before}a person must check this, because {plain.why}{in_part(plain.part)}"
        return Finding("ask", plain.part, why, cause=plain.why)

    def _wrapped(self, denying: Rule, source: str) -> Finding:
        cause = "it runs another program"
        why = f"the rule deny {denying.text} may deny what this runs{in_part(source)}"
        return Finding("ask", source, why, cause=cause)

    # --- plain -----------------------------------------------------------------------------------------

    def _judge_parts(
        self, plain: PlainCommand, checks: list[Harmless | NotHarmless], allowed: Finding | None
    ) -> list[Finding]:
        folder = self._folder(plain)
        changing = _changes_shell(plain, checks)
        findings: list[Finding] = []
        for part, check in zip(plain.parts, checks, strict=True):
            if changing and isinstance(check, Harmless):
                check = NotHarmless(f"{changing.split()[0]} may change what the other words mean")
            findings.append(self._judge_program(part, check, folder, allowed))
            findings += [self._judge_redirection(one, folder, allowed) for one in part.redirections]
        return findings

    def _folder(self, plain: PlainCommand) -> Path | None:
        """The folder that the parts run in; None if it is uncertain."""
        moves = [part for part in plain.parts if part.words[0] in _MOVES]
        if not moves:
            return self._cwd
        first, others = plain.parts[0], plain.parts[1:]
        is_leading = moves == [first] and first.words[0] == "cd" and not first.globs and len(first.words) == 2
        all_depend = all(part.joint in ("&&", "|") for part in others) and (
            not others or others[0].joint == "&&"
        )
        if not is_leading or not all_depend or "CDPATH" in os.environ or first.words[1].startswith("-"):
            return None
        target = self._cwd / first.words[1]
        real = target.resolve()
        # The shell follows `..` by name, and programs by folder: they agree where no link is in between.
        return real if real == Path(normpath(target)).resolve() else None

    def _judge_program(
        self, part: PlainPart, check: Harmless | NotHarmless, folder: Path | None, allowed: Finding | None
    ) -> Finding:
        source = part.source
        finding = self._by_rules(source, partial(matches_command, words=part.known_words))
        if finding and finding.verdict != "allow":
            return finding
        denying = self._denies_commands()
        if denying is not None and is_wrapper(part.known_words):
            return self._wrapped(denying, source)
        if isinstance(check, Harmless) and (denied := self._restricted_reads(check, folder, source)):
            return denied
        if allowed := allowed or finding:
            return allowed
        listed = check.name if isinstance(check, Harmless) else ""
        # No rule describes by its words what depends on the files that are there.
        is_text = bool(part.globs) and not listed
        subject = WholeText(self._text) if is_text else ProgramUse(part, listed)
        asked = self._judge.by_profile(self._kind, source, subject)
        if part.words[0] == "cd":
            return self._judge_move(part, folder, asked)
        if isinstance(check, NotHarmless):
            return msgspec.structs.replace(asked, cause=check.cause)
        rule = self._rule_for_listed(check)
        if rule is None and not self._accepts_harmless:
            return asked
        if folder is None and (check.paths or check.globs):
            return msgspec.structs.replace(
                asked, subject=None, cause="it is uncertain which folder it runs in"
            )
        if rule is None and (problem := self._uncertainty(check, folder)):
            return msgspec.structs.replace(asked, cause=problem)
        if unread := self._judge_reads(check, folder or self._cwd, asked, by_rule=rule is not None):
            return unread
        if rule is not None:
            return Finding("allow", source, f"rule {rule.text} {rule.origin}".rstrip())
        return Finding("allow", source, f"{by_profile(self._profile)}, it only reads", harmless=True)

    def _rule_for_listed(self, check: Harmless) -> Rule | None:
        """The rule that allows this listed program with its listed options."""
        for rule in self._rules["allow"]:
            is_same = rule.form == "~" and rule.pattern == check.name
            if is_same and rule.covers(self._tool, self._kind):
                return rule
        return None

    def _judge_move(self, part: PlainPart, folder: Path | None, asked: Finding) -> Finding:
        if self._profile in ("read-only", "full") or self._tool != "bash":
            return asked
        if folder is not None and folder.is_relative_to(self._cwd):
            return Finding("allow", part.source, by_profile(self._profile), harmless=True)
        why = f"permissions are {self._profile}: {part.source} leaves the working directory"
        if folder is None:
            why = f"permissions are {self._profile}: it is uncertain where {part.source} leads"
        return msgspec.structs.replace(asked, why=why, cause="only a leading cd FOLDER && is followed")

    def _uncertainty(self, check: Harmless, folder: Path | None) -> str:
        """Why a harmless command may still be another one, or read something else, than it seems."""
        if (name := check.name) not in self._uncertain:
            problem = shadow_of(name, self._cwd)
            if not problem and name.startswith("git ") and name != "git --version":
                problem = self._repository_problem(folder)
            self._uncertain[name] = problem
        return self._uncertain[name]

    def _repository_problem(self, folder: Path | None) -> str:
        root = repository_of(folder.resolve()) if folder else None
        if root is None or root != repository_of(self._cwd):
            return "it is uncertain which repository git would use"
        return repository_problem(root)

    def _restricted_reads(self, check: Harmless, folder: Path | None, source: str) -> Finding | None:
        """Applies the rules that ask about or deny reading, whatever allows the command."""
        if not self._judge.restricts(("read", "read")):
            return None
        paths: list[Path | None] = [None if folder is None else folder / path for path in check.paths]
        for glob in check.globs:
            paths += [*((folder and self._matching(glob, folder)) or ()), None]
        for path in paths:
            if finding := self._judge.restricted_file("read", path, source):
                return finding
        return None

    def _judge_reads(self, check: Harmless, folder: Path, asked: Finding, *, by_rule: bool) -> Finding | None:
        """The first operand that may not be read; None if all may. A rule for the listed program allows what
        only the profile asks about."""
        paths = [folder / path for path in check.paths]
        for glob in check.globs:
            matching = self._matching(glob, folder)
            if matching is None:
                return msgspec.structs.replace(
                    asked, subject=None, cause=f"{glob} may stand for too many files"
                )
            paths += (folder / glob, *matching)
        for path in paths:
            if _OTHER_IN_EACH_PROCESS.match(normpath(path)):
                return msgspec.structs.replace(
                    asked, subject=None, cause=f"{path} is different in each process"
                )
            finding = self._judge.judge_file("read", path, asked.part)
            is_by_profile = finding.why.startswith("permissions are ")
            if finding.verdict == "allow" or (by_rule and is_by_profile):
                continue
            subject = asked.subject if is_by_profile else finding.subject
            return msgspec.structs.replace(finding, subject=subject, cause=f"it reads {path}")
        if check.name in _SEARCHES and any(contains_keys(path.resolve()) for path in (folder, *paths)):
            cause = "it may search the folder with the keys of your providers"
            return msgspec.structs.replace(asked, subject=None, cause=cause)
        return None

    def _matching(self, glob: str, where: Path) -> list[Path] | None:
        """The files that a pattern stands for now; None if they are too many to be judged."""
        folders = glob.split("/")
        if sum("*" in one or "?" in one for one in folders) > 2 or "**" in folders:
            return None
        # Unlike `Path.glob`, it skips hidden files as the shell does.
        names = list(islice(iglob(glob, root_dir=where), _MAX_MATCHES + 1))  # noqa: PTH207
        return None if len(names) > _MAX_MATCHES else [where / name for name in names]

    def _judge_redirection(
        self, redirection: Redirection, folder: Path | None, allowed: Finding | None
    ) -> Finding:
        source = redirection.source
        kind: Literal["read", "edit"] = "edit" if redirection.writes else "read"
        is_known = folder is not None or redirection.path.startswith("/")
        path = (folder or self._cwd) / redirection.path if is_known else None
        if finding := self._judge.restricted_file(kind, path, source):
            return finding
        if allowed:
            return allowed
        if path is None:
            return self._unclear("", NotPlain("its folder is uncertain", source))
        if not redirection.writes and _OTHER_IN_EACH_PROCESS.match(normpath(path)):
            return self._unclear("", NotPlain("it is different in each process", source))
        finding = self._judge.judge_file(kind, path, source, self._tool)
        is_read = not redirection.writes and finding.verdict == "allow" and finding.why.startswith("profile ")
        return msgspec.structs.replace(finding, harmless=is_read)


def _changes_shell(plain: PlainCommand, checks: list[Harmless | NotHarmless]) -> str:
    """The part that may change what other parts mean; empty if there is none."""
    for part, check in zip(plain.parts, checks, strict=True):
        if part.words[0] in BUILTINS and part.words[0] not in _MOVES and isinstance(check, NotHarmless):
            return part.source
    return ""
