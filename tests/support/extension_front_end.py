"""Extensions in a session with a front end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ostler.core.harness import Harness
from ostler.core.store import Store
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.host import ExtensionHost
from ostler.models.scripted import ScriptedModel
from ostler.sessions.session import Session, create_session
from ostler.store.memory import MemoryStore
from ostler.testkit.front_end import FakeFrontEnd
from tests.support.extension_session import extension


async def opened(
    face: FakeFrontEnd | None = None,
    setup: Callable[[ExtensionAPI], Any] = lambda ostler: None,
    *,
    model: Any = None,
    store: Store | None = None,
    **harness: Any,
) -> tuple[Session, ExtensionHost, ExtensionContext]:
    """A session with one extension, `demo`, and its context there."""
    host = ExtensionHost([extension("demo", setup)], face=face)
    made = Harness(model=model or ScriptedModel([]), asker=face.ask if face else None, **harness)
    host.install_into(made)
    session = await create_session(store or MemoryStore(), made)
    if face:
        face.follow(session, host)
    return session, host, host.sessions[session.id].channels["demo"].context


async def until(session: Session, condition: Callable[[], Any]) -> None:
    """Waits until the condition holds, checking it after each fact or live value."""
    news = asyncio.Event()
    stop = session.subscribe(lambda batch: news.set())
    async with asyncio.timeout(60):
        while not condition():
            news.clear()
            await news.wait()
    stop()
