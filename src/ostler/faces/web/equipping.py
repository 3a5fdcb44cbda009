"""What a session works with when the server drives it. Nobody is asked anything on the server's terminal."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from pathlib import Path

from ostler.faces.cli.equipping import rules_of, settings_from, terminal_agents
from ostler.faces.cli.extending import extended
from ostler.faces.cli.saying import say
from ostler.faces.web.extension_face import Switch, WebFace
from ostler.kernel.harness import Harness
from ostler.kernel.journal import Journal
from ostler.kernel.model import Model
from ostler.runs.absent_model import AbsentModel
from ostler.runs.assembly import make_harness
from ostler.runs.first_run import settled
from ostler.runs.model_choice import model_maker
from ostler.runs.settings import Settings
from ostler.vocabulary.errors import OstlerError, StoreError
from ostler.vocabulary.events import Warned

TYPE_CHECKING = False
if TYPE_CHECKING:  # most have no such agents
    from ostler.terminals.delegated_agent import OnStart

WHERE_PAGES_ASK = {"permissions": "ask", "on_question": "wait"}
"""What holds here, where nobody has set it: somebody can answer, sooner or later."""


class Equipping:
    """Makes harnesses as the options of `ostler serve` and the settings of each folder say."""

    def __init__(self, options: argparse.Namespace, switch: Switch, on_agent: OnStart | None = None) -> None:
        """`on_agent` is told of each agent of another vendor that a run starts."""
        self._options = options
        self._switch = switch
        self._on_agent = on_agent
        self._said: set[str] = set()
        self._telling: set[asyncio.Future[None]] = set()

    def settings(self, cwd: Path) -> Settings:
        return settings_from(self._options, cwd, WHERE_PAGES_ASK)

    async def equip(self, cwd: Path) -> Harness:
        """Also where no model can answer: then whoever asks one is told why, and all else works."""
        settings, model = await asyncio.to_thread(self._answering, self.settings(cwd))
        rules, agents = rules_of(self._options), terminal_agents(settings, self._on_agent)
        harness = make_harness(settings, cwd, say=self._say, context=rules, model=model, agent_tool=agents)
        face = WebFace(harness, self._switch)

        def tell(text: str) -> None:
            face.notices.append(text)
            self._say(text)

        await extended(self._options, settings, harness, face, tell=tell, asks=False)
        if face.notices:
            self._tell_in_log(harness, tuple(face.notices))
        return harness

    async def look_around(self, cwd: Path) -> None:
        """Says which model answers where none is named, or why none can."""
        _, model = await asyncio.to_thread(self._answering, self.settings(cwd))
        if isinstance(model, AbsentModel):
            self._say(model.why)
        await model.aclose()

    def _answering(self, settings: Settings) -> tuple[Settings, Model]:
        """Looks around, and may run a program for a key: not for the event loop."""
        try:
            settings = settled(settings, say=self._say)
            return settings, model_maker(settings)(settings.model)
        except OstlerError as error:
            return settings, AbsentModel(error.message)

    def _say(self, text: str) -> None:
        """On standard error, once: each session is equipped anew."""
        if text not in self._said:
            self._said.add(text)
            say(text)

    def _tell_in_log(self, harness: Harness, notices: tuple[str, ...]) -> None:
        """Whoever looks at the session is not whoever reads the server's standard error."""
        own = harness.attend

        def attend(journal: Journal) -> None:
            if own is not None:
                own(journal)
            if not journal.state.child_of:
                telling = asyncio.ensure_future(_record_news(journal, notices))
                self._telling.add(telling)
                telling.add_done_callback(self._telling.discard)

        harness.attend = attend


async def _record_news(journal: Journal, notices: tuple[str, ...]) -> None:
    """What the log does not say yet: a session is opened many times."""
    with suppress(StoreError):  # the session was given back meanwhile, or whoever drives it is told
        facts = await journal.store.read(journal.session)
        known = {fact.event.text for fact in facts if isinstance(fact.event, Warned)}
        for notice in notices:
            if notice not in known:
                journal.record(Warned(notice, about="extension"))
        await journal.commit()
