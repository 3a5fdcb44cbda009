"""Runs of a scripted agent, with everything an observer got."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.hooks import Hook, Hooks
from ostler.core.store import Store
from ostler.core.tool import Tool
from ostler.models.scripted import Script, ScriptedModel
from ostler.schema.events import RunEnded, RunWaiting
from ostler.schema.facts import Fact
from ostler.schema.live_events import Event
from ostler.schema.messages import as_content, text_of
from ostler.sessions.session import Session, create_session
from ostler.store.memory import MemoryStore


@tool
async def add(a: int, b: int = 1) -> str:
    return str(a + b)


@dataclass
class Ran:
    """A session after a run, with everything an observer got."""

    session: Session
    model: ScriptedModel
    seen: list[Fact | Event] = field(default_factory=list)
    quiet: RunEnded | RunWaiting | None = None

    @property
    def types(self) -> list[str]:
        return [item.type for item in self.seen]

    @property
    def facts(self) -> list[Fact]:
        return [item for item in self.seen if isinstance(item, Fact)]

    def all(self, kind: type[Any]) -> list[Any]:
        events = [item.event if isinstance(item, Fact) else item for item in self.seen]
        return [event for event in events if isinstance(event, kind)]

    def results(self) -> list[str]:
        """The text of each tool result, in the order of the facts."""
        return [text_of(fact.event.content) for fact in self.facts if fact.type == "tool_result"]

    @property
    def status(self) -> str:
        assert isinstance(self.quiet, RunEnded)
        return self.quiet.status


async def started(
    script: Script | ScriptedModel,
    *,
    tools: Iterable[Tool] = (),
    hooks: Iterable[Hook] = (),
    store: Store | None = None,
    **harness: Any,
) -> Ran:
    """A session that is ready to be prompted."""
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(script)
    built = Harness(model, hooks=Hooks(tuple(hooks)), **harness)
    built.set_tools(tools)
    session = await create_session(store or MemoryStore(), built)
    ran = Ran(session, model)
    session.subscribe(ran.seen.extend)
    return ran


async def run(script: Script | ScriptedModel, prompt: str = "go", **options: Any) -> Ran:
    """Runs one prompt."""
    ran = await started(script, **options)
    ran.quiet = await ran.session.prompt(as_content(prompt))
    return ran
