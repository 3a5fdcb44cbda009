"""Keys by one name each, however they are spelled."""

from __future__ import annotations

from ostler.vocabulary.errors import UsageError

_MODIFIERS = ("ctrl", "alt", "shift", "meta", "hyper", "super")
_MODIFIER_ALIASES = {
    "control": "ctrl",
    "opt": "alt",
    "option": "alt",
    "cmd": "meta",
    "command": "meta",
    "win": "super",
}
_KEY_ALIASES = {
    "escape": "esc",
    "return": "enter",
    "del": "delete",
    "ins": "insert",
    "pageup": "pgup",
    "pagedn": "pgdown",
    "pagedown": "pgdown",
    "pgdn": "pgdown",
    "spacebar": "space",
    " ": "space",
}
_NOBODYS = frozenset({"ctrl+c"})
_OF_FACES = frozenset(
    {
        "esc",
        "ctrl+x",
        "pgup",
        "pgdown",
        "ctrl+home",
        "ctrl+end",
        "shift+tab",
        "enter",
        "tab",
        "up",
        "down",
    }
)


def normalised_key(key: str) -> str:
    """`Shift+Control+S` is `ctrl+shift+s`. What has an unknown modifier is left as it is.

    A single character by itself keeps its case: `A` is what `shift+a` types.
    """
    if len(key.strip()) == 1:
        return key.strip()
    *named, last = key.split("+")
    if named[1:] and not named[-1] and not last:  # the plus itself: ctrl++
        named, last = named[:-1], "+"
    plain = last.strip().lower() or last[:1]
    plain = _KEY_ALIASES.get(plain, plain)
    modifiers = {_MODIFIER_ALIASES.get(one, one) for one in (name.strip().lower() for name in named)}
    if not plain or not modifiers <= {*_MODIFIERS}:
        return key
    return "+".join([*(one for one in _MODIFIERS if one in modifiers), plain])


def shortcut_key(key: str) -> str:
    """A key that an extension may take, by its one name. Raises `UsageError` for one that nobody may."""
    plain = normalised_key(key)
    if not plain.strip():
        raise UsageError("a shortcut needs a key, as ctrl+shift+s")
    if plain in _NOBODYS:
        raise UsageError(f"{plain} is not an extension's to take: it ends what runs")
    return plain


def is_of_faces(key: str) -> bool:
    """Whether faces use the key themselves, so that a shortcut takes something away."""
    return key in _OF_FACES
