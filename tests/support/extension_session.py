"""Extensions from a function, in their own session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.store import Store
from ostler.core.tool import ToolContext
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension import Extension
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.host import ExtensionHost
from ostler.schema.facts import Fact
from ostler.sessions.session import Session, create_session
from ostler.store.memory import MemoryStore


@tool
async def work(context: ToolContext) -> str:
    """Prints output."""
    context.output("half way\n")
    return "worked"


def extension(name: str, setup: Callable[[ExtensionAPI], Any]) -> Extension:
    api = ExtensionAPI(name)
    setup(api)
    return Extension(name, "host", registered=api.registered)


async def session_with(
    model: Any, *extensions: Extension, store: Store | None = None, **harness: Any
) -> tuple[Session, ExtensionHost]:
    host = ExtensionHost(extensions)
    made = Harness(model=model, **harness)
    host.install_into(made)
    return await create_session(store or MemoryStore(), made), host


def nothing(ostler: ExtensionAPI) -> None:
    """Registers nothing."""


def context_of(host: ExtensionHost, session: Session, name: str = "mine") -> ExtensionContext:
    return host.sessions[session.id].channels[name].context


async def facts_of(session: Session, *types: str) -> list[Any]:
    facts: list[Fact] = await session.journal.history()
    return [fact.event for fact in facts if fact.type in types]
