"""`ExtensionHost`: applies hooks, tools, commands and context providers of extensions to a harness."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.context.providers import ContextProvider, ProviderRequest
from ostler.context.session_context import SessionContext
from ostler.core.cancellation import CancelToken
from ostler.core.context import Context
from ostler.core.harness import Harness, OpenSession, SessionListener
from ostler.core.hooks import Hook, HookFailed, HookScope, PlannedSwitch, StepPlan, hook_scope
from ostler.core.journal import Journal
from ostler.core.lazy import lazy_module
from ostler.core.tool import Tool
from ostler.extensions.event_channel import own_copy
from ostler.extensions.executor import ExtensionError, described
from ostler.extensions.extension import Command, Extension, HookHandler, RegisteredProvider
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.extension_session import ExtensionSession
from ostler.extensions.idle_host import set_host
from ostler.extensions.ui.front_end import FrontEnd, Headless
from ostler.extensions.ui.ui_host import COMMAND_SECONDS, UIHost
from ostler.schema.errors import NotFound, OstlerError, SessionBusy, UsageError, describe_error

if TYPE_CHECKING:
    from ostler.extensions.context_api import session_info as session_info_module
    from ostler.extensions.loader.reload import HotReload
else:
    session_info_module = lazy_module("ostler.extensions.context_api.session_info")

SWITCH_SECONDS = 600.0
"""How long to wait for a run to end before its session is left."""


class ExtensionHost(SessionListener):
    """All extensions, in order, for one harness and the harnesses of its children. Their hooks come after
    those of the host program, in the order of the extensions and, within one, of registration."""

    is_extension_host = True

    def __init__(
        self,
        extensions: Iterable[Extension] = (),
        *,
        face: FrontEnd | None = None,
        say: Callable[[str], None] = lambda text: None,
        options: dict[str, str] | None = None,
    ) -> None:
        self.extensions: dict[str, Extension] = _by_name(extensions)
        self.face: FrontEnd = face or Headless()
        self.say = say
        self.options = options or {}
        """Options that the user has configured, by name."""
        self.own_requests: set[str] = set()
        """Ids of requests from the front end or from extensions in this process."""
        self.sessions: dict[str, ExtensionSession] = {}
        self.is_observing = False
        self.set_options: dict[str, str] = {}
        """Options that extensions have set."""
        self._harness: Harness | None = None
        self._notices: set[str] = set()
        self._hooks: list[Hook] = []
        self._tool_limits: list[Hook] = []
        """The last hook, which removes tools that extensions have disabled."""
        self._tools: dict[str, Tool] = {}
        """The tools of extensions that are in use."""
        self._has_providers = False
        self._replaced = asyncio.Event()
        self._replaced.set()
        self.reloading: HotReload | None = None
        self.ui = UIHost(self)

    @property
    def loaded(self) -> list[Extension]:
        return [one for one in self.extensions.values() if one.status in ("loaded", "changed")]

    def install_into(self, harness: Harness) -> None:
        """Applies the extensions to every session of this harness from now on, and of its children."""
        self._harness = harness
        set_host(harness, self)
        self.apply()

    def apply(self) -> None:
        """Updates the harness, and those of open sessions, to what is registered now."""
        root = self._harness
        assert root is not None
        hooks = [self._hook(one, hook) for one in self.loaded for hook in one.registered.hooks]
        root.hooks.change([*self._hooks, *self._tool_limits], [*hooks, *self._tool_limits])
        self._hooks = hooks
        if self.face.interactive:
            self.warn_once(self.ui.shortcut_notices())
        self.is_observing = any(one.registered.observers for one in self.loaded)
        for extension_session in self.sessions.values():
            extension_session.observe(self.is_observing)
        if self._has_providers or any(one.registered.providers for one in self.loaded):
            self._has_providers = True
            self.warn_once(provide_context(self, root.context))
        old, offered = self._tools, set(root.tools)
        self._tools = self._extension_tools(root)
        children = [one.session.harness for one in self.sessions.values() if one.session.harness is not root]
        for harness in (root, *children):  # a child may have fewer tools
            harness.extensions = tuple(one.name for one in self.loaded)
            names = self._tools if offered <= set(harness.tools) else harness.tools
            own = {name: tool for name, tool in harness.tools.items() if old.get(name) is not tool}
            new = [tool for name, tool in self._tools.items() if name not in own and name in names]
            harness.set_tools([*own.values(), *new])

    def warn_once(self, notices: list[str]) -> None:
        for notice in notices:
            if notice not in self._notices:
                self._notices.add(notice)
                self.say(notice)

    def limit_tools(self) -> None:
        """From now on, removes the tools that extensions have disabled from the plan of every step."""
        assert self._harness is not None
        if self._tool_limits:
            return

        def remove_disabled(plan: StepPlan, scope: HookScope) -> StepPlan | None:
            return session_info_module.limited(self, scope.session, plan)

        limit = Hook("before_step", remove_disabled, name="active tools")
        self._tool_limits = [limit]
        self._harness.hooks.add(limit)

    def _extension_tools(self, root: Harness) -> dict[str, Tool]:
        """The tools of all extensions. The first one with a name wins."""
        tools: dict[str, Tool] = {}
        for extension in self.loaded:
            for name, tool in extension.registered.tools.items():
                is_own = name in root.tools and root.tools[name] is not self._tools.get(name)
                if is_own or name in tools:
                    self.warn_once([_is_taken(extension, f"tool {name!r}")])
                else:
                    tools[name] = tool
        return tools

    async def replace(self, extensions: Iterable[Extension]) -> None:
        """Replaces extensions: old ones are removed from every session before new ones are added. Their state
        and the options that they set stay."""
        new = _by_name(extensions)
        removed = [name for name, one in self.extensions.items() if new.get(name) is not one]
        self._replaced.clear()
        try:
            for extension_session in tuple(self.sessions.values()):
                for name in removed:
                    await extension_session.remove(name, "reload")
            self.extensions = new
            self.apply()
            for extension_session in tuple(self.sessions.values()):
                extension_session.add_all(self.loaded)
        finally:
            self._replaced.set()

    async def reload(self) -> None:
        """Reloads all extensions; they run when this returns, or from the next step on."""
        if self.reloading is not None:
            await (await self.reloading.reload())

    def warn(self, text: str) -> None:
        """Records a warning in all open sessions, or reports it to the program if there are none."""
        is_recorded = False
        for extension_session in self.sessions.values():
            session = extension_session.session
            if session.position is None and not session.journal.failed:
                extension_session.warn(text)
                is_recorded = True
        if not is_recorded:
            self.say(text)

    def _hook(self, extension: Extension, hook: HookHandler) -> Hook:
        async def run(subject: Any, scope: HookScope) -> Any:
            await self._replaced.wait()
            extension_session = self.sessions.get(scope.session)
            channel = extension_session.channels.get(extension.name) if extension_session else None
            if channel is None and extension.name not in self.extensions:
                return None  # removed a moment ago
            if extension_session is None or channel is None:
                raise HookFailed("it is not active in this session")
            extension_session.flush()
            await channel.drain()
            try:
                return await hook.handler.call(extension.worker, own_copy(subject), channel.context)
            except ExtensionError as failure:
                raise HookFailed(str(failure)) from None
            finally:
                await extension_session.commit()

        return Hook(hook.point, run, hook.guard, extension.name, hook.time_limit, hook.handler.location)

    def on_open(self, session: OpenSession) -> None:
        extension_session = self.sessions[session.id] = ExtensionSession(self, session)
        for extension in self.loaded:
            extension_session.add(extension)

    async def before_step(self, session: OpenSession) -> None:
        """Applies changed extensions."""
        if self.reloading is not None:
            await self.reloading.before_step()

    async def on_idle(self, session: OpenSession) -> None:
        if extension_session := self.sessions.get(session.id):
            await extension_session.drain()
        if self.reloading is not None:
            await self.reloading.on_idle(session)

    async def drain(self, session: OpenSession) -> None:
        if extension_session := self.sessions.get(session.id):
            await extension_session.drain(patient=True)

    async def on_close(self, session: OpenSession) -> None:
        if extension_session := self.sessions.pop(session.id, None):
            await extension_session.close()
        if self.sessions:
            return
        if self.reloading is not None:
            await self.reloading.stop()
        for extension in self.extensions.values():
            extension.worker.abandon()

    def on_tool_error(self, session: str, tool: Tool, error: BaseException) -> None:
        extension_session = self.sessions.get(session)
        for extension in self.loaded:
            if extension_session and extension.registered.tools.get(tool.spec.name) is tool:
                problem = described(error, getattr(tool, "function", tool.run))
                extension_session.report(extension, f"the tool {tool.spec.name}", problem)

    def commands(self) -> dict[str, tuple[Extension, Command]]:
        """Commands by name; the first one with a name wins."""
        commands: dict[str, tuple[Extension, Command]] = {}
        for extension in self.loaded:
            for name, command in extension.registered.commands.items():
                commands.setdefault(name, (extension, command))
        return commands

    def command_named(self, name: str) -> tuple[Extension, Command] | None:
        """A command by name, also with its extension's name, as in `checkpoint:undo`."""
        plain = name.removeprefix("/")
        owner, _, short = plain.rpartition(":")
        for extension in self.loaded:
            if extension.name == owner and short in extension.registered.commands:
                return extension, extension.registered.commands[short]
        return self.commands().get(plain)

    async def run_command(self, session: OpenSession, name: str, arguments: str) -> str:
        match = self.command_named(name)
        if match is None:
            names = ", ".join(sorted(self.commands())) or "none"
            raise NotFound(f"there is no command {name!r}; the extensions' commands are: {names}")
        extension, command = match
        extension_session = self.sessions[session.id]
        context = extension_session.channels[extension.name].context
        try:
            output = await command.handler.call(extension.worker, arguments, context, seconds=COMMAND_SECONDS)
            return "" if output is None else str(output)
        except Exception as failure:
            problem = str(failure) if isinstance(failure, ExtensionError) else describe_error(failure)
            raise CommandFailed(f"the command /{command.name} failed: {problem}") from None
        finally:
            await extension_session.commit()

    def option(self, name: str) -> str:
        if name in self.set_options:
            return self.set_options[name]
        if value := os.environ.get(f"OSTLER_OPT_{name.upper().replace('-', '_')}"):
            return value
        if name in self.options:
            return self.options[name]
        registered = [one.registered.options[name] for one in self.loaded if name in one.registered.options]
        return registered[-1].default if registered else ""

    async def switch(self, context: ExtensionContext, planned: PlannedSwitch) -> str:
        """Switches the front end to another session once no run is open, unless an extension refuses."""
        face = context.face
        if not isinstance(face, Headless):
            await _no_run_is_open(context.journal)
        hooks = context.session.harness.hooks
        scope = hook_scope(context.journal, CancelToken())
        if refusal := await hooks.before_leaving(planned, scope):
            raise UsageError(refusal.reason or "an extension refused to leave the session")
        context.extension_session.channels[context.extension.name].abandon()
        return await face.switch("", planned.prompt)


async def _no_run_is_open(journal: Journal) -> None:
    """Waits until no run is open; raises `SessionBusy` after a while."""
    ended = asyncio.Event()

    def check(batch: object) -> None:
        if journal.state.run is None:
            ended.set()

    check(())
    stop = journal.subscribe(check)
    try:
        await asyncio.wait_for(ended.wait(), SWITCH_SECONDS)
    except TimeoutError:
        raise SessionBusy("the session is busy: leave it when its run has ended") from None
    finally:
        stop()


def _by_name(extensions: Iterable[Extension]) -> dict[str, Extension]:
    """The first extension with a name wins."""
    by_name: dict[str, Extension] = {}
    for one in extensions:
        by_name.setdefault(one.name, one)
    return by_name


class CommandFailed(OstlerError):
    """An extension's command raised or timed out."""


def provide_context(host: ExtensionHost, context: Context | None) -> list[str]:
    """Replaces the context providers of extensions. Returns notices about those that are not used."""
    providers: dict[str, tuple[Extension, RegisteredProvider]] = {}
    notices = []
    for extension in host.loaded:
        for kind, one in extension.registered.providers.items():
            if kind in providers:
                notices.append(_is_taken(extension, f"context provider {kind!r}"))
            else:
                providers[kind] = (extension, one)
    if not isinstance(context, SessionContext):
        return [
            f"the context provider {kind!r} of the extension {extension.name} is not used: the program that "
            "embeds Ostler has its own context"
            for kind, (extension, _) in providers.items()
        ]
    taken = context.set_providers(_guarded(host, extension, one) for extension, one in providers.values())
    return [*notices, *(_is_taken(providers[kind][0], f"context provider {kind!r}") for kind in taken)]


def _is_taken(extension: Extension, what: str) -> str:
    return f"the extension {extension.name} registers a {what}, but that name is taken"


def _guarded(host: ExtensionHost, extension: Extension, registered: RegisteredProvider) -> ContextProvider:
    handler, provider = registered.handler, registered.provider

    async def provide(request: ProviderRequest) -> str | None:
        extension_session = host.sessions.get(request.session)
        channel = extension_session.channels.get(extension.name) if extension_session else None
        if extension_session is None or channel is None:
            return None  # removed a moment ago
        extension_session.flush()
        await channel.drain()
        try:
            limit = registered.time_limit
            text = await handler.call(extension.worker, request, channel.context, seconds=limit)
            if text is not None and not isinstance(text, str):
                raise ExtensionError(f"it returned {text!r:.60}, not a text{handler.location}")
        except ExtensionError as failure:
            extension_session.report(extension, f"the context provider {provider.kind}", str(failure))
            return None
        finally:
            await extension_session.commit()
        return text

    return msgspec.structs.replace(provider, source=provide)
