"""Extensions: what a user drops in to change the agent, in Python or in any language.

An extension is a file or a package with `def setup(ostler): …`; `ostler` is an `Ostler`. The names below are
what extensions import; each is loaded when it is first used.
"""

from __future__ import annotations

from typing import Any

_NAMES = {
    "Ostler": "api",
    "ExtensionContext": "context",
    "State": "state_store",
    "SessionOpened": "moments",
    "SessionLeft": "moments",
    "ModelChanged": "moments",
    "ReasoningChanged": "moments",
    "ReasoningStarted": "moments",
    "StateChanged": "moments",
    "TerminalResized": "moments",
    "ToolRenderer": "registrations",
}
_OF_HOOKS = (
    "Allow",
    "Ask",
    "ContextDraft",
    "DraftMessage",
    "FailedCall",
    "FinishedCall",
    "GiveUp",
    "Handled",
    "InputDraft",
    "PlannedCall",
    "PlannedCompaction",
    "PlannedFork",
    "PlannedSwitch",
    "Refuse",
    "Replace",
    "Retry",
    "Rewrite",
    "RunPlan",
    "StepPlan",
    "Summary",
    "Suppress",
)

__all__ = sorted([*_NAMES, *_OF_HOOKS])  # the names are above


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _NAMES:
        return getattr(import_module(f"ostler.extensions.{_NAMES[name]}"), name)
    if name in _OF_HOOKS:
        return getattr(import_module("ostler.kernel.hooks"), name)
    raise AttributeError(f"module 'ostler.extensions' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
