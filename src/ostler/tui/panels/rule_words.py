"""A rule of permission as a person reads it who is about to say "always"."""

from __future__ import annotations

from functools import lru_cache

from ostler.permissions.rules import parse_rule
from ostler.schema.errors import UsageError
from ostler.tui.render.spans import cells

_SCOPES = {
    "session": "yes, and for this session",
    "project": "yes, and for this project",
    "user": "yes, and always",
}


def scope_in_words(scope: str, rules: list[str], room: int) -> str:
    """What an answer would allow from now on; how many rules there are, where they do not fit into a line."""
    said = f"{_SCOPES[scope]}: {'; '.join(map(rule_in_words, rules))}"
    if cells(said) <= room:
        return said
    return f"{_SCOPES[scope]}: {'what is said' if len(rules) == 1 else f'the {len(rules)} rules'} above"


def rules_in_words(remember: dict[str, list[str]], room: int) -> list[str]:
    """What did not fit, a line for each rule; scopes that would allow the same together."""
    together: dict[tuple[str, ...], list[str]] = {}
    for scope, rules in remember.items():
        if not scope_in_words(scope, rules, room).endswith(rule_in_words(rules[-1])):
            together.setdefault(tuple(rules), []).append(_SCOPES[scope].removeprefix("yes, and "))
    return [
        line
        for rules, scopes in together.items()
        for line in (f"would be allowed {', '.join(scopes)}:", *(f"  {rule_in_words(one)}" for one in rules))
    ]


@lru_cache(1024)
def rule_in_words(rule: str) -> str:
    try:
        parsed = parse_rule(rule, "allow")
    except UsageError:
        return rule
    tool, pattern = parsed.tool, parsed.pattern
    if pattern is None:
        return f"whatever {tool} does"
    if tool == "edit":
        folder = pattern.removesuffix("/**")
        return f"any change below {folder}/" if folder != pattern else f"any change of {pattern}"
    if tool == "fetch":
        return f"anything from {pattern}"
    if pattern.startswith("="):
        return f"exactly: {pattern[1:]}"
    return f"{pattern} with any arguments" if tool == "bash" else f"{tool} of {pattern}"
