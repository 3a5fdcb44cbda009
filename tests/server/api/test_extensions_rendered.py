"""What extensions draw themselves, asked for over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ostler.models.scripted import Call
from tests.server.extended import extended_server, until

DRAWING = '''
from ostler.extensions import Content, Widget

def setup(ostler):
    @ostler.command("show")
    def show(arguments, context):
        context.ui.set_widget(Widget("w", Content("plain", render=lambda width: "\\x1b[32m" + "=" * width)))
        context.ui.set_widget(Widget("broken", Content("plain", render=lambda width: 1 / 0)))

    @ostler.tool
    def shout(word: str) -> str:
        """Says it louder."""
        return word.upper()

    ostler.tool_renderer(
        "shout",
        title="Shouting",
        header=lambda arguments, width: f"{arguments['word']} at {width}",
        body=lambda result, failed, width: f"* {result} * {failed}",
    )
'''


async def test_a_widget_is_drawn_at_the_width_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with extended_server(tmp_path, monkeypatch, code=DRAWING) as served:
        session = await served.new_session()
        async with served.stream(f"sessions/{session}/events") as events:
            await until(events, "caught_up")
            await served.ask(session, "run_command", name="show")
            shown = await asyncio.wait_for(until(events, "live_value", name="widget:helper/w"), 60)
            broken = await asyncio.wait_for(until(events, "live_value", name="widget:helper/broken"), 60)
            path = f"sessions/{session}/live/rendered"
            drawn = await served.get(path, id=shown["value"]["render"]["id"], width=5)
            assert drawn == {"text": "\x1b[32m====="}
            assert await served.get(path, id=broken["value"]["render"]["id"], width=5) == {"text": None}
            assert await served.get(path, id="nobody's", width=5) == {"text": None}
        await served.get(path, status=400, id="x", width=0)
        await served.get("sessions/nobody/live/rendered", status=404, id="x")


async def test_a_call_and_its_result_are_drawn_by_the_renderer_of_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (Call("shout", {"word": "hello"}), "done")
    async with extended_server(tmp_path, monkeypatch, *script, code=DRAWING) as served:
        session = await served.new_session()
        dresses = await served.get(f"sessions/{session}/renderers")
        assert dresses == {"tools": [{"tool": "shout", "title": "Shouting", "header": True, "body": True}]}
        await served.ask(session, "prompt", content=[{"type": "text", "text": "go"}])
        await served.rest(session)
        facts = (await served.get(f"sessions/{session}/events"))["facts"]
        seqs = {fact["type"]: fact["seq"] for fact in facts}
        path = f"sessions/{session}/events/rendered"
        assert await served.get(path, seq=seqs["tool_called"], width=40) == {"text": "hello at 40"}
        assert await served.get(path, seq=seqs["tool_result"]) == {"text": "* HELLO * False"}
        for wrong in (seqs["run_started"], 10_000):
            await served.get(path, status=404, seq=wrong)


async def test_where_nobody_draws_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with extended_server(tmp_path, monkeypatch) as served:
        session = await served.new_session()
        assert await served.get(f"sessions/{session}/renderers") == {"tools": []}
        assert await served.get(f"sessions/{session}/live/rendered", id="w") == {"text": None}
