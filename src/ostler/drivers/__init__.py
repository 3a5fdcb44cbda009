"""Terminals: other vendors' agents, driven through the screen they draw.

The names below take a screen apart; each is loaded when it is first used.
"""

from __future__ import annotations

from ostler.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.drivers.agent_spec import detect as detect
    from ostler.drivers.screen_text import format_message as format_message
    from ostler.drivers.screen_text import is_ready as is_ready
    from ostler.drivers.screen_text import new_text as new_text
    from ostler.drivers.screen_text import remove_user_input as remove_user_input
    from ostler.drivers.screen_text import split_tool_calls as split_tool_calls

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "ostler.drivers.agent_spec": ("detect",),
        "ostler.drivers.screen_text": (
            "format_message",
            "is_ready",
            "new_text",
            "remove_user_input",
            "split_tool_calls",
        ),
    },
)
