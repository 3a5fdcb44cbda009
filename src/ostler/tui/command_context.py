"""What commands use of a terminal, and the switch to another session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

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
    def face(self) -> ContextFrontEnd: ...

    @property
    def app(self) -> Printer: ...

    @property
    def panels(self) -> Panels: ...

    @property
    def writing(self) -> ContextComposer: ...

    @property
    def commands(self) -> Commands: ...

    @property
    def switching(self) -> SessionSwitch: ...

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
    def book(self) -> ThemeRegistry: ...

    def theme(self) -> str: ...

    def set_theme(self, name: str) -> None: ...

    def editor_text(self) -> str: ...

    def set_editor_text(self, text: str) -> None: ...

    def suspended(self) -> AbstractAsyncContextManager[None]: ...


class ContextComposer(Protocol):
    @property
    def shell(self) -> ShellCommands: ...

    @property
    def waiting(self) -> PromptQueue: ...


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


Reason = Literal["new", "open", "fork", "import", "clear"]
BUSY = "a run is in progress: press esc to stop it, or wait until it ends"


class SessionSwitch:
    """Opens another session in the same terminal, before it closes this one: if opening fails, nothing
    changes."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._one_at_a_time = asyncio.Lock()

    async def wish(self, reason: Reason, session: str = "", prompt: str = "") -> str:
        """Switches for a person, unless a run is in progress here or an extension refuses."""
        conversation = self._context.conversation
        if not conversation.is_elsewhere and await conversation.is_busy():
            raise SessionBusy(BUSY)
        harness = conversation.harness
        if "before_switch" in harness.hooks:
            planned = PlannedSwitch(conversation.session.id, reason, prompt)
            over = hook_scope(conversation.session.journal, CancelToken())
            if refusal := await harness.hooks.before_leaving(planned, over):
                raise UsageError(refusal.reason or "an extension refused to leave the session")
        return await self.to(session, prompt)

    async def to(self, session: str, prompt: str = "", store: Store | None = None) -> str:
        """Switches to a session or a new one, in this store or another; returns its id."""
        async with self._one_at_a_time:
            left = self._context.conversation
            if session == left.session.id:
                return session
            there = await self._open(session, left, store or left.store)
            conversation = Conversation(there, left.host, self._context.see)
            await self._context.writing.shell.stop()
            await left.close()
            await self._context.show(conversation)
        if prompt:
            await self._context.submit(prompt)
        return there.id

    async def _open(self, session: str, leaving: Conversation, store: Store) -> Session:
        """Opens the session; a new one keeps the model of the one before."""
        left, stored = leaving.harness, leaving.session.state.settings
        session_context = left.context.for_child() if left.context else None
        harness = msgspec.structs.replace(left, context=session_context)
        _equip(harness)
        try:
            if isinstance(store, RemoteSessions):
                name = session or await store.begin(harness.cwd, stored.model, stored.reasoning)
                there = await follow_session(store, name, harness)
                harness.cwd = Path(there.state.cwd)
            elif session:
                there = await open_or_follow(store, session, harness)
            else:
                there = await create_session(store, harness)
                if stored.model:
                    changed = SettingsChanged(model=stored.model, reasoning=stored.reasoning, by="tui")
                    there.journal.record(changed)
        except OstlerError:
            _equip(left)
            raise
        self._keep_model(there)
        if Path(there.state.cwd) != harness.cwd:
            before, now = quoted(there.state.cwd), quoted(harness.cwd)
            self._context.say(f"the session started in {before}; its tools now work in {now}")
        return there

    def _keep_model(self, session: Session) -> None:
        """Sets the stored model of the session, if it can be used here."""
        stored = session.state.settings
        if not stored.model or stored.model == session.harness.model.name:
            return
        try:
            session.harness.set_model(stored.model, stored.reasoning)
        except OstlerError as error:
            self._context.say(f"{stored.model} cannot answer here: {error.message}")


def _equip(harness: Harness) -> None:
    """Installs the extensions into the harness."""
    for listener in harness.listeners:
        if isinstance(listener, IdleHost):
            listener.equip(harness)
    if (host := active_host(harness)) is not None:
        host.install_into(harness)
