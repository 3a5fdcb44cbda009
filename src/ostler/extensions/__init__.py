"""Extensions change the agent; they are written in Python or, over a protocol, in any language.

An extension is a file or a package with `def setup(ostler)`, which gets an `ExtensionAPI`. Extensions import
the names below; each is imported when it is first used.
"""

from __future__ import annotations

from ostler.core.lazy import lazy_exports

TYPE_CHECKING = False  # not from typing: that import alone would cost more than all of this

if TYPE_CHECKING:
    from ostler.context.providers import ContextProvider as ContextProvider
    from ostler.context.providers import ProviderRequest as ProviderRequest
    from ostler.core.hooks import Allow as Allow
    from ostler.core.hooks import Ask as Ask
    from ostler.core.hooks import ContextDraft as ContextDraft
    from ostler.core.hooks import DraftMessage as DraftMessage
    from ostler.core.hooks import FailedCall as FailedCall
    from ostler.core.hooks import FinishedCall as FinishedCall
    from ostler.core.hooks import GiveUp as GiveUp
    from ostler.core.hooks import Handled as Handled
    from ostler.core.hooks import InputDraft as InputDraft
    from ostler.core.hooks import PlannedCall as PlannedCall
    from ostler.core.hooks import PlannedCompaction as PlannedCompaction
    from ostler.core.hooks import PlannedFork as PlannedFork
    from ostler.core.hooks import PlannedSwitch as PlannedSwitch
    from ostler.core.hooks import Refuse as Refuse
    from ostler.core.hooks import Replace as Replace
    from ostler.core.hooks import Retry as Retry
    from ostler.core.hooks import Rewrite as Rewrite
    from ostler.core.hooks import RunPlan as RunPlan
    from ostler.core.hooks import StepPlan as StepPlan
    from ostler.core.hooks import Summary as Summary
    from ostler.core.hooks import Suppress as Suppress
    from ostler.extensions.api import ExtensionAPI as ExtensionAPI
    from ostler.extensions.context_api.history import HistoryEntry as HistoryEntry
    from ostler.extensions.context_api.history import HistoryMessage as HistoryMessage
    from ostler.extensions.context_api.history import NavigationResult as NavigationResult
    from ostler.extensions.context_api.history import TreeNode as TreeNode
    from ostler.extensions.context_api.models import ChatMessage as ChatMessage
    from ostler.extensions.context_api.models import Completion as Completion
    from ostler.extensions.context_api.models import LimitReached as LimitReached
    from ostler.extensions.context_api.models import ModelDescription as ModelDescription
    from ostler.extensions.context_api.models import ModelResolution as ModelResolution
    from ostler.extensions.context_api.session_info import ContextStats as ContextStats
    from ostler.extensions.context_api.session_info import LastRun as LastRun
    from ostler.extensions.context_api.session_info import SessionUsage as SessionUsage
    from ostler.extensions.context_api.session_info import ToolDescription as ToolDescription
    from ostler.extensions.context_api.skills import Skill as Skill
    from ostler.extensions.context_api.skills import SkillSearchResult as SkillSearchResult
    from ostler.extensions.context_api.subagents import Subagent as Subagent
    from ostler.extensions.context_api.subagents import SubagentEvent as SubagentEvent
    from ostler.extensions.context_api.subagents import SubagentEvents as SubagentEvents
    from ostler.extensions.context_api.subagents import SubagentResult as SubagentResult
    from ostler.extensions.context_api.templates import ArgumentPattern as ArgumentPattern
    from ostler.extensions.context_api.templates import Arguments as Arguments
    from ostler.extensions.context_api.templates import ModelCondition as ModelCondition
    from ostler.extensions.context_api.templates import Template as Template
    from ostler.extensions.extension import ToolRenderer as ToolRenderer
    from ostler.extensions.extension_context import ExtensionContext as ExtensionContext
    from ostler.extensions.extension_context import State as State
    from ostler.extensions.extension_session import ModelChanged as ModelChanged
    from ostler.extensions.extension_session import ReasoningChanged as ReasoningChanged
    from ostler.extensions.extension_session import ReasoningStarted as ReasoningStarted
    from ostler.extensions.extension_session import SessionLeft as SessionLeft
    from ostler.extensions.extension_session import SessionOpened as SessionOpened
    from ostler.extensions.extension_session import StateChanged as StateChanged
    from ostler.extensions.extension_session import TerminalResized as TerminalResized
    from ostler.extensions.loader.extension_loader import extend_harness as extend_harness
    from ostler.extensions.ui.front_end import Editor as Editor
    from ostler.extensions.ui.front_end import KeyAction as KeyAction
    from ostler.extensions.ui.themes import Theme as Theme
    from ostler.extensions.ui.themes import ThemeColor as ThemeColor
    from ostler.extensions.ui.themes import ThemeColors as ThemeColors
    from ostler.extensions.ui.types import ConfirmResult as ConfirmResult
    from ostler.extensions.ui.types import Content as Content
    from ostler.extensions.ui.types import InputResult as InputResult
    from ostler.extensions.ui.types import MultiSelectResult as MultiSelectResult
    from ostler.extensions.ui.types import Overlay as Overlay
    from ostler.extensions.ui.types import OverlayResult as OverlayResult
    from ostler.extensions.ui.types import OverlayStyle as OverlayStyle
    from ostler.extensions.ui.types import SelectResult as SelectResult
    from ostler.extensions.ui.types import Style as Style
    from ostler.extensions.ui.types import Visibility as Visibility
    from ostler.extensions.ui.types import Widget as Widget

_EXPORTS = {
    "ostler.context.providers": "ContextProvider ProviderRequest",
    "ostler.core.hooks": (
        "Allow Ask ContextDraft DraftMessage FailedCall FinishedCall GiveUp Handled InputDraft PlannedCall "
        "PlannedCompaction PlannedFork PlannedSwitch Refuse Replace Retry Rewrite RunPlan StepPlan Summary "
        "Suppress"
    ),
    "ostler.extensions.api": "ExtensionAPI",
    "ostler.extensions.context_api.history": "HistoryEntry HistoryMessage NavigationResult TreeNode",
    "ostler.extensions.context_api.models": (
        "ChatMessage Completion LimitReached ModelDescription ModelResolution"
    ),
    "ostler.extensions.context_api.session_info": "ContextStats LastRun SessionUsage ToolDescription",
    "ostler.extensions.context_api.skills": "Skill SkillSearchResult",
    "ostler.extensions.context_api.subagents": "Subagent SubagentEvent SubagentEvents SubagentResult",
    "ostler.extensions.context_api.templates": "ArgumentPattern Arguments ModelCondition Template",
    "ostler.extensions.extension": "ToolRenderer",
    "ostler.extensions.extension_context": "ExtensionContext State",
    "ostler.extensions.extension_session": (
        "ModelChanged ReasoningChanged ReasoningStarted SessionLeft SessionOpened StateChanged "
        "TerminalResized"
    ),
    "ostler.extensions.loader.extension_loader": "extend_harness",
    "ostler.extensions.ui.front_end": "Editor KeyAction",
    "ostler.extensions.ui.themes": "Theme ThemeColor ThemeColors",
    "ostler.extensions.ui.types": (
        "ConfirmResult Content InputResult MultiSelectResult Overlay OverlayResult OverlayStyle "
        "SelectResult Style Visibility Widget"
    ),
}
"""Names by the modules that define them."""

_NAMES = {module: names.split() for module, names in _EXPORTS.items()}
__getattr__, __dir__, __all__ = lazy_exports(__name__, _NAMES)
