"""Terminals: other vendors' agents, driven through the screen they draw.

The names below take a screen apart; each is loaded when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ostler.drivers.agent_spec import detect as detect
    from ostler.drivers.screen_text import format_message as format_message
    from ostler.drivers.screen_text import is_ready as is_ready
    from ostler.drivers.screen_text import new_text as new_text
    from ostler.drivers.screen_text import remove_user_input as remove_user_input
    from ostler.drivers.screen_text import split_tool_calls as split_tool_calls


_NAMES = {
    "detect": "ostler.drivers.agent_spec",
    "format_message": "ostler.drivers.screen_text",
    "is_ready": "ostler.drivers.screen_text",
    "new_text": "ostler.drivers.screen_text",
    "remove_user_input": "ostler.drivers.screen_text",
    "split_tool_calls": "ostler.drivers.screen_text",
}


__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'ostler.drivers' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return __all__
