"""Extensions: what a user drops in to change the agent, in Python or in any language.

An extension is a file or a package with `def setup(ostler): …`; `ostler` is an `Ostler`. The names below are
what extensions import; each is loaded when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing: that import alone would cost more than all of this

if TYPE_CHECKING:
    from typing import Any

    from ostler.extensions.api import Ostler as Ostler
    from ostler.extensions.context import ExtensionContext as ExtensionContext
    from ostler.extensions.moments import ModelChanged as ModelChanged
    from ostler.extensions.moments import ReasoningChanged as ReasoningChanged
    from ostler.extensions.moments import ReasoningStarted as ReasoningStarted
    from ostler.extensions.moments import SessionLeft as SessionLeft
    from ostler.extensions.moments import SessionOpened as SessionOpened
    from ostler.extensions.moments import StateChanged as StateChanged
    from ostler.extensions.moments import TerminalResized as TerminalResized
    from ostler.extensions.registrations import ToolRenderer as ToolRenderer
    from ostler.extensions.state_store import State as State
    from ostler.kernel.hooks import Allow as Allow
    from ostler.kernel.hooks import Ask as Ask
    from ostler.kernel.hooks import ContextDraft as ContextDraft
    from ostler.kernel.hooks import DraftMessage as DraftMessage
    from ostler.kernel.hooks import FailedCall as FailedCall
    from ostler.kernel.hooks import FinishedCall as FinishedCall
    from ostler.kernel.hooks import GiveUp as GiveUp
    from ostler.kernel.hooks import Handled as Handled
    from ostler.kernel.hooks import InputDraft as InputDraft
    from ostler.kernel.hooks import PlannedCall as PlannedCall
    from ostler.kernel.hooks import PlannedCompaction as PlannedCompaction
    from ostler.kernel.hooks import PlannedFork as PlannedFork
    from ostler.kernel.hooks import PlannedSwitch as PlannedSwitch
    from ostler.kernel.hooks import Refuse as Refuse
    from ostler.kernel.hooks import Replace as Replace
    from ostler.kernel.hooks import Retry as Retry
    from ostler.kernel.hooks import Rewrite as Rewrite
    from ostler.kernel.hooks import RunPlan as RunPlan
    from ostler.kernel.hooks import StepPlan as StepPlan
    from ostler.kernel.hooks import Summary as Summary
    from ostler.kernel.hooks import Suppress as Suppress

_NAMES = {
    "Ostler": "api",
    "ExtensionContext": "context",
    "State": "state_store",
    "SessionOpened": "moments",
    "SessionLeft": "moments",
    "ModelChanged": "moments",
    "ReasoningChanged": "moments",
    "Subagent": "children",
    "SubagentEvent": "children",
    "SubagentEvents": "children",
    "SubagentResult": "children",
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
