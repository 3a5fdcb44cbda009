"""Extensions made of a function, in a session of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ostler.extensions.api import Ostler
from ostler.extensions.context import ExtensionContext
from ostler.extensions.extension import Extension
from ostler.extensions.host import ExtensionHost
from ostler.kernel.harness import Harness
from ostler.kernel.store import Store
from ostler.kernel.tool import ToolContext, tool
from ostler.log.memory import MemoryStore
from ostler.runs.session import Session, create_session
from ostler.vocabulary.facts import Fact


@tool
async def work(context: ToolContext) -> str:
    """Works, and shows it."""
    context.output("half way\n")
    return "worked"


def extension(name: str, setup: Callable[[Ostler], Any]) -> Extension:
    api = Ostler(name)
    setup(api)
    return Extension(name, "host", registered=api.registered)


async def session_with(
    model: Any, *extensions: Extension, store: Store | None = None, **harness: Any
) -> tuple[Session, ExtensionHost]:
    host = ExtensionHost(extensions)
    made = Harness(model=model, **harness)
    host.equip(made)
    return await create_session(store or MemoryStore(), made), host


def nothing(ostler: Ostler) -> None:
    """Registers nothing."""


def context_of(host: ExtensionHost, session: Session, name: str = "mine") -> ExtensionContext:
    return host.sessions[session.id].channels[name].context


async def facts_of(session: Session, *types: str) -> list[Any]:
    facts: list[Fact] = await session.journal.history()
    return [fact.event for fact in facts if fact.type in types]
