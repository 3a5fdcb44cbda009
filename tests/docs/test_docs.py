"""What the documentation takes from the code is current, and what it names exists."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

import ostler
from ostler.app.options import print_parser
from ostler.core.hooks import Point
from tests.support.paths import ROOT

SCRIPTS = ROOT / "scripts"
GENERATOR = SCRIPTS / "generate_docs.py"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
FROM_OTHERS = {"coming-from-kit", "coming-from-linnkit", "kit", "linnkit"}
"""Pages for those who come from another system; the summary for models may leave them out."""
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
def generator() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        yield importlib.import_module("generate_docs")


@pytest.fixture(scope="module")
def sections(generator: ModuleType) -> ModuleType:
    return importlib.import_module("docs_sections")


def test_the_generated_pages_are_current() -> None:
    strict = ("-X", "warn_default_encoding", "-W", "error::EncodingWarning")  # pages are UTF-8 in any locale
    checked = subprocess.run(
        [sys.executable, *strict, GENERATOR, "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("group", REQUIRED, ids=" ".join)
def test_every_event_of_the_other_systems_has_its_row(group: tuple[str, str]) -> None:
    system, title = group
    assert sorted(MAPPING[system][title]) == sorted(REQUIRED[group].split())


def test_every_group_of_the_mapping_is_checked() -> None:
    assert {(system, title) for system, groups in MAPPING.items() for title in groups} == set(REQUIRED)


def test_a_row_with_a_missing_target_is_refused(generator: ModuleType) -> None:
    for place in ({"to": ["no_such_event"]}, {"to": ["hook:no_such_point"]}, {"to": []}, {}):
        with pytest.raises(SystemExit, match="no such event, request or hook"):
            list(generator.mapping_tables({"zot": {"Agent core": {"done": place}}}))


def test_a_row_without_a_target_has_a_reason(generator: ModuleType) -> None:
    (table,) = generator.mapping_tables({"zot": {"Agent core": {"done": {"why_not": "Because."}}}})
    assert table.endswith("| `done` | – | Because. |")


def test_the_events_page_names_every_event_and_the_errors_page_every_kind(generator: ModuleType) -> None:
    for tag in generator.events.EVENT_TYPES:
        assert f"\n| `{tag}` | " in generator.events_page()
    for kind in generator.errors.ERRORS:
        assert f"\n| `{kind}` | " in generator.errors_page()


def test_a_section_is_written_between_its_markers(sections: ModuleType) -> None:
    page = "before\n<!-- generated:exit-codes -->\nold\n<!-- end -->\nafter\n"
    filled = sections.fill_sections(page, "page.md")
    assert filled.startswith("before\n<!-- generated:exit-codes -->\n| code | when |\n")
    assert filled.endswith(" |\n<!-- end -->\nafter\n")
    assert sections.fill_sections(filled, "page.md") == filled


def test_an_unknown_or_unclosed_section_is_refused(sections: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no section 'nonsense'"):
        sections.fill_sections("<!-- generated:nonsense -->\n<!-- end -->\n", "page.md")
    with pytest.raises(SystemExit, match="has no end"):
        sections.fill_sections("<!-- generated:help -->\nand so on\n", "page.md")


def test_every_section_is_on_a_page(sections: ModuleType) -> None:
    text = "".join(page.read_text() for page in PAGES)
    assert {name for name in sections.SECTIONS if f"<!-- generated:{name} -->" not in text} == set()


def test_help_does_not_depend_on_the_terminal(sections: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sections.help_of("trust")
    monkeypatch.setenv("COLUMNS", "40")
    assert sections.help_of("trust") == before
    assert before.startswith("```\nusage: ostler trust ")


def test_a_long_command_name_has_its_help(sections: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "  COMMAND\n    list  all of them\n    uncompact\n          one of them\n"
    monkeypatch.setattr(sections, "help_of", lambda *command: " ".join(command) if command[1:] else listed)
    assert sections.help_of_each("sessions") == "sessions list\n\nsessions uncompact"


def test_every_setting_has_a_description(sections: ModuleType) -> None:
    _, _, *rows = sections.settings_table()
    assert len(rows) == len(sections.settings.Settings.__struct_fields__)
    assert all(re.fullmatch(r"\| .* \| \S.*\. \|", row) for row in rows)


def test_help_and_page_name_the_same_exit_codes(sections: ModuleType) -> None:
    in_help = set(re.findall(r"\b\d+\b", print_parser({}).format_help().partition("exit codes:")[2]))
    on_page = {row.split("|")[1].strip() for row in list(sections.exit_code_table())[2:]}
    assert in_help <= on_page


def test_the_sample_is_explained_line_by_line(sections: ModuleType) -> None:
    page = (ROOT / "docs" / "command-line.md").read_text()
    table = page.partition("| line | what it says |\n|---|---|\n")[2].partition("\n\n")[0]
    explained = [row.split("`")[1] for row in table.splitlines()]
    assert explained == [json.loads(line)["type"] for line in sections.sample().lines]


def test_the_picture_of_a_step_shows_the_appends_of_a_run(sections: ModuleType) -> None:
    picture = (ROOT / "docs" / "pictures" / "step.svg").read_text()
    drawn = re.findall(r'class="number"[^>]*>(\d+)</text><text class="fact"[^>]*>(\w+)<', picture)
    appends = sections.sample().appends
    assert drawn == [(str(seq), name) for seq, name in enumerate((n for one in appends for n in one), 2)]
    assert picture.count('class="append"') == len(appends)


def test_the_page_of_the_sdk_lists_its_public_names() -> None:
    page = (ROOT / "docs" / "sdk.md").read_text()
    sentence = page.partition("The public names are ")[2].partition(".")[0]
    assert sorted(re.findall(r"`(\w+)`", sentence)) == sorted(ostler.__all__)


def test_every_hook_point_is_described() -> None:
    page = (ROOT / "docs" / "sdk.md").read_text()
    assert set(re.findall(r"(?m)^### `(\w+)`$", page)) == set(get_args(Point))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page: Path) -> None:
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text())
    links = re.findall(r"\]\((?!https?://)([^)\s]+)\)", text)
    assert [link for link in links if not _exists(page, link)] == []


@pytest.mark.parametrize("index", ["docs/README.md", "llms.txt"])
def test_an_index_lists_every_page(index: str) -> None:
    text = (ROOT / index).read_text()
    folder = (ROOT / index).parent
    listed = {(folder / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)", text)}
    pages = {page.resolve() for page in (ROOT / "docs").glob("*.md") if re.match("[a-z]", page.name)}
    optional = {page for page in pages if page.stem in FROM_OTHERS} if index == "llms.txt" else set()
    assert pages - optional - listed == set()
    assert {path for path in listed if not path.exists()} == set()


def test_the_summary_for_models_follows_the_convention() -> None:
    title, blank, summary, *rest = (ROOT / "llms.txt").read_text().splitlines()
    assert re.fullmatch(r"# \w+", title) and blank == "" and summary.startswith("> ")
    sections = "\n".join(rest).partition("\n## ")[2].splitlines()
    items = [line for line in sections[1:] if line and not line.startswith("## ")]
    assert [line for line in items if not re.match(r"- \[[^\]]+\]\([^)]+\)(: |; |$)", line)] == []


def test_contributing_names_existing_modules() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", text))
    places = (ROOT, ROOT / "src" / "ostler", ROOT / "src" / "ostler" / "extensions")
    assert {path for path in named if not any((place / path).exists() for place in places)} == set()
    first_cells = re.findall(r"(?m)^\| (`[^|]+) \|", text.partition("| package |")[2].partition("\n\n")[0])
    packages = [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)]
    files = [path for path in (ROOT / "src" / "ostler").iterdir() if not path.name.startswith("_")]
    assert sorted(packages) == sorted(path.stem for path in files if path.suffix == ".py" or path.is_dir())


def _exists(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    return target.exists() and (not anchor or anchor in _anchors(target))


def _anchors(page: Path) -> set[str]:
    """The headings of a page, as they are named in addresses."""
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text())
    headings = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
