"""Globs as regular expressions: `*`, `?`, `[a-z]`, `{a,b}` and `**` for any number of directories."""

from __future__ import annotations

import re
from collections.abc import Iterator


def compile_glob(glob: str) -> re.Pattern[str]:
    """Matches a relative path with `/` between its parts.

    A glob without a slash matches the last part of a path at any depth, any other the whole path. A slash
    at its end is left to the caller, who knows what is a directory.
    """
    body = glob.rstrip("/").removeprefix("./")
    anywhere = "/" not in body
    expression = _translated(body.removeprefix("/"))
    return re.compile(f"(?:.*/)?{expression}" if anywhere else expression, re.DOTALL)


def _translated(glob: str) -> str:
    out: list[str] = []
    position = 0
    braces = 0
    while position < len(glob):
        character = glob[position]
        rest = glob[position:]
        position += 1
        if rest.startswith("**/") and (position == 1 or glob[position - 2] == "/"):
            out.append("(?:.*/)?")
            position += 2
        elif rest == "**" and (position == 1 or glob[position - 2] == "/"):
            out.append(".+")
            position += 1
        elif character == "*":
            out.append(_STAR)
        elif character == "?":
            out.append("[^/]")
        elif character == "[" and (closing := _closing_bracket(glob, position)) > 0:
            out.append(_character_class(glob[position:closing]))
            position = closing + 1
        elif character == "{" and "}" in rest:
            out.append("(?:")
            braces += 1
        elif character == "}" and braces:
            out.append(")")
            braces -= 1
        elif character == "," and braces:
            out.append("|")
        elif character == "\\" and position < len(glob):
            out.append(re.escape(glob[position]))
            position += 1
        else:
            out.append(re.escape(character))
    return "".join(_without_backtracking(out)) + ")" * braces


_STAR = "[^/]*"
_BOUNDS = frozenset({"/", "(?:", ")", "|", "(?:.*/)?", ".+"})


def _without_backtracking(pieces: list[str]) -> Iterator[str]:
    """Several stars in one name would be tried in every combination, which takes for ever in a long name.

    What stands between two of them is best taken where it is first found: the next star takes the rest.
    """
    place = 0
    while place < len(pieces):
        after = place + 1
        while after < len(pieces) and pieces[after] != _STAR and pieces[after] not in _BOUNDS:
            after += 1
        is_between = pieces[place] == _STAR and after < len(pieces) and pieces[after] == _STAR
        fixed = "".join(pieces[place + 1 : after])
        yield f"(?>{_STAR}?{fixed})" if is_between else pieces[place] + fixed
        place = after


def _closing_bracket(glob: str, after: int) -> int:
    """A bracket that stands first belongs to the class."""
    first = after + 1 if glob[after : after + 1] in ("!", "^") else after
    return glob.find("]", first + 1)


_MEMBER = re.compile(r"(.)(?:-(.))?", re.DOTALL)


def _escaped_member(member: re.Match[str]) -> str:
    """Both ends of a range are escaped, hyphens too: `--`, `&&` or `||` would be operations on sets."""
    first, last = member.groups()
    return re.escape(first) if last is None else f"{re.escape(first)}-{re.escape(last)}"


def _character_class(inside: str) -> str:
    negated = inside[0] in "!^"
    members = _MEMBER.sub(_escaped_member, inside[1:] if negated else inside)
    return f"[^/{members}]" if negated else f"(?!/)[{members}]"
