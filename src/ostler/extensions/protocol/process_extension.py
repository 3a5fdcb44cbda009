"""`ProcessExtension`: an extension in any language; its frames become registrations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from ostler.extensions.event_channel import CATCH_UP_SECONDS
from ostler.extensions.executor import ExtensionError, Handler
from ostler.extensions.extension import Command, Extension, HookHandler, Observer
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.extension_session import SessionLeft, SessionOpened, TerminalResized
from ostler.extensions.loader.discovery import Origin
from ostler.extensions.protocol import frames
from ostler.extensions.protocol.adapters import (
    POINTS,
    Decision,
    EventTranslator,
    Panels,
    ProcessTool,
    intercept,
    is_live,
    types_behind,
)
from ostler.extensions.protocol.client import Client, Limits
from ostler.extensions.protocol.process import Manifest, read_manifest
from ostler.schema.errors import ConfigurationError, OstlerError, UsageError

_MAX_NOTES = 20


class ProcessExtension(Extension):
    """An extension with one process for all open sessions. The process ends when the last session is closed,
    and is started again with the next. Its registrations stay until it is reloaded, so its guards refuse
    while the process is down."""

    def __init__(
        self, manifest: Manifest, folder: Path, origin: Origin, limits: Limits, check: Callable[[], None]
    ) -> None:
        folder = folder.absolute()
        super().__init__(manifest.name, origin, folder, version=manifest.version)
        self.client = Client(
            manifest, folder, limits, check=check, on_frame=self._take, on_down=self._down, on_up=self._up
        )
        self.panels = Panels(self.name, self.client)
        self._translator = EventTranslator(self.name)
        self._sessions: dict[str, ExtensionContext] = {}
        self._intercepts: dict[frames.Intercepted, HookHandler] = {}
        self._notes: list[frames.Notify] = []
        self._conflicts: set[str] = set()
        self._tasks: set[asyncio.Future[None]] = set()
        self._observer = Observer(Handler.of(self._observe), batch=True)
        for kind in (SessionOpened, SessionLeft, TerminalResized):
            self._see(kind)

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(sorted(self._translator.subscribed))

    async def start(self) -> None:
        """Raises `ExtensionError` or `ConfigurationError`."""
        await self.client.start()
        self.version = self.client.version

    async def close(self) -> None:
        """Ends the process. Its sessions may be closed afterwards."""
        self.panels.close_all()
        await self.client.stop()
        await super().close()

    def panel_key(self, session: str, panel: str, key: str, text: str) -> bool:
        """Passes a key to a panel; False if it is not open. `ctrl+c` always closes the panel; the extension
        gets every other key, also `esc`."""
        if key == "ctrl+c":
            return self.panels.close(session, panel, by_user=True)
        return self.panels.key(session, panel, key, text)

    async def _observe(self, batch: Sequence[Any], context: ExtensionContext) -> None:
        for event in batch:
            if isinstance(event, SessionOpened):
                await self._join(context)
            for frame in self._translator.frames_of(event, context):
                self.client.send(frame, live=is_live(event))
            if isinstance(event, TerminalResized):
                self.panels.resize(context.session_id, event.width, event.height)
            if isinstance(event, SessionLeft):
                await self._leave(context)

    async def _join(self, context: ExtensionContext) -> None:
        is_first = not self._sessions
        self._sessions[context.session_id] = context
        if is_first:
            self._report_conflicts(context)
            notes, self._notes = self._notes, []
            for note in notes:
                self._notify(note)
        try:
            await self.client.start()
        except (ExtensionError, OstlerError) as error:
            self._down(str(error))

    async def _leave(self, context: ExtensionContext) -> None:
        self.panels.close_all(context.session_id)
        self._translator.forget(context.session_id)
        if self._sessions.get(context.session_id) is not context:
            return
        if len(self._sessions) == 1:
            await self.client.stop()  # its last frames still belong to this session
        del self._sessions[context.session_id]

    def _down(self, problem: str) -> None:
        """Reports that the process has ended."""
        self.panels.close_all()
        context = next(iter(self._sessions.values()), None)
        if context is None:
            self._keep(frames.Notify(problem, "error"))
            return
        context.extension_session.report(self, "its process", problem)
        self._spawn(context.extension_session.commit())

    def _up(self) -> None:
        """Starts the sessions again in a restarted process."""
        for context in self._sessions.values():
            for frame in self._translator.session_start(context, "restart"):
                self.client.send(frame)

    def _take(self, frame: frames.AnyReceived) -> None:
        match frame:
            case frames.RegisterTool():
                self._register_tool(frame)
            case frames.RegisterCommand():
                self._register_command(frame)
            case frames.Subscribe():
                self._subscribe(frame)
            case frames.Notify():
                self._notify(frame)
            case frames.PanelRender():
                self.panels.render(frame)
            case frames.PanelClose():
                self.panels.close(frame.session, frame.panel_id)
            case frames.StateGet() | frames.StateSet() | frames.StateDelete() | frames.StateList():
                self._use_state(frame)

    def _register_tool(self, frame: frames.RegisterTool) -> None:
        tool = ProcessTool(frame, self.client, self.name)
        old = self.registered.tools.get(frame.name)
        if old is None or old.spec != tool.spec:
            self.registered.tools[frame.name] = tool
            self._apply()

    def _register_command(self, frame: frames.RegisterCommand) -> None:
        name = frame.name.removeprefix("/")

        async def run(arguments: str, context: ExtensionContext) -> str:
            return await self._run_command(name, arguments, context)

        self.registered.commands[name] = Command(name, Handler.of(run), frame.description)
        self._apply()

    def _subscribe(self, frame: frames.Subscribe) -> None:
        unknown = []
        for name in frame.events:
            kinds = types_behind(name)
            if not kinds:
                unknown.append(name)
                continue
            self._translator.subscribed.add(name)
            for kind in kinds:
                self._see(kind)
        for point in frame.intercept:
            self._intercept(point, frame.guard)
        self._apply()
        if unknown:
            raise UsageError(f"there is no event {unknown[0]!r:.60} to subscribe to")

    def _see(self, kind: type) -> None:
        self.registered.observers.setdefault(kind, [self._observer])

    def _intercept(self, point: frames.Intercepted, guard: bool) -> None:
        async def ask(subject: Any, context: ExtensionContext) -> Decision:
            return await intercept(self.client, self.name, subject, context)

        # This limit covers delays on our side; the extension's own limit starts with the request.
        seconds = self.client.limits.intercept + CATCH_UP_SECONDS + 1
        handler = HookHandler(POINTS[point], Handler.of(ask), guard, seconds)
        hooks = self.registered.hooks
        if point in self._intercepts:
            hooks[hooks.index(self._intercepts[point])] = handler
        else:
            hooks.append(handler)
        self._intercepts[point] = handler

    def _apply(self) -> None:
        """Applies new registrations to open sessions, from their next step on."""
        contexts = tuple(self._sessions.values())
        for context in contexts:
            if channel := context.extension_session.channels.get(self.name):
                channel.kinds = frozenset(self.registered.observers)
        for host in {id(context.host): context.host for context in contexts}.values():
            host.apply()
        if contexts:
            self._report_conflicts(contexts[0])

    def _report_conflicts(self, context: ExtensionContext) -> None:
        """Reports, once each, tools and commands whose names are taken."""
        offered = context.session.harness.tools
        owners = {name: extension for name, (extension, _) in context.host.commands().items()}
        tools, commands = self.registered.tools, self.registered.commands
        conflicts = [f"tool {name}" for name in tools if offered.get(name, tools[name]) is not tools[name]]
        conflicts += [f"command /{name}" for name in commands if owners.get(name, self) is not self]
        for what in conflicts:
            if what not in self._conflicts:
                self._conflicts.add(what)
                problem = f"its {what} is not used: that name is taken"
                if what.startswith("command"):  # the host reports tools
                    context.print_error(f"{self.name}: {problem}")
                self.client.send(frames.Problem(problem))

    async def _run_command(self, name: str, arguments: str, context: ExtensionContext) -> str:
        client = self.client
        request = frames.CommandInvoked(client.new_id(), name, arguments, context.session_id)
        answer = await client.ask(request, frames.CommandResponse, client.limits.command)
        if answer.error:
            raise ExtensionError(answer.error)
        match answer.action:
            case "prompt":
                await context.send(answer.prompt)
            case "insert":
                if not context.interactive:
                    return answer.insert
                context.face.set_editor_text(context.face.editor_text() + answer.insert)
            case "display":
                return answer.display
            case "open_panel":
                if answer.open_panel is None:
                    raise ExtensionError("it answered open_panel without a panel")
                self.panels.open(context, answer.open_panel)
            case "noop":
                pass
            case _:
                raise ExtensionError(f"it answered with an unknown action: {answer.action!r:.60}")
        return ""

    def _notify(self, frame: frames.Notify) -> None:
        if not self._sessions:
            self._keep(frame)
            return
        context = self._context(frame.session)
        if frame.level == "error":
            context.print_error(frame.message)
        else:
            context.print_info(f"Warning: {frame.message}" if frame.level == "warn" else frame.message)

    def _keep(self, note: frames.Notify) -> None:
        """Keeps a note until there is a session to show it in."""
        self._notes = [*self._notes, note][-_MAX_NOTES:]

    def _use_state(
        self, frame: frames.StateGet | frames.StateSet | frames.StateDelete | frames.StateList
    ) -> None:
        try:
            context = self._context(frame.session)
            match frame:
                case frames.StateGet(id=id, key=key):
                    self.client.send(frames.StateResult(id, value=context.state.get(key)))
                    return
                case frames.StateList(id=id):
                    self.client.send(frames.StateResult(id, keys=tuple(context.state)))
                    return
                case frames.StateSet(key=key, value=None):
                    raise UsageError(f"null cannot be stored under {key!r}: send state_delete instead")
                case frames.StateSet(key=key, value=value):
                    context.state[key] = value
                case frames.StateDelete(key=key):
                    context.state.pop(key, None)
        except OstlerError as error:
            if not frame.id:
                raise
            self.client.send(frames.StateResult(frame.id, error=error.message))
            return
        self._spawn(self._commit_state(frame.id, context))

    async def _commit_state(self, id: str, context: ExtensionContext) -> None:
        await context.extension_session.commit()
        if id:
            failed = context.journal.failed
            self.client.send(frames.StateResult(id, error=failed.message if failed else ""))

    def _context(self, session: str) -> ExtensionContext:
        """The context of a session, or of the one that was opened first."""
        context = self._sessions.get(session) if session else next(iter(self._sessions.values()), None)
        if context is None:
            raise UsageError(f"there is no open session {session}" if session else "no session is open yet")
        return context

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def load_process_extension(
    folder: Path, origin: Origin, *, limits: Limits | None = None, check: Callable[[], None] = lambda: None
) -> Extension:
    """The extension in a folder with an `extension.json`: ready, disabled, or failed with its problem.
    `check` is called before each start of its process, and raises `ExtensionError` to prevent it. The process
    ends with the last session of the extension; without a session, call `ProcessExtension.close`."""
    try:
        manifest = read_manifest(folder)
    except ConfigurationError as error:
        return Extension(folder.name, origin, folder, status="failed", problem=error.message)
    if not manifest.enabled:
        return Extension(manifest.name, origin, folder, status="disabled", version=manifest.version)
    extension = ProcessExtension(manifest, folder, origin, limits or Limits(), check)
    try:
        await extension.start()
    except (ExtensionError, ConfigurationError) as error:
        extension.status, extension.problem = "failed", str(error)
    return extension
