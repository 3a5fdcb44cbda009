"""A real agent in a real terminal, asked over HTTP."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from ostler.drivers.agent_spec import AgentSpec
from tests.drivers.screen_agents import QUICK, AtWork, at_work, echo_agent
from tests.server.agentapi.readers import EventSourceLike
from tests.server.agentapi.served_agent import ServedAgent, serving

BUSY = "failed to send message: message can only be sent when the agent is waiting for user input"
NOT_TAKEN = (
    "failed to send message: failed to send message: failed to wait for processing to start: "
    "timeout waiting for condition"
)
# Each draws a box like that of the echo agent, so that it is ready at once.
BOX = "'─' * 60 + '\\r\\n> ' + typed + '\\r\\n' + '─' * 60"
SMALL = f"""
import os, sys, tty
tty.setraw(0)
shown = ['hello']
def draw(typed=''):
    text = chr(27) + '[2J' + chr(27) + '[H' + '\\r\\n'.join(shown) + '\\r\\n' + {BOX}
    os.write(1, text.encode())
draw()
keys = b''
"""
SILENT_UNTIL_ENTER = (
    SMALL
    + """
while got := os.read(0, 65536):
    keys += got
    if keys.endswith(b'\\r'):
        shown.append(f'got {len(keys.split(chr(13).encode())[0])} bytes')
        keys = b''
        draw()
"""
)
DEAF = (
    SMALL
    + """
entered = open(sys.argv[1], 'wb', buffering=0)
while got := os.read(0, 65536):
    entered.write(got)
"""
)
SPINNING = (
    SMALL
    + """
import select
number = 0
while True:
    if select.select([0], [], [], 0.05)[0]:
        shown.append(repr(os.read(0, 100)))
    shown[0] = f'working {number}'
    number += 1
    draw()
"""
)
DRAWS = (
    SMALL
    + """
while got := os.read(0, 65536):
    keys += got
    if not keys.endswith(b'\\r'):
        draw('typed')
        continue
    word = keys.rsplit(b'~', 2)[-2].split(b'\\x1b')[0].decode() if b'~' in keys else keys[:-1].decode()
    keys = b''
    if word == 'alternate':
        os.write(1, b'\\x1b[?1049h\\x1b[2J\\x1b[Hother screen')
        import select; select.select([], [], [], 0.1)
        os.write(1, b'\\x1b[?1049l')
        shown.append('back again')
    elif word == 'split':
        os.write(1, 'ä'.encode()[:1])
        import select; select.select([], [], [], 0.05)
        os.write(1, 'ä'.encode()[1:])
        shown.append('whole ä')
    elif word == 'long':
        shown[:] = [f'line {number}' for number in range(1500)]
    else:
        shown.append('the same answer')
    draw()
"""
)


@asynccontextmanager
async def served_agent(agent: AgentSpec, folder: Path) -> AsyncIterator[tuple[ServedAgent, AtWork]]:
    async with at_work(agent) as work:
        uploads = folder / "served"
        uploads.mkdir()
        async with serving(work.session, uploads) as served:
            yield served, work


def script(code: str, folder: Path, *arguments: str, **options: Any) -> AgentSpec:
    command = (sys.executable, "-S", "-E", "-c", code, *arguments)
    settings = {"agent_type": "custom", "rows": 100, "timing": QUICK, **options}
    return AgentSpec(command=command, cwd=folder, **settings)


async def until(served: ServedAgent, holds: Callable[[list[str]], object]) -> list[str]:
    """The messages, as soon as that is so."""
    page = EventSourceLike()
    async with asyncio.timeout(60), served.http.stream("GET", "/events") as events:
        await page.read(events.aiter_raw(), lambda page: holds(list(page.messages.values())))
    return list(page.messages.values())


async def ask(served: ServedAgent, work: AtWork, text: str) -> list[str]:
    answer = await served.say(text)
    assert answer.status_code == 200, answer.text
    await work.until_stable()
    return await served.texts()


async def test_a_conversation_over_http_is_what_streams_and_history_say(tmp_path: Path) -> None:
    async with served_agent(echo_agent(tmp_path), tmp_path) as (served, work):
        assert (await served.http.get("/messages")).json()["messages"][0]["id"] == 0
        page = EventSourceLike()
        async with (
            served.http.stream("GET", "/events") as events,
            served.frames("/internal/screen") as screens,
        ):
            reading = asyncio.ensure_future(page.read(events.aiter_raw(), lambda page: done(page)))

            def done(page: EventSourceLike) -> bool:
                return page.status == "stable" and "you said: hi" in page.messages.get(2, "")

            await work.until_stable()
            assert await served.status() == "stable"
            texts = await ask(served, work, "  hi\n")
            await asyncio.wait_for(reading, 60)
            assert page.messages == dict(enumerate(texts))
            async with asyncio.timeout(60):
                while b"you said: hi" not in await anext(screens):
                    continue
        assert texts[0].strip() == "Hello, I repeat things."
        assert texts[1] == "hi"
        assert texts[2].strip() == "you said: hi"


async def test_a_busy_agent_takes_keys_but_no_message(tmp_path: Path) -> None:
    async with served_agent(echo_agent(tmp_path), tmp_path) as (served, work):
        early = await served.say("too early")
        assert (early.status_code, early.json()["errors"]) == (500, [{"message": BUSY}])
        await work.until_stable()
        pending = asyncio.ensure_future(served.say("/think"))
        await work.until(lambda: work.session.status != "stable")
        async with asyncio.timeout(60):
            assert await served.status() == "running"
        answer = await served.say("another")
        assert answer.json()["errors"] == [{"message": BUSY}]
        assert (await pending).status_code == 200
        before = await served.texts()
        assert (await served.say("   ")).json()["errors"] == [
            {"message": "failed to send message: message must not be empty"}
        ]
        assert (await served.say("\x03", "raw")).status_code == 200
        texts = await until(served, lambda texts: "interrupted" in texts[-1])
        assert len(texts) == len(before) == 3
        await work.until_stable()


async def test_many_lines_arrive_as_one_message_and_the_same_answer_twice_is_two(tmp_path: Path) -> None:
    async with served_agent(echo_agent(tmp_path), tmp_path) as (served, work):
        await work.until_stable()
        said = "look:\n```py\nx = 1 < 2\n```\nthanks"
        texts = await ask(served, work, said)
        assert texts[1] == said
        assert texts[2].strip().split("\n") == [f"you said: {line}" for line in said.split("\n")]
        first = await ask(served, work, "again")
        second = await ask(served, work, "again")
        assert len(second) == len(first) + 2
        assert second[-1].strip() == first[-1].strip() == "you said: again"
        assert (await ask(served, work, "/ask"))[-1].strip().startswith("position ESC[")


async def test_an_agent_that_shows_nothing_until_enter_is_given_the_message(tmp_path: Path) -> None:
    async with served_agent(script(SILENT_UNTIL_ENTER, tmp_path), tmp_path) as (served, work):
        await work.until_stable()
        texts = await ask(served, work, "hello")
        assert texts[1] == "hello"
        assert "got" in texts[2]


async def test_an_agent_that_ignores_enter_has_no_message_of_ours(tmp_path: Path) -> None:
    entered = tmp_path / "entered"
    timing = msgspec.structs.replace(QUICK, processing_timeout=1.0, enter_again=0.21)
    agent = script(DEAF, tmp_path, str(entered), timing=timing)
    async with served_agent(agent, tmp_path) as (served, work):
        await work.until_stable()
        answer = await served.say("hello")
        assert (answer.status_code, answer.json()["errors"]) == (500, [{"message": NOT_TAKEN}])
        assert entered.read_bytes().count(b"\r") > 1
        assert len(await served.texts()) == 1
        await work.until_stable()
        assert await served.status() == "stable"


async def test_an_agent_that_never_stands_still_takes_only_keys(tmp_path: Path) -> None:
    async with served_agent(script(SPINNING, tmp_path), tmp_path) as (served, _):
        await until(served, lambda texts: "working 1" in texts[0])
        assert await served.status() == "running"
        assert (await served.say("hello")).json()["errors"] == [{"message": BUSY}]
        assert (await served.say("k", "raw")).status_code == 200
        assert len(await until(served, lambda texts: "b'k'" in texts[-1])) == 1


async def test_what_a_screen_went_through_is_not_part_of_the_answer(tmp_path: Path) -> None:
    async with served_agent(script(DRAWS, tmp_path), tmp_path) as (served, work):
        await work.until_stable()
        texts = await ask(served, work, "alternate")
        assert "back again" in texts[2] and "other screen" not in texts[2]
        texts = await ask(served, work, "split")
        assert "whole ä" in texts[4] and "\ufffd" not in texts[4]
        texts = await ask(served, work, "long")
        assert len(texts) == 7
        assert "line 1499" in texts[6]


async def test_ending_the_agent_gives_up_a_message_on_its_way(tmp_path: Path) -> None:
    timing = msgspec.structs.replace(QUICK, processing_timeout=60.0)
    agent = script(DEAF, tmp_path, str(tmp_path / "entered"), timing=timing)
    async with served_agent(agent, tmp_path) as (served, work):
        await work.until_stable()
        pending = asyncio.ensure_future(served.say("hello"))
        await work.until(lambda: work.session.status != "stable")
        async with asyncio.timeout(60):
            await work.session.close()
            answer = await pending
        said = "failed to send message: failed to send message: context canceled"
        assert (answer.status_code, answer.json()["errors"]) == (500, [{"message": said}])
        gone = await served.say("x", "raw")
        assert gone.json()["errors"] == [{"message": "failed to send message: the agent has ended"}]
