"""Ostler: an agent runtime and coding agent. Every run is an append-only log of facts.

The names below are the SDK. Each is imported when it is first used, so `import ostler` costs nothing.
"""

from __future__ import annotations

from ostler.core.lazy import lazy_exports

TYPE_CHECKING = False  # not from typing: that import alone would cost more than all of this

if TYPE_CHECKING:
    from ostler.agent import Agent as Agent
    from ostler.agent import Result as Result
    from ostler.core.function_tool import ToolClass as ToolClass
    from ostler.core.function_tool import tool as tool
    from ostler.core.hooks import Hook as Hook
    from ostler.core.tool import ToolContext as ToolContext
    from ostler.schema import errors as errors
    from ostler.schema import events as events
    from ostler.schema import messages as messages
    from ostler.schema.events import Limits as Limits
    from ostler.schema.outcomes import Display as Display
    from ostler.schema.outcomes import NeedUser as NeedUser
    from ostler.schema.outcomes import Pending as Pending
    from ostler.schema.outcomes import Question as Question
    from ostler.schema.outcomes import failed as failed
    from ostler.schema.outcomes import ok as ok
    from ostler.sessions.session import Session as Session
    from ostler.sessions.supervisor import Supervisor as Supervisor

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "ostler.agent": ("Agent", "Result"),
        "ostler.core.function_tool": ("ToolClass", "tool"),
        "ostler.core.hooks": ("Hook",),
        "ostler.core.tool": ("ToolContext",),
        "ostler.schema": ("errors", "events", "messages"),
        "ostler.schema.events": ("Limits",),
        "ostler.schema.outcomes": ("Display", "NeedUser", "Pending", "Question", "failed", "ok"),
        "ostler.sessions.session": ("Session",),
        "ostler.sessions.supervisor": ("Supervisor",),
    },
)
