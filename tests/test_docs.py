from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
GENERATOR = ROOT / "scripts" / "generate_docs.py"
MAPPING = tomllib.loads((ROOT / "docs" / "event_mapping.toml").read_text())

REQUIRED = {
    ("Kit", "Extension events"): """
        SessionStartEvent SessionShutdownEvent InputEvent BeforeAgentStartEvent AgentStartEvent AgentEndEvent
        LLMUsageEvent StepStartEvent StepFinishEvent PrepareStepEvent ContextPrepareEvent ReasoningStartEvent
        WarningsEvent SourceEvent ErrorEvent RetryEvent MessageStartEvent MessageUpdateEvent MessageEndEvent
        ToolCallInputStartEvent ToolCallInputDeltaEvent ToolCallInputEndEvent ToolCallEvent
        ToolExecutionStartEvent ToolExecutionEndEvent ToolOutputEvent ToolResultEvent ModelChangeEvent
        ThinkingLevelChangeEvent TerminalResizeEvent TurnStateChangeEvent BeforeForkEvent
        BeforeSessionSwitchEvent BeforeCompactEvent SubagentStartEvent SubagentChunkEvent SubagentEndEvent
    """,
    ("Kit", "SDK events"): """
        turn_start turn_end message_start message_update message_end tool_call tool_call_start tool_call_delta
        tool_call_end tool_execution_start tool_execution_end tool_result tool_output tool_call_content
        response compaction reasoning_start reasoning_delta reasoning_complete step_start step_finish
        step_usage text_start text_end warnings source stream_finish error retry steer_consumed
        password_prompt
    """,
    ("zot", "Agent core"): """
        user_message turn_start assistant_start text_delta tool_use_start tool_use_args tool_use_end usage
        assistant_message tool_call turn_end tool_progress tool_result done error
    """,
    ("linnkit", "RuntimeEvent"): """
        user_input thought tool_call_decision tool_process tool_output todo_updated subrun_trace
        requires_user_interaction audit_envelope final_answer final_answer_chunk history_summary error control
        stream_end
    """,
    ("agentapi", "Events on the wire"): "message_update status_change agent_error screen",
    ("agentapi", "Inside its event emitter"): "message_update status_change agent_error screen_update",
}


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", GENERATOR)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_pages_are_current() -> None:
    checked = subprocess.run(
        [sys.executable, GENERATOR, "--check"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("group", REQUIRED, ids=" ".join)
def test_every_event_of_the_other_systems_has_its_row(group: tuple[str, str]) -> None:
    system, title = group
    assert sorted(MAPPING[system][title]) == sorted(REQUIRED[group].split())


def test_no_group_of_the_mapping_goes_unchecked() -> None:
    assert {(system, title) for system, groups in MAPPING.items() for title in groups} == set(REQUIRED)


def test_a_row_that_leads_nowhere_is_refused(generator: ModuleType) -> None:
    for place in ({"to": ["no_such_event"]}, {"to": ["hook:no_such_point"]}, {"to": []}, {}):
        with pytest.raises(SystemExit, match="no such event, request or hook"):
            list(generator.mapping_tables({"zot": {"Agent core": {"done": place}}}))


def test_a_row_without_a_place_says_why(generator: ModuleType) -> None:
    (table,) = generator.mapping_tables({"zot": {"Agent core": {"done": {"why_not": "Because."}}}})
    assert table.endswith("| `done` | – | Because. |")


def test_the_events_page_names_every_event_and_the_errors_page_every_kind(generator: ModuleType) -> None:
    for tag in generator.events.EVENT_TYPES:
        assert f"\n| `{tag}` | " in generator.events_page()
    for kind in generator.errors.ERRORS:
        assert f"\n| `{kind}` | " in generator.errors_page()
