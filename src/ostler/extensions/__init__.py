"""Extensions: what a user drops in to change the agent, in Python or in any language.

An extension is a file or a package with `def setup(ostler): …`; `ostler` is an `Ostler`. The names below are
what extensions import; each is loaded when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing: that import alone would cost more than all of this

if TYPE_CHECKING:
    from typing import Any

    from ostler.extensions.api import Ostler as Ostler
    from ostler.extensions.children import Subagent as Subagent
    from ostler.extensions.children import SubagentEvent as SubagentEvent
    from ostler.extensions.children import SubagentEvents as SubagentEvents
    from ostler.extensions.children import SubagentResult as SubagentResult
    from ostler.extensions.completing import Completion as Completion
    from ostler.extensions.context import ExtensionContext as ExtensionContext
    from ostler.extensions.editing import Editor as Editor
    from ostler.extensions.editing import KeyAction as KeyAction
    from ostler.extensions.history import Moved as Moved
    from ostler.extensions.history_nodes import HistoryMessage as HistoryMessage
    from ostler.extensions.history_nodes import KeptEntry as KeptEntry
    from ostler.extensions.history_nodes import TreeNode as TreeNode
    from ostler.extensions.model_access import ModelDescription as ModelDescription
    from ostler.extensions.model_access import Resolution as Resolution
    from ostler.extensions.model_access import Said as Said
    from ostler.extensions.moments import ModelChanged as ModelChanged
    from ostler.extensions.moments import ReasoningChanged as ReasoningChanged
    from ostler.extensions.moments import ReasoningStarted as ReasoningStarted
    from ostler.extensions.moments import SessionLeft as SessionLeft
    from ostler.extensions.moments import SessionOpened as SessionOpened
    from ostler.extensions.moments import StateChanged as StateChanged
    from ostler.extensions.moments import TerminalResized as TerminalResized
    from ostler.extensions.registrations import ToolRenderer as ToolRenderer
    from ostler.extensions.skill_access import SkillsRead as SkillsRead
    from ostler.extensions.skill_access import SkillText as SkillText
    from ostler.extensions.state_store import State as State
    from ostler.extensions.template_access import ArgumentPattern as ArgumentPattern
    from ostler.extensions.template_access import Arguments as Arguments
    from ostler.extensions.template_access import ModelCondition as ModelCondition
    from ostler.extensions.template_access import NamedTemplate as NamedTemplate
    from ostler.extensions.theme_colors import Theme as Theme
    from ostler.extensions.theme_colors import ThemeColor as ThemeColor
    from ostler.extensions.theme_colors import ThemeColors as ThemeColors
    from ostler.extensions.tool_access import ToolDescription as ToolDescription
    from ostler.extensions.ui_data import Content as Content
    from ostler.extensions.ui_data import Overlay as Overlay
    from ostler.extensions.ui_data import OverlayStyle as OverlayStyle
    from ostler.extensions.ui_data import Style as Style
    from ostler.extensions.ui_data import Visibility as Visibility
    from ostler.extensions.ui_data import Widget as Widget
    from ostler.extensions.usage_access import ContextStats as ContextStats
    from ostler.extensions.usage_access import LastRun as LastRun
    from ostler.extensions.usage_access import SessionUsage as SessionUsage
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
    "children": ("Subagent", "SubagentEvent", "SubagentEvents", "SubagentResult"),
    "completing": ("Completion",),
    "context": ("ExtensionContext",),
    "editing": ("Editor", "KeyAction"),
    "history": ("Moved",),
    "history_nodes": ("HistoryMessage", "KeptEntry", "TreeNode"),
    "model_access": ("ModelDescription", "Resolution", "Said"),
    "moments": (
        "ModelChanged",
        "ReasoningChanged",
        "ReasoningStarted",
        "SessionLeft",
        "SessionOpened",
        "StateChanged",
        "TerminalResized",
    ),
    "registrations": ("ToolRenderer",),
    "skill_access": ("SkillText", "SkillsRead"),
    "state_store": ("State",),
    "template_access": ("ArgumentPattern", "Arguments", "ModelCondition", "NamedTemplate"),
    "theme_colors": ("Theme", "ThemeColor", "ThemeColors"),
    "tool_access": ("ToolDescription",),
    "ui_data": ("Content", "Overlay", "OverlayStyle", "Style", "Visibility", "Widget"),
    "usage_access": ("ContextStats", "LastRun", "SessionUsage"),
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

__all__ = sorted(_PLACES)  # the names are above


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'ostler.extensions' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
