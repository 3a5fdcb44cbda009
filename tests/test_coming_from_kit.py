"""The page for those who come from Kit is complete, and claims nothing that is not there."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
MAPPING = tomllib.loads((ROOT / "docs" / "kit_mapping.toml").read_text())

SYMBOLS = """
    API Context ToolDef ToolContext CommandDef ShortcutDef OptionDef PrintBlockOpts WidgetConfig
    WidgetPlacement WidgetAbove WidgetBelow WidgetContent WidgetStyle HeaderFooterConfig UIVisibility
    StatusBarEntry ContextStats SessionUsage OverlayConfig OverlayAnchor OverlayCenter OverlayTopCenter
    OverlayBottomCenter OverlayStyle OverlayResult PromptSelectConfig PromptSelectResult PromptConfirmConfig
    PromptConfirmResult PromptInputConfig PromptInputResult PromptMultiSelectConfig PromptMultiSelectResult
    ToolRenderConfig MessageRendererConfig EditorConfig EditorKeyAction EditorKeyActionType
    EditorKeyPassthrough EditorKeyConsumed EditorKeyRemap EditorKeySubmit SessionMessage ExtensionEntry
    ContextMessage TreeNode TreeNavigationResult Skill SkillLoadResult PromptTemplate ArgumentPattern
    ParseResult ModelConditional ModelCapabilities ModelInfoEntry ModelResolutionResult ToolInfo
    CompleteRequest CompleteResponse CompactConfig FilePart SubagentConfig SubagentResult SubagentUsage
    SubagentHandle SubagentEvent ThemeColor ThemeColorConfig
"""
EVENTS = """
    SessionStart SessionShutdown Input BeforeAgentStart AgentStart AgentEnd LLMUsage StepStart StepFinish
    PrepareStep ReasoningStart Warnings Source Error Retry MessageStart MessageUpdate MessageEnd ToolCall
    ToolCallInputStart ToolCallInputDelta ToolCallInputEnd ToolExecutionStart ToolOutput ToolExecutionEnd
    ToolResult ContextPrepare BeforeCompact BeforeFork BeforeSessionSwitch SubagentStart SubagentChunk
    SubagentEnd ModelChange ThinkingLevelChange TerminalResize TurnStateChange
"""
RESULTS = """
    Input BeforeAgentStart PrepareStep ContextPrepare ToolCall ToolResult BeforeFork BeforeSessionSwitch
    BeforeCompact
"""
ADDED = """
    ErrAgentBusy ThemeColors ModelPricing ThinkingLevelChangeEvent TerminalResizeEvent TurnStateChangeEvent
"""
REGISTRATIONS = "Tool Command Option Shortcut ToolRenderer MessageRenderer"
MEMBERS = """
    SessionID CWD Model Interactive Print PrintInfo PrintError PrintBlock RenderMessage SendMessage
    SendMultimodalMessage CancelAndSend Abort IsIdle Compact NewSession GetSessionUsage SetWidget
    RemoveWidget SetHeader RemoveHeader SetFooter RemoveFooter SetStatus RemoveStatus SetUIVisibility
    PromptSelect PromptConfirm PromptInput PromptMultiSelect ShowOverlay SetEditor ResetEditor SetEditorText
    SuspendTUI Exit GetContextStats GetMessages GetSessionPath AppendEntry GetEntries SetState GetState
    DeleteState ListState GetOption SetOption SetModel GetAvailableModels GetAllTools SetActiveTools
    EmitCustomEvent Complete SpawnSubagent RegisterTheme SetTheme ListThemes GetTheme ReloadExtensions
    GetTreeNode GetCurrentBranch GetChildren NavigateTo SummarizeBranch CollapseBranch LoadSkill
    LoadSkillsFromDir DiscoverSkills GetAvailableSkills InjectSkillAsContext InjectRawSkillAsContext
    ParseTemplate RenderTemplate ParseArguments SimpleParseArguments EvaluateModelConditional
    RenderWithModelConditionals ResolveModelChain GetModelCapabilities CheckModelAvailable
    GetCurrentProvider GetCurrentModelID GetTerminalSize GetThinkingLevel
"""


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("docs_kit")


def rows_of(part: str) -> dict[str, dict[str, Any]]:
    groups = [*MAPPING[part].values()]
    rows = {name: entry for group in groups for name, entry in group.items()}
    assert len(rows) == sum(map(len, groups)), "a name has two rows"
    return rows


def test_every_symbol_of_its_table_and_the_six_since_have_a_row() -> None:
    added = set(ADDED.split())
    named = {*SYMBOLS.split(), *(f"{one}Event" for one in EVENTS.split())}
    base = {*named, *(f"{one}Result" for one in RESULTS.split())} - added
    assert (len(base), len(added)) == (112, 6)
    assert rows_of("symbols").keys() == base | added


def test_every_method_of_its_api_has_a_row() -> None:
    groups = MAPPING["methods"]
    assert groups["Events"].keys() == {"OnCustomEvent", *(f"On{one}" for one in EVENTS.split())}
    assert groups["Registrations"].keys() == {f"Register{one}" for one in REGISTRATIONS.split()}
    assert [len(group) for group in groups.values()] == [38, 6]


def test_every_member_of_its_context_has_a_row() -> None:
    assert rows_of("members").keys() == set(MEMBERS.split())
    assert len(MEMBERS.split()) == 84


def test_every_case_and_every_hazard_has_a_row(generator: ModuleType) -> None:
    assert (len(MAPPING["cases"]), len(MAPPING["hazards"])) == (68, 25)
    for section, last in (("kit-cases", 68), ("kit-hazards", 25)):
        numbers = re.findall(r"(?m)^\| (\d+) \| ", generator.KIT_SECTIONS[section]())
        assert numbers == [str(number) for number in range(1, last + 1)]


@pytest.mark.parametrize("part", ["symbols", "methods", "members"])
def test_nothing_that_it_offers_is_missing_here(part: str) -> None:
    assert [name for name, entry in rows_of(part).items() if "why_not" in entry] == []


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"here": ["ostler.extensions.Nothing"]}, "there is no ostler.extensions.Nothing"),
        ({"by": ["tests/test_sdk.py::test_nothing_at_all"]}, "there is no test tests/test_sdk.py"),
        ({"by": []}, "name a test"),
        ({"example": None}, "name an example"),
        ({"example": "examples/extensions/nothing.py"}, "there is no code in examples/extensions/nothing.py"),
        ({"example": "docs/kit.md#no-such-heading"}, "there is no code in docs/kit.md#no-such-heading"),
        ({"example": "docs/kit.md#hazards"}, "there is no code in docs/kit.md#hazards"),
        ({"example": "examples/extensions/notifier.py"}, "notifier.py has none of the names Refuse"),
    ],
)
def test_a_row_that_claims_what_is_not_there_is_refused(
    generator: ModuleType, entry: dict[str, Any], complaint: str
) -> None:
    row = {
        "here": ["ostler.extensions.Refuse"],
        "example": "examples/extensions/permission_gate.py",
        "by": [
            "tests/test_coming_from_kit.py::test_a_row_that_claims_what_is_not_there_is_refused",
        ],
    }
    assert len(list(generator.symbol_table({"Something": row}))) == 3
    changed = {key: value for key, value in (row | entry).items() if value is not None}
    with pytest.raises(SystemExit, match=complaint):
        list(generator.symbol_table({"Something": changed}))
