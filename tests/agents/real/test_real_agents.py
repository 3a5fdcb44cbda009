"""The vendors' own programs under the driver, from first screen to end, with a fake model behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ostler.drivers import format_message, is_ready, new_text, split_tool_calls
from ostler.drivers.lifecycle import start_agent_session
from ostler.drivers.session import AgentSession
from ostler.schema import requests
from ostler.schema.errors import SessionBusy
from ostler.store.memory import MemoryStore
from ostler.testkit.vendors import FakeVendor
from tests.agents.real.answers import AFTER_THE_TOOL, FIRST, LINES, PLANT, PLANTED, SECOND, SLOW, answering
from tests.agents.real.places import Place, processes_with
from tests.agents.real.programs import PROGRAMS, Program
from tests.agents.real.seen import IS_RENEWED, STEPS, record, renew_row, rows
from tests.drivers.recorded import Moment

PATIENCE = 90.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(480)]


class Driven:
    """A real program at work, and what was seen of it."""

    def __init__(self, program: Program, place: Place, session: AgentSession) -> None:
        self.program = program
        self.place = place
        self.session = session
        self.outcomes = dict.fromkeys(STEPS, "not reached")
        self._before = self._user = ""

    @property
    def said(self) -> str:
        return self.session.messages[-1].text if self.session.messages[-1].role == "agent" else ""

    async def until(self, holds: Callable[[], object]) -> None:
        """Looked at whenever something changes."""
        stirred = asyncio.Event()
        stop = self.session.subscribe(stirred.set)
        self.session.ended.add_done_callback(lambda ended: stirred.set())
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds():
                    await stirred.wait()
                    stirred.clear()
        except TimeoutError:
            shown = "\n".join(filter(None, (row.rstrip() for row in self.session.screen_text.split("\n"))))
            pytest.fail(f"{self.session.status}, and the screen shows:\n{shown}")
        finally:
            stop()

    async def says(self, words: str) -> None:
        """The agent waits, with these words in what it said."""
        await self.until(lambda: self.session.status == "stable" and words in self.said)

    async def ended_or_shows(self, words: str) -> None:
        await self.until(lambda: self.session.ended.done() or (words and words in self.session.screen_text))

    async def ask(self, prompt: str) -> None:
        self._before, self._user = self.session.screen_text, prompt
        await self.session.send(prompt)

    async def record(self, name: str) -> None:
        """Once the message is that of the screen: it is read at intervals, and a mark may blink."""
        if not IS_RENEWED:
            return
        agent_type = self.program.agent_type
        await self.until(
            lambda: message_on(self.session.screen_text, self._before, self._user, agent_type) == self.said
        )
        shown = self.session.screen_text
        said = "\n".join(line.rstrip() for line in self.said.split("\n"))
        moment = Moment(self._before, self._user, shown, is_ready(agent_type, shown), said)
        record(agent_type, name, moment, self.place.home)

    # --- the steps ------------------------------------------------------------------------------------

    async def show_first_screen(self) -> str:
        await self.until(lambda: self.session.status == "stable")
        assert is_ready(self.program.agent_type, self.session.screen_text)
        await self.record("first_screen")
        return "yes"

    async def answer(self, prompt: str, words: str, name: str) -> str:
        await self.ask(prompt)
        await self.says(words)
        assert prompt not in self.said
        await self.record(name)
        return "yes"

    async def use_a_tool(self) -> str:
        await self.ask(PLANT)
        planted = self.place.orchard / PLANTED
        if self.program.asks:
            await self.until(lambda: self.session.status == "asking" and self.program.asks in self.said)
            await self.record("confirmation")
            for text in ("yes", "1", "y", "go on", "/help", "1\n\n"):
                with pytest.raises(SessionBusy):
                    await self.session.send(text.strip())
            assert not planted.exists()
            await self.allow()
        await self.says(self.program.has_planted or AFTER_THE_TOOL)
        await self.record("tool")
        assert planted.read_text() == "orchard\n"
        return "yes" if self.program.asks else "asks nobody"

    async def allow(self) -> None:
        """Chooses what comes first in its dialog."""
        (asked,) = self.session.journal.state.questions.values()
        assert asked.question.choices[0].startswith(self.program.allows)
        answer = requests.Answer(id="allow", question=asked.id, answer=asked.question.choices[0])
        await self.session.journal.store.submit(self.session.id, answer)

    async def be_interrupted(self) -> str:
        await self.ask(SLOW)
        await self.until(lambda: self.said.strip())
        await self.record("thinking")
        await self.until(lambda: "3" in self.said.split())
        assert self.session.status == "changing"
        await self.record("writing")
        self.session.interrupt()
        await self.until(lambda: self.session.status == "stable")
        await self.record("interrupted")
        assert "90" not in self.said.split()
        return "yes"

    async def leave(self) -> str:
        said = [message.text for message in self.session.messages]
        for keys, shown in self.program.leaves:
            self.session.press(keys)
            await self.ended_or_shows(shown)
        assert self.session.ended.done()
        kept = [message.text for message in self.session.messages]
        assert kept[:-1] == said[:-1]
        assert "3" in kept[-1].split()
        assert processes_with(str(self.place.home)) == []
        return "yes"


@asynccontextmanager
async def driven(program: Program, home: Path) -> AsyncIterator[Driven]:
    async with FakeVendor(answering(program.acts, program.tool)) as vendor:
        place = Place(home, vendor)
        session = await start_agent_session(MemoryStore(), program.agent(place))
        try:
            yield Driven(program, place, session)
        finally:
            await session.close()


def message_on(shown: str, before: str, user: str, agent_type: str) -> str:
    return split_tool_calls(
        agent_type, format_message(agent_type, new_text(before, shown, agent_type), user)
    )[0]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.agent_type)
async def test_a_real_program_can_be_driven_from_its_first_screen_to_its_end(
    program: Program, home: Path
) -> None:
    program.require()
    async with driven(program, home) as at_work:
        doing = (
            at_work.show_first_screen,
            lambda: at_work.answer(FIRST, "Prune in winter.", "answer"),
            lambda: at_work.answer(SECOND, "Pears are green.", "second_answer"),
            lambda: at_work.answer(LINES, "I have read it.", "multi_line"),
            at_work.use_a_tool,
            at_work.be_interrupted,
            at_work.leave,
        )
        try:
            for step, do in zip(STEPS, doing, strict=True):
                at_work.outcomes[step] = "no"
                at_work.outcomes[step] = await do()
        finally:
            if IS_RENEWED:
                renew_row(program, at_work.outcomes)
        assert at_work.place.vendor.complaints == []
    assert rows()[program.package][1:-1] == [at_work.outcomes[step] for step in STEPS]
