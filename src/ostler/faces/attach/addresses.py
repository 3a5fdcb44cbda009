"""Where a session is: from what a person types, or copies out of a browser."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

import msgspec

from ostler.vocabulary.errors import UsageError

_SESSION = re.compile(r"(?P<base>.*?)/(?:api/v1/sessions|s)/(?P<session>[^/]+)(?:/.*)?")
_BELOW_BASE = re.compile(r"/(?:chat(?:/embed)?|api/v1)\Z")
_TOKEN, _CODE = re.compile(r"(?:^|&)token=([^&]+)"), re.compile(r"(?:^|&)code=([^&]+)")
"""In the link to the page, and in that to an agent's."""


class Address(msgspec.Struct, frozen=True):
    base: str
    """Of the server, without a slash at the end."""
    session: str = ""
    code: str = ""
    """What the link logs in with, once."""

    @property
    def host(self) -> str:
        """As it may be shown."""
        return urlsplit(self.base).netloc


def address_of(given: str) -> Address:
    """Raises `UsageError`."""
    typed = given.strip()
    url = typed if typed.startswith(("http://", "https://")) else f"http://{typed}"
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0 and "://" not in parts.netloc + parts.path
    except ValueError:
        is_address = False
    if not is_address or "@" in parts.netloc or any(one.isspace() for one in parts.netloc + parts.path):
        raise UsageError("that is not the address of a server: say it like localhost:3284")
    path, session = parts.path.rstrip("/"), ""
    if found := _SESSION.fullmatch(path):
        path, session = found["base"], unquote(found["session"])
    path = _BELOW_BASE.sub("", path)
    code = _TOKEN.search(parts.fragment) or _CODE.search(parts.query)
    return Address(f"{parts.scheme}://{parts.netloc}{path}", session, unquote(code[1]) if code else "")
