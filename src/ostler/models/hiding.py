"""Leaving secrets out of what people see."""

from __future__ import annotations

from collections.abc import Iterable

HIDDEN = "[hidden]"
SHORTEST_SECRET = 8
"""No vendor's key is shorter; to hide less would tear words apart."""


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, the longest first: one may be a part of another."""
    for secret in sorted({secret.strip() for secret in secrets}, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, HIDDEN)
    return text
