"""Tests of extensions, in a real session with a scripted model and a front end in memory.

async with ExtensionTest("gate.py") as test:
    test.assert_blocked(await test.tool_call("bash", {"command": "rm -rf /"}), "dangerous")
    await test.prompt("hello")
    test.assert_printed("a run has ended")
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
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
from ostler.schema.events import RunEnded, RunWaiting, ToolResultFact
from ostler.schema.facts import Fact
from ostler.schema.messages import PlainBlock, as_content
from ostler.schema.outcomes import Ok, ok
from ostler.schema.requests import AnyRequest
from ostler.sessions.session import create_session
from ostler.store.memory import MemoryStore
from ostler.testkit.extension_assertions import ExtensionAssertions
from ostler.testkit.front_end import FakeFrontEnd
from ostler.tools import BUILTIN_TOOLS, builtin_tool

PATIENCE = 30.0
"""Seconds after which a test fails instead of waiting longer."""

Content = str | Sequence[str | PlainBlock]


class ExtensionTest(ExtensionAssertions):
    """One extension or several in a session, which an `async with` block opens and closes.

    `extension` is a file, a folder, or a function that is called as `setup`. The model gives the answers of
    `script`, and `face` answers questions. `tools` are available in addition to the extension's own.
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
        self.messages: list[str] = []
        """Messages about extensions outside of a session."""
        self.seen = []
        self.ran: list[tuple[str, dict[str, Any]]] = []
        """Calls of tools that do not exist, which `tool_call` let through."""
        self._store = _RecordingStore()
        self.requests = self._store.submitted
        self._source = Path(extension).absolute() if isinstance(extension, str | Path) else extension
        self._name = name
        self._options = dict(options or {})
        self._versions: list[LoadedVersion] = []

    async def __aenter__(self) -> ExtensionTest:
        extensions = await self._loaded()
        self._host = ExtensionHost(
            extensions, face=self.face, say=self.messages.append, options=self._options
        )
        self._host.install_into(self.harness)
        self._session = await create_session(self._store, self.harness)
        self.face.follow(self._session, self._host)
        self._session.subscribe(self.seen.extend)
        await self._settle()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.session.close()
        for extension in self.host.extensions.values():
            await extension.close()
        for version in self._versions:
            await version.forget()

    async def _loaded(self) -> list[Extension]:
        if not isinstance(self._source, Path):
            extension = Extension(self._name, "host")
            try:
                await set_up(extension, self._source)
            except ExtensionError as failure:
                raise AssertionError(f"the extension cannot be loaded: {failure}") from None
            return [extension]
        search = ExtensionSearch(self.harness.cwd, (self._source,), automatic=False)
        check_named(search)
        self._versions = [LoadedVersion(source, CodeFiles(source)) for source in find_extensions(search)]
        for version in self._versions:
            await version.load()
            if version.extension.status == "failed":
                problem = version.extension.problem
                raise AssertionError(f"the extension {version.candidate.name} cannot be loaded: {problem}")
        return [version.extension for version in self._versions]

    @property
    def context(self) -> ExtensionContext:
        """That of the first extension."""
        return next(iter(self.host.sessions[self.session.id].channels.values())).context

    # --- actions --------------------------------------------------------------------------------------

    async def prompt(self, content: Content) -> RunEnded | RunWaiting:
        """Runs a prompt until its run ends or waits."""
        async with asyncio.timeout(PATIENCE):
            outcome = await self.session.prompt(as_content(content))
            await self._settle()
        return outcome

    async def go_on(self) -> None:
        """Runs the prompts that the extension has sent, one after the other, until none is left."""
        async with asyncio.timeout(PATIENCE):
            while isinstance(await self.session.advance(), RunEnded):
                await self._settle()

    async def tool_call(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResultFact:
        """The result of a call, in a run of its own with a model that makes only this call.

        For a tool that does not exist, the hooks run as usual, and the call is only recorded in `ran`.
        """
        if name not in self.harness.tools:
            self.harness.set_tools([*self.harness.tools.values(), _RecordingTool(name, self.ran)])
        scripted, self.harness.model = self.harness.model, ScriptedModel([Call(name, arguments or {}), ""])
        before = len(self.seen)
        try:
            ended = await self.prompt(f"call {name}")
        finally:
            self.harness.model = scripted
        for fact in self.seen[before:]:
            if isinstance(fact, Fact) and isinstance(fact.event, ToolResultFact):
                return fact.event
        raise AssertionError(f"{name} was never called: {ended}")

    async def emit(self, subject: Any, data: Any = None) -> Any:
        """Passes something to its handlers.

        - The argument of a hook, such as a `PlannedCall`: returns their decision, or what they changed it to.
        - An event, also of the lifecycle: returns None when all observers have received it.
        - A name: an event between extensions, with its data.
        """
        extension_session = self.host.sessions[self.session.id]
        result = None
        async with asyncio.timeout(PATIENCE):
            if isinstance(subject, str):
                await extension_session.emit(subject, data)
            elif type(subject) in _POINTS:
                scope = hook_scope(self.session.journal, CancelToken())
                result = await _POINTS[type(subject)](self.harness.hooks, subject, scope)
            else:
                extension_session.notify(subject)
            await self._settle()
        return result

    async def command(self, name: str, arguments: str = "") -> str:
        """Runs an extension's command and returns its text. Raises `NotFound`, or `CommandFailed`."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.host.run_command(self.session, name, arguments)
            finally:
                await self._settle()

    async def press(self, *keys: str) -> None:
        """Presses keys in the front end: `a`, `enter`, `ctrl+s`."""
        async with asyncio.timeout(PATIENCE):
            await self.face.press(*keys)
            await self._settle()

    async def _settle(self) -> None:
        """Waits until the extension has received all events, and the front end what the extension shows."""
        extension_session = self.host.sessions[self.session.id]
        await extension_session.drain()
        await extension_session.commit()
        extension_session.live_values.flush()


class _RecordingStore(MemoryStore):
    """Records the requests to its sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.submitted: list[AnyRequest] = []

    async def submit(self, session: str, request: AnyRequest) -> bool:
        self.submitted.append(request)
        return await super().submit(session, request)


class _RecordingTool:
    """Replaces a tool that does not exist, and records its calls."""

    def __init__(self, name: str, ran: list[tuple[str, dict[str, Any]]]) -> None:
        self.spec = ToolSpec(name, "Replaces a tool.", {"type": "object"})
        if name in BUILTIN_TOOLS:
            self.spec = builtin_tool(name).spec
        self._ran = ran

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Ok:
        self._ran.append((self.spec.name, arguments))
        return ok("done")


async def _before_tool(handlers: hooks.Hooks, planned: hooks.PlannedCall, scope: hooks.HookScope) -> Any:
    rewritten, decision = await handlers.before_tool(planned, scope)
    if decision is None and rewritten.arguments != planned.arguments:
        return hooks.Rewrite(rewritten.arguments)
    return decision


_POINTS: dict[type, Callable[[hooks.Hooks, Any, hooks.HookScope], Any]] = {
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
