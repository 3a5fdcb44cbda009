"""Testing an extension: it is loaded as always, in a real session with a scripted model and a face in memory.

async with ExtensionTest("gate.py") as test:
    test.assert_blocked(await test.tool_call("bash", {"command": "rm -rf /"}), "dangerous")
    await test.prompt("hello")
    test.assert_printed("a run has ended")
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ostler.core import hooks
from ostler.core.cancellation import CancelToken
from ostler.core.harness import Harness
from ostler.core.hooks import hook_scope
from ostler.core.tool import Tool, ToolContext, ToolSpec
from ostler.extensions.executor import ExtensionError
from ostler.extensions.extension import Extension
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.host import ExtensionHost
from ostler.extensions.loader.code_files import CodeFiles
from ostler.extensions.loader.discovery import ExtensionSearch, check_named, find_extensions
from ostler.extensions.loader.module_loader import LoadedVersion, Setup, set_up
from ostler.models.scripted import Call, Script, ScriptedModel
from ostler.schema.events import Event, RunEnded, RunWaiting, ToolResultFact
from ostler.schema.facts import Fact
from ostler.schema.messages import PlainBlock, as_content
from ostler.schema.outcomes import Ok, ok
from ostler.schema.requests import AnyRequest
from ostler.sessions.session import Session, create_session
from ostler.store.memory import MemoryStore
from ostler.testkit.extension_assertions import ExtensionAssertions
from ostler.testkit.front_end import FakeFrontEnd
from ostler.tools import BUILTIN_TOOLS, builtin_tool

PATIENCE = 30.0
"""Seconds after which a test does not wait any longer."""

Content = str | Sequence[str | PlainBlock]


class ExtensionTest(ExtensionAssertions):
    """One extension, or a few, at work. An `async with` block opens the session and closes it.

    `extension` is a file, a folder, or a function that is called as `setup`. The model gives the answers of
    `script`; the face answers what is asked, and `tools` are there besides those of the extension.
    """

    def __init__(
        self,
        extension: Path | str | Setup,
        script: Script = (),
        *,
        face: FakeFrontEnd | None = None,
        tools: Iterable[Tool] = (),
        options: Mapping[str, str] | None = None,
        name: str = "extension",
        **harness: Any,
    ) -> None:
        self.model = ScriptedModel(script)
        self.face = face or FakeFrontEnd()
        self.harness = Harness(self.model, asker=self.face.ask, **harness)
        self.harness.set_tools(tools)
        self.said: list[str] = []
        """What was said about extensions outside of a session."""
        self.seen: list[Fact | Event] = []
        """All that happened in the session: facts, deltas and live values."""
        self.ran: list[tuple[str, dict[str, Any]]] = []
        """Calls of tools that are not there, which `tool_call` let through."""
        self._store = _NotingStore()
        self._what = Path(extension).absolute() if isinstance(extension, str | Path) else extension
        self._name = name
        self._options = dict(options or {})
        self._versions: list[LoadedVersion] = []
        self._session: Session | None = None
        self._host: ExtensionHost | None = None

    async def __aenter__(self) -> ExtensionTest:
        self._host = ExtensionHost(
            await self._loaded(), face=self.face, say=self.said.append, options=self._options
        )
        self._host.install_into(self.harness)
        self._session = await create_session(self._store, self.harness)
        self.face.follow(self._session, self._host)
        self._session.subscribe(self.seen.extend)
        await self._settle()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.close()
        for extension in self.host.extensions.values():
            await extension.close()
        for version in self._versions:
            await version.forget()

    async def _loaded(self) -> list[Extension]:
        if not isinstance(self._what, Path):
            extension = Extension(self._name, "host")
            try:
                await set_up(extension, self._what)
            except ExtensionError as failure:
                raise AssertionError(f"the extension cannot be loaded: {failure}") from None
            return [extension]
        search = ExtensionSearch(self.harness.cwd, (self._what,), automatic=False)
        check_named(search)
        self._versions = [LoadedVersion(found, CodeFiles(found)) for found in find_extensions(search)]
        for version in self._versions:
            await version.load()
            if version.extension.status == "failed":
                problem = version.extension.problem
                raise AssertionError(f"the extension {version.candidate.name} cannot be loaded: {problem}")
        return [version.extension for version in self._versions]

    # --- what it is made of ---------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        if self._session is None:
            raise RuntimeError("use it as `async with ExtensionTest(…) as test:`")
        return self._session

    @property
    def host(self) -> ExtensionHost:
        if self._host is None:
            raise RuntimeError("use it as `async with ExtensionTest(…) as test:`")
        return self._host

    @property
    def context(self) -> ExtensionContext:
        """That of the first extension."""
        return next(iter(self.host.sessions[self.session.id].channels.values())).context

    @property
    def requests(self) -> list[AnyRequest]:
        """What was asked of sessions, in order."""
        return self._store.submitted

    # --- what a test does -----------------------------------------------------------------------------

    async def prompt(self, content: Content) -> RunEnded | RunWaiting:
        """A run, to its end."""
        async with asyncio.timeout(PATIENCE):
            quiet = await self.session.prompt(as_content(content))
            await self._settle()
        return quiet

    async def go_on(self) -> None:
        """Runs what the extension has sent, one prompt after the other, until nothing is left."""
        async with asyncio.timeout(PATIENCE):
            while isinstance(await self.session.advance(), RunEnded):
                await self._settle()

    async def tool_call(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResultFact:
        """What comes of a call, in a run of its own: a model that knows only this asks for it.

        A tool that is not there is taken to be: hooks are asked as always, and nothing is done.
        """
        if name not in self.harness.tools:
            self.harness.set_tools([*self.harness.tools.values(), _StandIn(name, self.ran)])
        scripted, self.harness.model = self.harness.model, ScriptedModel([Call(name, arguments or {}), ""])
        before = len(self.seen)
        try:
            ended = await self.prompt(f"call {name}")
        finally:
            self.harness.model = scripted
        results = [one for one in self.events_since(before) if isinstance(one, ToolResultFact)]
        if not results:
            raise AssertionError(f"{name} was never called: {ended}")
        return results[0]

    async def emit(self, subject: Any, data: Any = None) -> Any:
        """Hands something to its handlers.

        - What a hook is asked about, such as a `PlannedCall`: returns what they made of it, or decided.
        - An event or a moment: returns None when all who observe it have seen it.
        - A name: an event between extensions, with its data.
        """
        extension_session = self.host.sessions[self.session.id]
        decided = None
        async with asyncio.timeout(PATIENCE):
            if isinstance(subject, str):
                await extension_session.emit(subject, data)
            elif type(subject) in _POINTS:
                over = hook_scope(self.session.journal, CancelToken())
                decided = await _POINTS[type(subject)](self.harness.hooks, subject, over)
            else:
                extension_session.notify(subject)
            await self._settle()
        return decided

    async def command(self, name: str, arguments: str = "") -> str:
        """What an extension's command says. Raises `NotFound`, or `CommandFailed`."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.host.run_command(self.session, name, arguments)
            finally:
                await self._settle()

    async def press(self, *keys: str) -> None:
        """Keys in the face: `a`, `enter`, `ctrl+s`."""
        async with asyncio.timeout(PATIENCE):
            await self.face.press(*keys)
            await self._settle()

    async def _settle(self) -> None:
        """All that has happened was seen by the extension, and what that shows by the face."""
        extension_session = self.host.sessions[self.session.id]
        await extension_session.drain()
        await extension_session.commit()
        extension_session.live_values.flush()


class _NotingStore(MemoryStore):
    """Remembers what was asked of its sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.submitted: list[AnyRequest] = []

    async def submit(self, session: str, request: AnyRequest) -> bool:
        self.submitted.append(request)
        return await super().submit(session, request)


class _StandIn:
    """In the place of a tool that is not there: it notes with what it was called."""

    def __init__(self, name: str, ran: list[tuple[str, dict[str, Any]]]) -> None:
        known = builtin_tool(name).spec if name in BUILTIN_TOOLS else None
        self.spec = known or ToolSpec(name, "Stands in for a tool.", {"type": "object"})
        self._ran = ran

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Ok:
        self._ran.append((self.spec.name, arguments))
        return ok("done")


Ask = Callable[[hooks.Hooks, Any, hooks.HookScope], Any]


async def _before_tool(asked: hooks.Hooks, planned: hooks.PlannedCall, over: hooks.HookScope) -> Any:
    rewritten, decided = await asked.before_tool(planned, over)
    if decided is None and rewritten.arguments != planned.arguments:
        return hooks.Rewrite(rewritten.arguments)
    return decided


_POINTS: dict[type, Ask] = {
    hooks.InputDraft: hooks.Hooks.input,
    hooks.RunPlan: hooks.Hooks.before_run,
    hooks.StepPlan: hooks.Hooks.before_step,
    hooks.ContextDraft: hooks.Hooks.context,
    hooks.PlannedCall: _before_tool,
    hooks.FinishedCall: hooks.Hooks.after_tool,
    hooks.DraftMessage: hooks.Hooks.before_message,
    hooks.FailedCall: hooks.Hooks.after_failure,
    hooks.PlannedFork: hooks.Hooks.before_leaving,
    hooks.PlannedSwitch: hooks.Hooks.before_leaving,
    hooks.PlannedCompaction: hooks.Hooks.before_compact,
}
