"""Extensions: what a user drops in to change the agent, in Python or in any language.

An extension is a file or a package with `def setup(ostler): …`; `ostler` is an `Ostler`. The names below are
what extensions import; each is loaded when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing: that import alone would cost more than all of this

if TYPE_CHECKING:
    from typing import Any

    from ostler.context.fences import Fence as Fence
    from ostler.context.fences import FenceRequest as FenceRequest
    from ostler.extensions.api import Ostler as Ostler
    from ostler.extensions.context import ExtensionContext as ExtensionContext
    from ostler.extensions.given import extend_harness as extend_harness
    from ostler.extensions.moments import ModelChanged as ModelChanged
    from ostler.extensions.moments import ReasoningChanged as ReasoningChanged
    from ostler.extensions.moments import ReasoningStarted as ReasoningStarted
    from ostler.extensions.moments import SessionLeft as SessionLeft
    from ostler.extensions.moments import SessionOpened as SessionOpened
    from ostler.extensions.moments import StateChanged as StateChanged
    from ostler.extensions.moments import TerminalResized as TerminalResized
    from ostler.extensions.parts.children import Subagent as Subagent
    from ostler.extensions.parts.children import SubagentEvent as SubagentEvent
    from ostler.extensions.parts.children import SubagentEvents as SubagentEvents
    from ostler.extensions.parts.children import SubagentResult as SubagentResult
    from ostler.extensions.parts.completing import Completion as Completion
    from ostler.extensions.parts.completing import LimitReached as LimitReached
    from ostler.extensions.parts.history import Moved as Moved
    from ostler.extensions.parts.history_nodes import HistoryMessage as HistoryMessage
    from ostler.extensions.parts.history_nodes import KeptEntry as KeptEntry
    from ostler.extensions.parts.history_nodes import TreeNode as TreeNode
    from ostler.extensions.parts.model_access import ModelDescription as ModelDescription
    from ostler.extensions.parts.model_access import Resolution as Resolution
    from ostler.extensions.parts.model_access import Said as Said
    from ostler.extensions.parts.skill_access import SkillsRead as SkillsRead
    from ostler.extensions.parts.skill_access import SkillText as SkillText
    from ostler.extensions.parts.template_access import ArgumentPattern as ArgumentPattern
    from ostler.extensions.parts.template_access import Arguments as Arguments
    from ostler.extensions.parts.template_access import ModelCondition as ModelCondition
    from ostler.extensions.parts.template_access import NamedTemplate as NamedTemplate
    from ostler.extensions.parts.tool_access import ToolDescription as ToolDescription
    from ostler.extensions.parts.usage_access import ContextStats as ContextStats
    from ostler.extensions.parts.usage_access import LastRun as LastRun
    from ostler.extensions.parts.usage_access import SessionUsage as SessionUsage
    from ostler.extensions.registrations import ToolRenderer as ToolRenderer
    from ostler.extensions.showing.editing import Editor as Editor
    from ostler.extensions.showing.editing import KeyAction as KeyAction
    from ostler.extensions.showing.theme_colors import Theme as Theme
    from ostler.extensions.showing.theme_colors import ThemeColor as ThemeColor
    from ostler.extensions.showing.theme_colors import ThemeColors as ThemeColors
    from ostler.extensions.showing.ui_data import Confirmed as Confirmed
    from ostler.extensions.showing.ui_data import Content as Content
    from ostler.extensions.showing.ui_data import Entered as Entered
    from ostler.extensions.showing.ui_data import MultiSelected as MultiSelected
    from ostler.extensions.showing.ui_data import Overlay as Overlay
    from ostler.extensions.showing.ui_data import OverlayClosed as OverlayClosed
    from ostler.extensions.showing.ui_data import OverlayStyle as OverlayStyle
    from ostler.extensions.showing.ui_data import Selected as Selected
    from ostler.extensions.showing.ui_data import Style as Style
    from ostler.extensions.showing.ui_data import Visibility as Visibility
    from ostler.extensions.showing.ui_data import Widget as Widget
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
    "api": ("Ostler",),
    "context": ("ExtensionContext",),
    "given": ("extend_harness",),
    "moments": (
        "ModelChanged",
        "ReasoningChanged",
        "ReasoningStarted",
        "SessionLeft",
        "SessionOpened",
        "StateChanged",
        "TerminalResized",
    ),
    "parts.children": ("Subagent", "SubagentEvent", "SubagentEvents", "SubagentResult"),
    "parts.completing": ("Completion", "LimitReached"),
    "parts.history": ("Moved",),
    "parts.history_nodes": ("HistoryMessage", "KeptEntry", "TreeNode"),
    "parts.model_access": ("ModelDescription", "Resolution", "Said"),
    "parts.skill_access": ("SkillText", "SkillsRead"),
    "parts.template_access": ("ArgumentPattern", "Arguments", "ModelCondition", "NamedTemplate"),
    "parts.tool_access": ("ToolDescription",),
    "parts.usage_access": ("ContextStats", "LastRun", "SessionUsage"),
    "registrations": ("ToolRenderer",),
    "showing.editing": ("Editor", "KeyAction"),
    "showing.theme_colors": ("Theme", "ThemeColor", "ThemeColors"),
    "showing.ui_data": (
        "Confirmed",
        "Content",
        "Entered",
        "MultiSelected",
        "Overlay",
        "OverlayClosed",
        "OverlayStyle",
        "Selected",
        "Style",
        "Visibility",
        "Widget",
    ),
    "state_store": ("State",),
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
_PLACES = {name: f"ostler.extensions.{module}" for module, names in _NAMES.items() for name in names}
_PLACES |= dict.fromkeys(_OF_HOOKS, "ostler.kernel.hooks")
_PLACES |= dict.fromkeys(("Fence", "FenceRequest"), "ostler.context.fences")

__all__ = sorted(_PLACES)  # the names are above


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'ostler.extensions' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
