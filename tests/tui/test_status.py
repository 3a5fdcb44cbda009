"""The meters of the status row, and how much of a reopened session is read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ostler.core.call_context import CallContext
from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.model import ModelRequest
from ostler.core.tool import ToolContext
from ostler.history.items import NoticeItem, UserItem
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.facts import Fact
from ostler.schema.messages import Text
from ostler.schema.usage import Totals, Usage
from ostler.sessions.session import Session, create_session, open_session
from ostler.store.memory import MemoryStore
from ostler.tui.render.items import CallRendering, ItemRenderer, PrintableItem, notice
from ostler.tui.status import Activity, MeterReader, Meters, activity_parts, branch_of, status_parts
from ostler.tui.transcript import FACTS, TranscriptView, last_rows, restored_facts, visible_facts


def test_the_branch_is_read_from_gits_head_file(tmp_path: Path) -> None:
    def git(*words: str, at: Path) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *who, *words], cwd=at, check=True, capture_output=True, timeout=60)

    main, other = tmp_path / "main", tmp_path / "other"
    (main / "deep" / "er").mkdir(parents=True)
    assert branch_of(main) == ""
    git("init", "-q", "-b", "feature/x", at=main)
    assert branch_of(main / "deep" / "er") == "feature/x"
    git("commit", "-q", "--allow-empty", "-m", "one", at=main)
    git("worktree", "add", "-q", "-b", "beside", str(other), at=main)
    assert branch_of(other) == "beside"
    git("checkout", "-q", "--detach", at=main)
    assert len(branch_of(main)) == 7


@pytest.fixture
async def session(tmp_path: Path) -> Session:
    harness = Harness(model=ScriptedModel([Turn("answer")] * 100), cwd=tmp_path)
    return await create_session(MemoryStore(), harness)


def used(tokens: int, cost: float) -> Usage:
    return Usage(input_tokens=tokens, cost=cost)


async def test_usage_of_children_counts_toward_the_meters_and_the_budget(session: Session) -> None:
    activity = Activity(TranscriptView())
    meter = MeterReader(session, activity)
    journal = session.journal
    journal.record(events.ChildStarted("", "ses_c", extension="x"), run="")
    journal.record(events.ChildEnded("", "ses_c", "completed", Totals(usage=used(1000, 0.25))), run="")
    await journal.commit()
    later = MeterReader(session, activity)
    await later.count_earlier_usage()
    await meter.count_earlier_usage()
    assert (later.read().tokens, later.read().cost) == (1000, 0.25)
    assert meter.read().tokens == 0, "later usage arrives by events"
    meter.take(events.ChildEnded("c", "ses_d", "completed", Totals(usage=used(10, 0.5))))
    assert meter.read().cost == 0.5


async def test_usage_of_a_driven_agent_counts_once_live_and_restored(tmp_path: Path) -> None:
    @tool
    async def ask_agent(context: ToolContext) -> str:
        assert isinstance(context, CallContext)
        context.record_use("ses_agent", used(1000, 0.25))
        return "asked"

    def totals(meter: MeterReader) -> tuple[int, float | None]:
        meters = meter.read()
        return meters.tokens, meters.cost

    def answer(request: ModelRequest) -> Turn:
        live.append((totals(meter), meter.read().run_cost))
        return Turn("done", usage=used(10, 0.5))

    live: list[object] = []
    harness = Harness(ScriptedModel([Turn(calls=(Call("ask_agent"),), usage=used(10, 0.5)), answer]))
    harness.set_tools([ask_agent])
    session = await create_session(MemoryStore(), harness)
    meter = MeterReader(session, Activity(TranscriptView()))
    session.subscribe(
        lambda batch: [meter.take(one.event) for one in batch if isinstance(one, Fact)] and None
    )
    await session.prompt((Text("go"),))
    assert live == [((1010, 0.75), 0.75)]
    later = MeterReader(session, Activity(TranscriptView()))
    await later.count_earlier_usage()
    assert totals(meter) == totals(later) == (1020, 1.25)


def test_the_status_rows_show_the_meters() -> None:
    meters = Meters(
        model="a/b",
        cwd=Path("/src"),
        branch="main",
        activity="thinking",
        seconds=3,
        run_seconds=75,
        run_cost=0.02,
        tokens=12_345,
        cost=1.5,
        context=90_000,
        window=100_000,
        budget="2 steps left",
    )
    assert [part.text for part in status_parts(meters)] == [
        "/src",
        "main",
        "a/b",
        "12k · $1.50",
        "90% of 100k",
        "2 steps left",
    ]
    assert [part.text for part in activity_parts(meters, 0, "esc stops")] == [
        "⠋ thinking · 3 s",
        "run 1:15 · $0.02",
        "esc stops",
    ]


# --- a session that is opened again -------------------------------------------------------------------------


async def grown(session: Session, runs: int) -> None:
    for number in range(runs):
        await session.prompt((Text(f"prompt {number}"),))


async def test_only_the_end_of_a_long_session_is_read(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await grown(session, 100)
    assert session.state.last_seq > 2 * FACTS
    reads: list[int] = []
    read = session.journal.store.read

    async def counted(id: str, after: int = 0, limit: int | None = None) -> list[Fact]:
        facts = await read(id, after, limit)
        reads.append(len(facts))
        return facts

    monkeypatch.setattr(session.journal.store, "read", counted)
    facts, has_more = await restored_facts(session.journal, 40)
    assert has_more
    assert reads == [FACTS]
    blocks = TranscriptView().take(facts)
    assert [block.text for block in blocks if isinstance(block, UserItem)][-1] == "prompt 99"


async def test_an_abandoned_branch_is_not_shown(session: Session) -> None:
    await grown(session, 3)
    facts = await session.journal.history()
    first_answer = next(fact for fact in facts if fact.type == "assistant_message")
    items = TranscriptView().take(visible_facts(facts, first_answer.seq))
    assert [block.text for block in items if isinstance(block, UserItem)] == ["prompt 0"]
    store, id, harness = session.journal.store, session.id, session.harness
    session.journal.record(events.LeafMoved(first_answer.seq), run="")
    await session.journal.commit()
    await session.close()
    again = await open_session(store, id, harness)
    facts, has_more = await restored_facts(again.journal, 40)
    assert not has_more
    texts = [block.text for block in TranscriptView().take(facts) if isinstance(block, UserItem)]
    assert texts == ["prompt 0"]


def test_no_more_items_are_drawn_than_fill_the_rows() -> None:
    drawn: list[str] = []

    class Renderer(ItemRenderer):
        def closed(
            self, item: PrintableItem, width: int, rendering: CallRendering | None = None
        ) -> list[str]:
            assert isinstance(item, NoticeItem)
            drawn.append(item.text)
            return [item.text] * 2

    rows = last_rows([notice(str(number)) for number in range(100)], Renderer(), 5, width=80)
    assert drawn == ["99", "98", "97"]
    assert rows == ["97", "97", "98", "98", "99", "99"]
