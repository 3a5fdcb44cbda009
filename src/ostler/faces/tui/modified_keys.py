"""Keys with several modifiers, such as ctrl+shift+t, from terminals that are set to tell them."""

from __future__ import annotations

import re
from string import ascii_lowercase, digits

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.keys import Keys

from ostler.extensions.showing.shortcuts import normalised_key

_MODIFIERS = {6: ("ctrl", "shift"), 7: ("ctrl", "alt"), 8: ("ctrl", "alt", "shift")}
"""By the number that a terminal gives them."""
_TOLD = re.compile(r"\x1b\[(?:(?P<code>\d+);(?P<mark>\d)u|27;(?P<number>\d);(?P<letter>\d+)~)")


def know_modified_keys() -> None:
    """In both ways in which terminals tell them. The toolkit has no names for them, and ignores them."""
    for mark in _MODIFIERS:
        for letter in ascii_lowercase + digits:
            for code in {ord(letter), ord(letter.upper())}:
                ANSI_SEQUENCES[f"\x1b[{code};{mark}u"] = Keys.Ignore
                ANSI_SEQUENCES[f"\x1b[27;{mark};{code}~"] = Keys.Ignore


def name_of_modified(told: str) -> str:
    """`ctrl+shift+t`; empty for what is none."""
    found = _TOLD.fullmatch(told)
    if found is None:
        return ""
    code, mark = int(found["code"] or found["letter"]), int(found["mark"] or found["number"])
    return normalised_key("+".join([*_MODIFIERS.get(mark, ()), chr(code).lower()]))
