"""What extensions show, said when a person asks for it: in plain lines nothing stays in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ostler.faces.tui.block_words import plain

if TYPE_CHECKING:  # loaded when there are extensions
    from ostler.extensions.host import ExtensionHost

_NAMES = ("header", "widget:", "footer", "status:")
_COLUMNS = 80


async def shown_words(host: ExtensionHost | None, session: str) -> list[str]:
    """In the order of the terminal; a line for each, and more for what has more."""
    values = host.live_values(session) if host else {}
    said: list[str] = []
    for kind in _NAMES:
        for name, value in values.items():
            if host is not None and name.startswith(kind):
                first, *rest = (await _text(host, session, value)).splitlines() or [""]
                if first or rest:
                    said += [f"{value['extension']}, {kind.rstrip(':')}: {first}", *rest]
    return said or ["nothing is shown by extensions"]


async def _text(host: ExtensionHost, session: str, value: dict[str, Any]) -> str:
    if render := value.get("render"):
        drawn = await host.render(session, render["id"], _COLUMNS)
        if drawn is not None:
            return plain(drawn)
    return plain(value.get("markdown") or value.get("text") or "")
