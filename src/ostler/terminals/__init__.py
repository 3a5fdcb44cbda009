"""Terminals: other vendors' agents, driven through the screen they draw.

The names below take a screen apart; each is loaded when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing: that import alone would cost more than all of this

if TYPE_CHECKING:
    from typing import Any

    from ostler.terminals.agent_types import detect as detect
    from ostler.terminals.echo import remove_user_input as remove_user_input
    from ostler.terminals.formatting import format_message as format_message
    from ostler.terminals.formatting import is_ready as is_ready
    from ostler.terminals.formatting import new_text as new_text
    from ostler.terminals.tool_calls import split_tool_calls as split_tool_calls

_NAMES = {
    "detect": "ostler.terminals.agent_types",
    "format_message": "ostler.terminals.formatting",
    "is_ready": "ostler.terminals.formatting",
    "new_text": "ostler.terminals.formatting",
    "remove_user_input": "ostler.terminals.echo",
    "split_tool_calls": "ostler.terminals.tool_calls",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'ostler.terminals' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return __all__
