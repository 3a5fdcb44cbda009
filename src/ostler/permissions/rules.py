"""Permission profiles, and rules: `TOOL` or `TOOL(PATTERN)`, each with the verdict allow, ask or deny.

A sign before the parenthesis makes a rule that questions offer: `bash+(make test)` allows further operands,
`bash~(ls)` a listed program with its listed options, `bash=(TEXT)` exactly this text.

`TOOL` is a tool's name (with `*` as a wildcard) or a kind: `read` covers tools that read or search files,
`edit` those that change them; then `execute`, `fetch`, `agent`, `other`. A pattern matches a path, the words
of a command, or a domain, depending on the call.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from ostler.core.lazy import lazy_module
from ostler.core.tool import ToolKind
from ostler.schema.errors import UsageError
from ostler.store.paths import expand_home

if TYPE_CHECKING:
    import shlex

    from ostler.tools import files
else:
    files = lazy_module("ostler.tools.files")
    shlex = lazy_module("shlex")

Profile = Literal["read-only", "ask", "edit", "full"]
Verdict = Literal["allow", "ask", "refuse"]
PROFILES: tuple[Profile, ...] = ("read-only", "ask", "edit", "full")

_ALWAYS_ALLOWED: frozenset[ToolKind] = frozenset({"read", "search", "ask", "agent"})
"""A question to the person changes nothing. Every call of a child agent is judged in its turn."""

_PREVIEWED = ("command", "path", "file_path", "url", "query", "pattern", "name")
_PREVIEW_LENGTH = 120


def judge(profile: Profile, kind: ToolKind) -> Verdict:
    """Whether a tool of this kind runs, runs after a person said yes, or does not run."""
    if profile == "full" or kind in _ALWAYS_ALLOWED or profile == kind == "edit":
        return "allow"
    return "refuse" if profile == "read-only" else "ask"


def reason(profile: Profile, kind: ToolKind) -> str:
    """Why a call is refused or asked about; empty if it is allowed."""
    verdict = judge(profile, kind)
    if verdict == "allow":
        return ""
    tools = f"permissions are {profile}: tools that {_EFFECTS_OF_KIND.get(kind, 'may change something')}"
    if verdict == "refuse":
        edits = "that with --permissions edit, or " if kind == "edit" else ""
        return f"{tools} are refused; work without them. A person can allow {edits}everything with --yes"
    return f"{tools} need a person's consent (--yes gives it to all)"


_EFFECTS_OF_KIND: dict[str, str] = {
    "edit": "change files",
    "execute": "run commands",
    "fetch": "use the network",
    "agent": "start other agents",
}


def by_profile(profile: Profile) -> str:
    """The reason for a call that no rule covers."""
    return f"profile {profile}"


def preview(name: str, arguments: dict[str, Any] | str) -> str:
    """The main argument of a call, in one line of at most 120 printable characters."""
    return preview_line(_main_argument(name, arguments))


def _main_argument(name: str, arguments: dict[str, Any] | str) -> str:
    if isinstance(arguments, str):
        try:
            decoded = msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            return arguments
        if not isinstance(decoded, dict):
            return arguments
        arguments = decoded
    pattern, path = arguments.get("pattern"), arguments.get("path")
    if isinstance(pattern, str) and pattern and isinstance(path, str):
        return pattern if path in ("", ".") else f"{pattern} in {path}"
    for key in _PREVIEWED:
        value = arguments.get(key)
        if isinstance(value, str) and value:
            return value
    return msgspec.json.encode(arguments).decode() if arguments else name


def preview_line(text: str) -> str:
    """The text in one line of at most 120 printable characters."""
    # Escape codes and direction marks could make a command look like another one.
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
    return line if len(line) <= _PREVIEW_LENGTH else line[: _PREVIEW_LENGTH - 1] + "…"


Effect = Literal["allow", "ask", "deny"]
EFFECTS: tuple[Effect, ...] = ("allow", "ask", "deny")
Match = Literal["yes", "maybe", "no"]
_PATH_TOOLS = ("read", "search", "edit", "write", "ls", "grep", "find")
_RULE = re.compile(r"([\w.:/*-]+)(?:([+~=]?)\((.*)\))?", re.DOTALL)
_SPECIAL = re.compile(r"[*?\[\]{}\\]")
_ESCAPED = re.compile(r"\\.", re.DOTALL)


Form = Literal["", "+", "~", "="]


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    effect: Effect
    tool: str
    pattern: str | None = None
    form: Form = ""
    base: str = ""
    """The folder that a relative path begins at; by default the working directory."""
    origin: str = ""
    """Where the rule comes from, for people."""

    @property
    def text(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}{self.form}({self.pattern})"

    @property
    def restricts(self) -> bool:
        return self.effect != "allow"

    def covers(self, tool: str, kind: str) -> bool:
        """Whether the rule is about this tool, by its name or its kind."""
        is_search = kind == "search" and self.tool == "read"
        return self.tool == kind or is_search or fnmatchcase(tool, self.tool)


def parse_rule(text: str, effect: Effect, *, base: str = "", origin: str = "") -> Rule:
    """Parses a rule. Raises `UsageError`, which shows what a rule looks like."""
    match = _RULE.fullmatch(text.strip())
    if match is None or (match[3] is not None and not match[3].strip()):
        raise UsageError(
            f"{text!r} is not a rule; rules are like bash, bash(git status), edit(src/**), fetch(example.com)"
        )
    tool, form = match[1], cast(Form, match[2] or "")
    if form and effect != "allow":
        raise UsageError(f"{text!r} can only allow; write {tool}({match[3].strip()}) to {effect}")
    pattern = match[3].strip() if match[3] is not None else None
    if pattern is not None:
        try:
            _check_pattern(tool, form, pattern)
        except (ValueError, re.error, UsageError) as error:
            raise UsageError(f"the pattern of the rule {text!r} cannot be read: {error}") from None
    return Rule(effect, tool, pattern, form, base, origin)


def _check_pattern(tool: str, form: Form, pattern: str) -> None:
    is_path = tool in _PATH_TOOLS
    if form == "=" or (not is_path and pattern.startswith("=")):
        return  # the text of a command, as it is
    if not is_path:  # in a path, a quotation mark is a character like any other
        shlex.split(pattern)
    if not form:
        files.compile_glob(pattern)
        _with_home(pattern)


def matches_command(rule: Rule, words: Sequence[str | None]) -> Match:
    """Whether a plain command begins with the rule's words; after `=`, whether it consists of them.

    A word that is known only at run time is None. A rule that allows must match everything. One that
    restricts also matches the program in another folder, and may match unknown words, or options before a
    subcommand.
    """
    if rule.pattern is None:
        return "yes"
    if rule.form:
        return "yes" if rule.form == "+" and _has_further_operands(rule.pattern, words) else "no"
    exact = rule.pattern.startswith("=")
    try:
        wanted = _words(rule.pattern.removeprefix("="))
    except ValueError:  # after `=`, it may be a text that is not plain
        return "no"
    if not rule.restricts:
        return "yes" if _begins_with(words, wanted, exact) == "yes" else "no"
    name = words[0].rpartition("/")[2] if words and words[0] else None
    best: Match = "no"
    for form in (tuple(words), (name, *words[1:])):
        match = _begins_with(form, wanted, exact)
        if match == "yes":
            return "yes"
        best = "maybe" if match == "maybe" or _hides(form, wanted) else best
    return best


def matches_text(rule: Rule, command: str) -> bool:
    """Whether the rule names exactly this text, which need not be plain."""
    if rule.pattern is None or rule.form not in ("", "="):
        return False
    is_text = rule.form == "=" or rule.pattern.startswith("=")
    return is_text and (rule.pattern if rule.form else rule.pattern[1:].strip()) == command.strip()


@lru_cache(1024)
def _words(pattern: str) -> tuple[str, ...]:
    return tuple(shlex.split(pattern))


def _has_further_operands(pattern: str, words: Sequence[str | None]) -> bool:
    wanted = _words(pattern)
    further = words[len(wanted) :]
    is_same = tuple(words[: len(wanted)]) == wanted
    return is_same and all(
        word is not None and not word.startswith("-") and "=" not in word for word in further
    )


def mentions(rule: Rule, command: str) -> bool:
    """Whether a text that is not plain contains a word of the rule, with or without quotes in it."""
    if rule.pattern is None:
        return True
    if rule.tool in _PATH_TOOLS:
        words = re.split(r"/+", rule.pattern)
    else:
        try:
            words = [*_words(rule.pattern.removeprefix("="))]
        except ValueError:
            words = rule.pattern.removeprefix("=").split()
    texts = (command, re.sub(r"""\\\n|\$?['"]|\\""", "", command))
    for word in words:
        if re.search(r"\w", word):
            inner = re.escape(word).replace(r"\*", r"[^\s/]*").replace(r"\?", r"[^\s/]")
            if any(re.search(rf"(?<![\w.-]){inner}(?![\w-])", text) for text in texts):
                return True
    return False


def _begins_with(words: Sequence[str | None], wanted: Sequence[str], exact: bool) -> Match:
    if len(words) < len(wanted) and None not in words:
        return "no"
    for word, pattern in zip(words, wanted, strict=False):
        if word is None and pattern != "*":
            return "maybe"  # one unknown word may be several, so the words after it mean nothing
        if word is not None and not fnmatchcase(word, pattern):
            return "no"
    if len(words) < len(wanted):
        return "maybe"
    if exact and len(words) > len(wanted):
        return "maybe" if None in words else "no"
    return "yes"


def _hides(words: Sequence[str | None], wanted: Sequence[str]) -> bool:
    """Whether options precede the subcommand, as in `git -C . push`; each may have one value."""
    if len(wanted) < 2 or not words or words[0] is None or not fnmatchcase(words[0], wanted[0]):
        return False
    position = 1
    while position < len(words):
        word = words[position]
        if word is None:
            return True
        if not word.startswith("-"):
            return False
        for skipped in (1, 2):
            others = words[position + skipped :]
            if others and _begins_with(others, wanted[1:], exact=False) != "no":
                return True
        has_value = position + 1 < len(words) and not (words[position + 1] or "-").startswith("-")
        position += 2 if has_value else 1
    return False


def command_pattern(words: Sequence[str], *, exact: bool) -> str:
    """A pattern that matches exactly these words."""
    escaped = (re.sub(r"[*?\[]", lambda match: f"[{match[0]}]", word) for word in words)
    return ("=" if exact else "") + shlex.join(escaped)


def literal_words(words: Sequence[str]) -> str:
    """The pattern of an offered rule: exactly these words."""
    return shlex.join(words)


Forms = dict[Rule, list[re.Pattern[str]]]
"""The expressions of rules that restrict: a search matches them against many files."""


def matches_path(
    rule: Rule, path: Path, cwd: Path, real: Path | None = None, known: Forms | None = None
) -> Match:
    """Whether the rule matches an absolute path; `real` is the path without links, resolved only once.
    `known` keeps the expressions of rules between calls.

    A rule that allows must match the path with its links resolved. One that restricts also matches the path
    as written, and everything below a folder.
    """
    if rule.pattern is None:
        return "yes"
    base = Path(rule.base) if rule.base else cwd
    real = real or path.resolve()
    if not rule.restricts:
        return "yes" if _allowed_form(rule.pattern, base).fullmatch(str(real)) else "no"
    known = {} if known is None else known
    if rule not in known:
        known[rule] = _restricting_forms(rule.pattern, base)
    forms = known[rule]
    for candidate in {real, Path(normpath(path))}:
        for one in (candidate, *candidate.parents):
            if any(form.fullmatch(str(one)) for form in forms):
                return "yes"
    return "no"


def names_one_path(rule: Rule) -> bool:
    """Whether the rule names one file, by its path or its name, and nothing else."""
    return rule.pattern is not None and not _SPECIAL.search(_ESCAPED.sub("", rule.pattern))


def _allowed_form(pattern: str, base: Path) -> re.Pattern[str]:
    """The base is resolved. Links below it are not followed: whoever may write there could have made them."""
    folder = escaped_path(base).rstrip("/")
    if pattern.startswith(("/", "~")):
        whole = _with_home(pattern)
        return _compiled(whole if whole.startswith(f"{folder}/") else _with_real_beginning(whole), 0)
    anywhere = "" if "/" in pattern else "**/"
    return _compiled(f"{folder}/{anywhere}{pattern.removeprefix('./')}", 0)


def _restricting_forms(pattern: str, base: Path) -> list[re.Pattern[str]]:
    flags = re.IGNORECASE if sys.platform == "darwin" else 0  # on macOS, names that differ in case are equal
    pattern = pattern.rstrip("/") or "/"
    if pattern.startswith(("/", "~")):
        whole = _with_home(pattern)
    elif "/" in pattern:
        whole = f"{escaped_path(base)}/{pattern.removeprefix('./')}"
    else:
        return [_compiled(f"/**/{pattern}", flags)]
    return [_compiled(one, flags) for one in {whole, _with_real_beginning(whole)}]


def _compiled(glob: str, flags: int) -> re.Pattern[str]:
    """The expression of an absolute glob. `folder/**` also matches the folder."""
    stem = glob.removesuffix("/**")
    expression = f"/(?:{files.compile_glob(glob).pattern})"
    if stem and stem != glob:
        expression = (
            f"{expression}|/(?:{files.compile_glob(stem if '/' in stem[1:] else stem + '/.').pattern})"
        )
    return re.compile(expression, flags | re.DOTALL)


def _with_home(pattern: str) -> str:
    """The pattern with `~` replaced; characters in the home's path are no wildcards."""
    name, slash, path = pattern.partition("/")
    home = escaped_path(expand_home(name)) if name.startswith("~") else name
    return str(Path(f"{home}{slash}{path}"))


def _with_real_beginning(glob: str) -> str:
    """Resolves the links in the part before the first wildcard."""
    parts = Path(glob).parts
    plain = next((n for n, part in enumerate(parts) if _SPECIAL.search(part)), len(parts))
    return "/".join((escaped_path(Path(*parts[:plain]).resolve()).rstrip("/"), *parts[plain:]))


def escaped_path(path: Path) -> str:
    """A pattern that matches only this path."""
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", str(path))


def anchored(rule: Rule, folder: Path) -> Rule:
    """The rule with its relative path, if it has one, made absolute below the folder."""
    pattern = rule.pattern
    if pattern is None or pattern.startswith(("/", "~")) or rule.tool not in _PATH_TOOLS:
        return rule
    if "/" not in pattern and rule.restricts:
        return rule
    anywhere = "" if "/" in pattern else "**/"
    whole = f"{escaped_path(folder.resolve())}/{anywhere}{pattern.removeprefix('./')}"
    return msgspec.structs.replace(rule, pattern=whole)


def host_of(url: str) -> str | None:
    """The host of a URL; None if programs may disagree about it."""
    from urllib.parse import urlsplit

    if "\\" in url or any(c.isspace() or not c.isprintable() for c in url):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    if parts.scheme.lower() not in ("http", "https") or not host:
        return None
    return host.rstrip(".").lower()


def matches_host(rule: Rule, host: str | None) -> Match:
    """Whether the rule's domain is the host's, or a parent of it."""
    if rule.pattern is None:
        return "yes"
    if host is None:
        return "maybe" if rule.restricts else "no"
    domain = rule.pattern.lower().removeprefix("*.").rstrip(".")
    return "yes" if host == domain or host.endswith(f".{domain}") else "no"
