"""The host of extensions: holds what they registered, and puts it to use in every session of a harness."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from ostler.extensions.attending import Attending
from ostler.extensions.calling import CodeFailed, call, call_within, takes
from ostler.extensions.channel import own_copy
from ostler.extensions.context import ExtensionContext
from ostler.extensions.extension import Extension
from ostler.extensions.face import Face, Headless
from ostler.extensions.registrations import Command, HookHandler
from ostler.kernel.cancel import CancelToken
from ostler.kernel.harness import Attended, Harness
from ostler.kernel.hooks import Hook, HookFailed, PlannedSwitch, asked_in
from ostler.kernel.journal import oversight
from ostler.kernel.tool import Tool
from ostler.vocabulary.errors import NotFound, OstlerError, UsageError

COMMAND_SECONDS = 600.0


class ExtensionHost:
    """Extensions in their order, for one harness and the harnesses of its children.

    The hooks of all extensions stand behind those of the host program, in the order of the extensions and,
    within one, in the order they were registered. A session is attended from its opening to its end.
    """

    def __init__(
        self,
        extensions: Iterable[Extension] = (),
        *,
        face: Face | None = None,
        say: Callable[[str], None] = lambda text: None,
        options: dict[str, str] | None = None,
    ) -> None:
        self.extensions: dict[str, Extension] = {one.name: one for one in extensions}
        self.face: Face = face or Headless()
        self.say = say
        self.options = options or {}
        """What the user has configured, by the option's name."""
        self.own_requests: set[str] = set()
        """Ids of requests that came from the face or from extensions in this process."""
        self.sessions: dict[str, Attending] = {}
        self.is_observing = False
        self.set_options: dict[str, str] = {}
        """What extensions have set."""
        self._harness: Harness | None = None
        self._hooks: list[Hook] = []
        self._own_tools: dict[str, Tool] = {}

    @property
    def loaded(self) -> list[Extension]:
        return [one for one in self.extensions.values() if one.standing in ("loaded", "changed")]

    # --- putting them to use --------------------------------------------------------------------------

    def equip(self, harness: Harness) -> None:
        """From now on the extensions hold in every session of this harness, and in those of its children."""
        self._harness = harness
        self._own_tools = dict(harness.tools)
        harness.attendant = self
        self.apply()

    def apply(self) -> None:
        """Brings the harness up to date with what is registered."""
        harness = self._harness
        assert harness is not None
        harness.extensions = tuple(one.name for one in self.loaded)
        hooks = [self._hook(one, handler) for one in self.loaded for handler in one.registered.hooks]
        harness.hooks.change(self._hooks, hooks)
        self._hooks = hooks
        self.is_observing = any(one.registered.observers for one in self.loaded)
        for attending in self.sessions.values():
            attending.observe(self.is_observing)
        harness.use([*self._own_tools.values(), *self._tools().values()])

    def _tools(self) -> dict[str, Tool]:
        """Those of the extensions. The first who takes a name has it."""
        taken: dict[str, Tool] = {}
        for extension in self.loaded:
            for name, tool in extension.registered.tools.items():
                if name in self._own_tools or name in taken:
                    self.say(f"the extension {extension.name} brings a tool {name!r}, but that name is taken")
                else:
                    taken[name] = tool
        return taken

    def _hook(self, extension: Extension, handler: HookHandler) -> Hook:
        async def ask(subject: Any) -> Any:
            attending = self.sessions.get(asked_in.get())
            channel = attending.channels.get(extension.name) if attending else None
            if attending is None or channel is None:
                raise HookFailed("it is asked in a session that it does not attend")
            attending.hand_on()
            await channel.catch_up()
            arguments = (own_copy(subject), channel.context)[: takes(handler.function)]
            try:
                return await call(extension.worker, handler.function, *arguments)
            except CodeFailed as failure:
                raise HookFailed(str(failure)) from None
            finally:
                await attending.commit()

        return Hook(handler.point, ask, handler.guard, extension.name, handler.time_limit)

    # --- going along with sessions --------------------------------------------------------------------

    def attend(self, session: Attended) -> None:
        attending = self.sessions[session.id] = Attending(self, session)
        for extension in self.loaded:
            attending.admit(extension)

    async def before_step(self, session: Attended) -> None:
        """Extensions that were changed meanwhile take effect here."""

    async def come_to_rest(self, session: Attended) -> None:
        if attending := self.sessions.get(session.id):
            await attending.catch_up()

    async def leave(self, session: Attended) -> None:
        if attending := self.sessions.pop(session.id, None):
            await attending.leave()

    # --- commands and options -------------------------------------------------------------------------

    def commands(self) -> dict[str, tuple[Extension, Command]]:
        """By name; the first who takes one has it."""
        found: dict[str, tuple[Extension, Command]] = {}
        for extension in self.loaded:
            for name, command in extension.registered.commands.items():
                found.setdefault(name, (extension, command))
        return found

    async def run_command(self, session: Attended, name: str, arguments: str) -> str:
        found = self.commands().get(name.removeprefix("/"))
        if found is None:
            known = ", ".join(sorted(self.commands())) or "none"
            raise NotFound(f"there is no command {name!r}; the extensions' commands are: {known}")
        extension, command = found
        attending = self.sessions[session.id]
        context = attending.channels[extension.name].context
        try:
            said = await call_within(
                COMMAND_SECONDS,
                extension.worker,
                command.function,
                *(arguments, context)[: takes(command.function)],
            )
        except CodeFailed as failure:
            raise CommandFailed(f"the command /{command.name} failed: {failure}") from None
        finally:
            await attending.commit()
        return "" if said is None else str(said)

    def option(self, name: str) -> str:
        if name in self.set_options:
            return self.set_options[name]
        if given := os.environ.get(f"OSTLER_OPT_{name.upper().replace('-', '_')}"):
            return given
        if name in self.options:
            return self.options[name]
        registered = [one.registered.options[name] for one in self.loaded if name in one.registered.options]
        return registered[0].default if registered else ""

    async def switch(self, context: ExtensionContext, planned: PlannedSwitch) -> str:
        """Lets the face go to another session, unless an extension does not want it."""
        hooks = context.session.harness.hooks
        over = oversight(context.journal, CancelToken())
        if refusal := await hooks.before_leaving(planned, over):
            raise UsageError(refusal.reason or "an extension does not want to leave the session")
        return await context.face.switch("", planned.prompt)


class CommandFailed(OstlerError):
    """An extension's command raised or hung."""
