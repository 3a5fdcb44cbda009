"""Ostler: an agent runtime and coding agent. Every run is an append-only log of facts.

The names below are the SDK. Each is imported when it is first used, so `import ostler` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing: that import alone would cost more than all of this

if TYPE_CHECKING:
    from typing import Any

    from ostler.agent import Agent as Agent
    from ostler.agent import Result as Result
    from ostler.core.function_tool import ToolClass as ToolClass
    from ostler.core.hooks import Hook as Hook
    from ostler.core.tool import ToolContext as ToolContext
    from ostler.core.tool import tool as tool
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

_NAMES = {
    "Agent": "ostler.agent",
    "Display": "ostler.schema.outcomes",
    "Hook": "ostler.core.hooks",
    "Limits": "ostler.schema.events",
    "NeedUser": "ostler.schema.outcomes",
    "Pending": "ostler.schema.outcomes",
    "Question": "ostler.schema.outcomes",
    "Result": "ostler.agent",
    "Session": "ostler.sessions.session",
    "Supervisor": "ostler.sessions.supervisor",
    "ToolClass": "ostler.core.function_tool",
    "ToolContext": "ostler.core.tool",
    "errors": "ostler.schema",
    "events": "ostler.schema",
    "failed": "ostler.schema.outcomes",
    "messages": "ostler.schema",
    "ok": "ostler.schema.outcomes",
    "tool": "ostler.core.tool",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'ostler' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_NAMES[name])
    return (
        import_module(f"{_NAMES[name]}.{name}") if _NAMES[name] == "ostler.schema" else getattr(module, name)
    )


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES])
