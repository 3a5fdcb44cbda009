"""What commands use of a terminal, and the switch to another session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ostler.app.remote_sessions import RemoteSessions
from ostler.core.cancellation import CancelToken
from ostler.core.harness import Harness
from ostler.core.hooks import PlannedSwitch, hook_scope
from ostler.core.store import Store
from ostler.extensions.idle_host import IdleHost, active_host
from ostler.schema.errors import OstlerError, SessionBusy, UsageError
from ostler.schema.events import SettingsChanged
from ostler.sessions.session import Session, create_session, follow_session, open_or_follow
from ostler.tui.conversation import Conversation
from ostler.tui.render.spans import quoted

if TYPE_CHECKING:
    from ostler.extensions.ui.themes import ThemeColors, ThemeRegistry
    from ostler.history.items import CallItem, Level
    from ostler.schema.events import Event
    from ostler.schema.facts import Fact
    from ostler.tui.commands.registry import Commands
    from ostler.tui.panels.panel import Panels
    from ostler.tui.prompt_queue import PromptQueue
    from ostler.tui.render.items import ItemRenderer
    from ostler.tui.shell import ShellCommands


class CommandContext(Protocol):
    """What commands and the parts of a terminal use of it; plain mode has one, too."""

    conversation: Conversation
    """Of the session that is shown; another one after `show`."""

    @property
    def rows(self) -> ItemRenderer: ...
    @property
    def front_end(self) -> ContextFrontEnd: ...
    @property
    def app(self) -> Printer: ...
    @property
    def panels(self) -> Panels: ...
    @property
    def composer(self) -> ContextComposer: ...
    @property
    def commands(self) -> Commands: ...
    @property
    def session_switch(self) -> SessionSwitch: ...
    def colors(self) -> ThemeColors | None: ...

    def say(self, text: str, level: Level = "info") -> None:
        """Prints a message of a command."""

    def show_notice(self, text: str) -> None:
        """Shows a message until the next key."""

    def print_item(self, item: CallItem) -> None: ...

    def write(self, text: str) -> None:
        """Writes control sequences for the terminal itself."""

    def see(self, batch: Sequence[Fact | Event]) -> None:
        """Takes what happens in the conversation."""

    async def show(self, conversation: Conversation) -> None:
        """Shows another session in place of the present one."""

    async def submit(self, text: str) -> None:
        """Sends a text as if a person had typed it."""

    def quit(self) -> None: ...


class ContextFrontEnd(Protocol):
    """The part of a front end that commands use."""

    @property
    def themes(self) -> ThemeRegistry: ...
    def theme(self) -> str: ...
    def set_theme(self, name: str) -> None: ...
    def editor_text(self) -> str: ...
    def set_editor_text(self, text: str) -> None: ...
    def suspended(self) -> AbstractAsyncContextManager[None]: ...


class ContextComposer(Protocol):
    @property
    def shell(self) -> ShellCommands: ...
    @property
    def queue(self) -> PromptQueue: ...


class Size(Protocol):
    @property
    def columns(self) -> int: ...


class Printer(Protocol):
    """Prints rows that stay."""

    @property
    def size(self) -> Size: ...
    @property
    def ends_blank(self) -> bool: ...
    def print(self, rows: Sequence[str]) -> None: ...
    def refresh(self) -> None:
        """Draws what has changed."""


SetUp = Callable[[CommandContext], Coroutine[Any, Any, None]]
"""Sets up a model in the first run."""

Reason = Literal["new", "open", "fork", "import", "clear"]
BUSY = "a run is in progress: press esc to stop it, or wait until it ends"


class SessionSwitch:
    """Opens another session, and then closes the present one: if opening fails, nothing changes."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._lock = asyncio.Lock()

    async def request(self, reason: Reason, session: str = "", prompt: str = "") -> str:
        """Switches for a person, unless a run is in progress here or an extension refuses."""
        conversation = self._context.conversation
        if not conversation.is_elsewhere and await conversation.is_busy():
            raise SessionBusy(BUSY)
        hooks = conversation.harness.hooks
        if "before_switch" in hooks:
            planned = PlannedSwitch(conversation.session.id, reason, prompt)
            scope = hook_scope(conversation.session.journal, CancelToken())
            if refusal := await hooks.before_leaving(planned, scope):
                raise UsageError(refusal.reason or "an extension refused to leave the session")
        return await self.to(session, prompt)

    async def to(self, session: str, prompt: str = "", store: Store | None = None) -> str:
        """Switches to a session or a new one, in this store or another; returns its id."""
        async with self._lock:
            present = self._context.conversation
            if session == present.session.id:
                return session
            opened = await self._open(session, present, store or present.store)
            conversation = Conversation(opened, present.host, self._context.see)
            await self._context.composer.shell.stop()
            await present.close()
            await self._context.show(conversation)
        if prompt:
            await self._context.submit(prompt)
        return opened.id

    async def _open(self, name: str, present: Conversation, store: Store) -> Session:
        """Opens the session; a new one keeps the model of the present one."""
        settings = present.session.state.settings
        context = present.harness.context.for_child() if present.harness.context else None
        harness = msgspec.structs.replace(present.harness, context=context)
        _equip(harness)
        try:
            if isinstance(store, RemoteSessions):
                name = name or await store.begin(harness.cwd, settings.model, settings.reasoning)
                session = await follow_session(store, name, harness)
                harness.cwd = Path(session.state.cwd)
            elif name:
                session = await open_or_follow(store, name, harness)
            else:
                session = await create_session(store, harness)
                if settings.model:
                    changed = SettingsChanged(model=settings.model, reasoning=settings.reasoning, by="tui")
                    session.journal.record(changed)
        except OstlerError:
            _equip(present.harness)
            raise
        stored = session.state.settings
        if stored.model and stored.model != harness.model.name:
            try:
                harness.set_model(stored.model, stored.reasoning)
            except OstlerError as error:
                self._context.say(f"{stored.model} cannot answer here: {error.message}")
        if Path(session.state.cwd) != harness.cwd:
            before, now = quoted(session.state.cwd), quoted(harness.cwd)
            self._context.say(f"the session started in {before}; its tools now work in {now}")
        return session


def _equip(harness: Harness) -> None:
    """Installs the extensions into the harness."""
    for listener in harness.listeners:
        if isinstance(listener, IdleHost):
            listener.harness = harness
    if (host := active_host(harness)) is not None:
        host.install_into(harness)
