"""Ostler: an agent runtime and coding agent. Every run is an append-only log of facts.

The names below are the SDK. Each is imported when it is first used, so `import ostler` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing: that import alone would cost more than all of this

if TYPE_CHECKING:
    from typing import Any

    from ostler.faces.sdk import Agent as Agent
    from ostler.faces.sdk import Result as Result
    from ostler.kernel.hooks import Hook as Hook
    from ostler.kernel.tool import ToolContext as ToolContext
    from ostler.kernel.tool import tool as tool
    from ostler.kernel.tool_class import ToolClass as ToolClass
    from ostler.runs.session import Session as Session
    from ostler.runs.supervisor import Supervisor as Supervisor
    from ostler.vocabulary import errors as errors
    from ostler.vocabulary import events as events
    from ostler.vocabulary import messages as messages
    from ostler.vocabulary.display import Display as Display
    from ostler.vocabulary.events import Limits as Limits
    from ostler.vocabulary.outcomes import NeedUser as NeedUser
    from ostler.vocabulary.outcomes import Pending as Pending
    from ostler.vocabulary.outcomes import Question as Question
    from ostler.vocabulary.outcomes import failed as failed
    from ostler.vocabulary.outcomes import ok as ok

__version__ = "0.1.0"

_NAMES = {
    "Agent": "ostler.faces.sdk",
    "Display": "ostler.vocabulary.display",
    "Hook": "ostler.kernel.hooks",
    "Limits": "ostler.vocabulary.events",
    "NeedUser": "ostler.vocabulary.outcomes",
    "Pending": "ostler.vocabulary.outcomes",
    "Question": "ostler.vocabulary.outcomes",
    "Result": "ostler.faces.sdk",
    "Session": "ostler.runs.session",
    "Supervisor": "ostler.runs.supervisor",
    "ToolClass": "ostler.kernel.tool_class",
    "ToolContext": "ostler.kernel.tool",
    "errors": "ostler.vocabulary",
    "events": "ostler.vocabulary",
    "failed": "ostler.vocabulary.outcomes",
    "messages": "ostler.vocabulary",
    "ok": "ostler.vocabulary.outcomes",
    "tool": "ostler.kernel.tool",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'ostler' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_NAMES[name])
    return (
        import_module(f"{_NAMES[name]}.{name}")
        if _NAMES[name] == "ostler.vocabulary"
        else getattr(module, name)
    )


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES])
