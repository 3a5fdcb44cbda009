"""The parity tables are complete: each name of Kit and linnkit has a counterpart or a reason."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from ostler.store.sqlite_maintenance import STORE_INVARIANTS
from ostler.testkit import INVARIANTS, TREE_INVARIANTS
from tests.parity.claims import Row, exists, problems

TABLES = {
    name: tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))
    for name in ("kit", "linnkit")
}

# --- what there is in Kit and in linnkit --------------------------------------------------------------

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

NAMES = """
    TokenizerPort ToolContextConversationView SubRunTraceEnvelope SubRunTracePublisher RunContext
    createDefaultRunContext ToolContextCompatibilityFields CompatibilityCarrier readToolContextUserQuery
    readToolContextModelId readToolContextRunContext ChildRunParentContext ChildRunHistoryPolicy
    ChildRunTracePolicy ChildRunExecutionPolicy ChildRunRequest ChildRunResult ChildRunInvokerPort
    ToolExecutionContext ToolLayoutOptions ToolDisplayOptions ToolControlInfo StructuredToolResult
    ToolIdempotencyScope ToolIdempotencyPolicy computeToolIdempotencyKey
    findCachedToolOutputByIdempotencyKey ToolArgs JsonObjectSchema ToolParameterProperty
    ToolParameterSchema ToolResult UnifiedToolResult BaseTool ToolRegistryEntry CommonParameterTypes
    AgentTool OpenAIToolSchema ToolCallResult
"""


def groups_of(table: str, part: str) -> dict[str, dict[str, Row]]:
    groups: dict[str, dict[str, Row]] = TABLES[table][part]
    return groups


def rows_of(table: str, part: str) -> dict[str, Row]:
    """By what they are called there."""
    rows: Any = TABLES[table][part]
    if isinstance(rows, list):
        return {row["theirs"]: row for row in rows}
    return {name: row for group in rows.values() for name, row in group.items()}


PARTS = [(table, part) for table, parts in TABLES.items() for part in parts if part != "invariants"]


@pytest.mark.parametrize(("table", "part"), PARTS, ids="-".join)
def test_every_row_names_what_exists_and_tests_that_show_it(table: str, part: str) -> None:
    failures = [(name, one) for name, row in rows_of(table, part).items() for one in problems(row)]
    assert failures == []


@pytest.mark.parametrize(("table", "part"), PARTS, ids="-".join)
def test_no_name_has_two_rows(table: str, part: str) -> None:
    rows: Any = TABLES[table][part]
    count = len(rows) if isinstance(rows, list) else sum(map(len, rows.values()))
    assert len(rows_of(table, part)) == count


def test_every_symbol_of_kits_table_and_the_six_since_have_a_row() -> None:
    added = set(ADDED.split())
    named = {*SYMBOLS.split(), *(f"{one}Event" for one in EVENTS.split())}
    base = {*named, *(f"{one}Result" for one in RESULTS.split())} - added
    assert (len(base), len(added)) == (112, 6)
    assert rows_of("kit", "symbols").keys() == base | added


def test_every_method_of_kits_api_has_a_row() -> None:
    groups = groups_of("kit", "methods")
    assert groups["Events"].keys() == {"OnCustomEvent", *(f"On{one}" for one in EVENTS.split())}
    assert groups["Registrations"].keys() == {f"Register{one}" for one in REGISTRATIONS.split()}
    assert [len(group) for group in groups.values()] == [38, 6]


def test_every_member_of_kits_context_has_a_row() -> None:
    assert rows_of("kit", "members").keys() == set(MEMBERS.split())
    assert len(MEMBERS.split()) == 84


@pytest.mark.parametrize("part", ["symbols", "methods", "members"])
def test_nothing_that_kit_offers_to_extensions_is_missing_here(part: str) -> None:
    assert [name for name, row in rows_of("kit", part).items() if "why_not" in row] == []


def test_every_name_of_linnkit_has_a_row() -> None:
    assert set(NAMES.split()) - rows_of("linnkit", "names").keys() == set()
    assert len(rows_of("linnkit", "names")) == 71


def test_every_case_hazard_and_feature_has_a_row() -> None:
    parts = [("kit", "cases"), ("kit", "hazards"), ("linnkit", "cases"), ("linnkit", "features")]
    assert [len(rows_of(*part)) for part in parts] == [68, 25, 71, 21]


def test_every_invariant_of_linnkit_is_one_of_ours_or_says_why_not() -> None:
    numbers = {one.number for one in (*INVARIANTS, *TREE_INVARIANTS)} | STORE_INVARIANTS.keys()
    rows: dict[str, Row] = TABLES["linnkit"]["invariants"]
    assert [*rows] == [f"I{number}" for number in range(1, 16)]
    for row in rows.values():
        assert ("ours" in row) != ("why_not" in row)
        assert set(row.get("ours", ())) <= numbers


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"here": ["ostler.extensions.Nothing"]}, "there is no ostler.extensions.Nothing"),
        ({"here": ["ostler.nothing.at_all"]}, "there is no ostler.nothing.at_all"),
        ({"here": ["Nothing"]}, "there is no Nothing"),
        ({"by": ["test_nothing_at_all"]}, "there are 0 tests test_nothing_at_all"),
        ({"by": []}, "name a test that shows it, or say why there is none"),
        ({"by": [], "why_not": "Because."}, "name a test that shows it, or say why there is none"),
        ({"by": [], "here": []}, "name a test that shows it, or say why there is none"),
    ],
)
def test_a_row_with_a_missing_name_is_refused(changed: Row, complaint: str) -> None:
    row = {"here": ["ostler.extensions.Refuse"], "by": ["test_no_name_has_two_rows"]}
    assert list(problems(row)) == []
    assert list(problems({"why_not": "Because."})) == []
    assert list(problems(row | changed)) == [complaint]


@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        ("ostler.ToolContext.session", True),  # a field of a protocol
        ("ostler.extensions.ExtensionContext.ui.select", True),  # behind a property
        ("ostler.extensions.ExtensionContext.ui.nothing", False),
        ("ostler.ToolClass.spec.schema", True),  # a field of what a field holds
        ("ostler.ToolClass.spec.nothing", False),
        ("ostler.ok.ends_run", True),  # a parameter
        ("ostler.ok.nothing", False),
        ("Harness.listeners", True),  # internal, wherever it is
        ("Harness.nothing", False),
    ],
)
def test_a_name_may_have_attributes(name: str, is_there: bool) -> None:
    assert exists(name) is is_there
