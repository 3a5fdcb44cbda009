"""`ExtensionContext`, which every handler gets, and the state that an extension stores in a session."""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine, Iterator, MutableMapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

import msgspec

from ostler.core.hooks import PlannedSwitch
from ostler.core.journal import Journal
from ostler.core.lazy import lazy_module
from ostler.extensions.executor import LoopBridge
from ostler.extensions.extension import Extension
from ostler.extensions.ui.front_end import FrontEnd, Headless
from ostler.schema import requests
from ostler.schema.errors import UsageError
from ostler.schema.events import ExtensionState, Printed
from ostler.schema.facts import storage_problem
from ostler.schema.messages import PlainBlock, as_content

if TYPE_CHECKING:
    from ostler.extensions.context_api import history as history_module
    from ostler.extensions.context_api import models as models_module
    from ostler.extensions.context_api import session_info as session_info_module
    from ostler.extensions.context_api import skills as skills_module
    from ostler.extensions.context_api import subagents as subagents_module
    from ostler.extensions.context_api import templates as templates_module
    from ostler.extensions.context_api.subagents import SpawnOptions, Subagent, SubagentResult
    from ostler.extensions.extension_session import ExtensionSession
    from ostler.extensions.host import ExtensionHost
    from ostler.extensions.ui import session_ui as session_ui_module
else:
    history_module = lazy_module("ostler.extensions.context_api.history")
    models_module = lazy_module("ostler.extensions.context_api.models")
    session_info_module = lazy_module("ostler.extensions.context_api.session_info")
    skills_module = lazy_module("ostler.extensions.context_api.skills")
    subagents_module = lazy_module("ostler.extensions.context_api.subagents")
    templates_module = lazy_module("ostler.extensions.context_api.templates")
    session_ui_module = lazy_module("ostler.extensions.ui.session_ui")

Kind = TypeVar("Kind")


class State(MutableMapping[str, Any]):
    """A mapping of strings to JSON values. `None` cannot be stored: it means a missing key.

    - A value is a fact of the session, committed atomically by the time the handler returns.
    - It belongs to the session: a fork starts with a copy, and navigating the tree changes nothing.
    - If the log cannot be written, setting raises `StoreError`, and the old value stays.
    """

    def __init__(self, extension: str, journal: Journal, calls: LoopBridge) -> None:
        self._extension = extension
        self._journal = journal
        self._calls = calls

    def __getitem__(self, key: str) -> Any:
        return copy.deepcopy(self._values()[key])

    def __setitem__(self, key: str, value: Any) -> None:
        try:
            # As the next process reads it: keys that are numbers become strings, NaN becomes None.
            plain = msgspec.json.decode(msgspec.json.encode(value))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the value of {key!r} cannot be stored: {error}") from None
        if plain is None:
            raise UsageError(f"None cannot be stored under {key!r}: delete the key instead")
        fact = ExtensionState(self._extension, key, plain)
        if problem := storage_problem(fact):
            raise UsageError(f"the value of {key!r} cannot be stored: {problem}")
        self._calls.call(lambda: self._journal.record(fact))

    def __delitem__(self, key: str) -> None:
        if key not in self._values():
            raise KeyError(key)
        self._calls.call(lambda: self._journal.record(ExtensionState(self._extension, key)))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._values()))

    def __len__(self) -> int:
        return len(self._values())

    def read(self, key: str, kind: type[Kind], default: Kind) -> Kind:
        """The value converted to a type, also a struct; the default if it is missing or does not match."""
        if key not in self:
            return default
        try:
            return msgspec.convert(self[key], kind)
        except msgspec.ValidationError:
            return default

    def _values(self) -> dict[str, Any]:
        return self._journal.state.extension_state.get(self._extension, {})


Returned = TypeVar("Returned")
Content = str | Sequence[str | PlainBlock]


class ExtensionContext:
    """One extension in one session. Handlers may hold on to it while the session is open. Members that wait
    are coroutines: an `async` handler awaits them, a plain one calls
    `context.wait(context.ui.confirm("Sure?"))`."""

    def __init__(self, extension: Extension, extension_session: ExtensionSession) -> None:
        self.extension = extension
        self.extension_session = extension_session
        self.session = extension_session.session
        self.journal = extension_session.session.journal
        self.calls = extension_session.calls

    @property
    def host(self) -> ExtensionHost:
        return self.extension_session.host

    @property
    def session_id(self) -> str:
        return self.session.id

    @property
    def parent(self) -> str:
        """The parent session's id, or empty. Handlers are called in children too."""
        return self.journal.state.child_of

    @property
    def cwd(self) -> Path:
        return self.session.harness.cwd

    @property
    def model(self) -> str:
        """With its provider: `anthropic/claude-…`."""
        return self.session.harness.model.name

    @property
    def interactive(self) -> bool:
        """Whether a user is at a front end in this process."""
        return self.face.interactive

    @property
    def face(self) -> FrontEnd:
        """The front end that sent the current request; `Headless` if it came from elsewhere."""
        run = self.journal.state.run
        request = run.started.request if run else ""
        return Headless() if request and request not in self.host.own_requests else self.host.face

    @property
    def is_idle(self) -> bool:
        return not self.session.is_running

    @property
    def is_asking(self) -> bool:
        """Whether a question of this extension is open here."""
        return "ui" in vars(self) and self.ui.is_asking

    def wait(self, work: Coroutine[Any, Any, Returned]) -> Returned:
        """Runs a coroutine and returns its result, for plain functions."""
        return self.calls.run(work)

    def print(self, text: str) -> None:
        """Displays a text to users; never on standard output with `--json`."""
        self._print("plain", text)

    def print_info(self, text: str) -> None:
        self._print("info", text)

    def print_error(self, text: str) -> None:
        self._print("error", text)

    def print_block(self, text: str, *, title: str = "", color: str = "") -> None:
        """Prints a text in a frame, with a title below."""
        self._print("block", text, title, color)

    def _print(
        self, level: Literal["plain", "info", "error", "block"], text: str, title: str = "", color: str = ""
    ) -> None:
        # Text that cannot be encoded would fail where it is written as JSON.
        text, title, color = (str(one).encode(errors="replace").decode() for one in (text, title, color))
        printed = Printed(text, level, self.extension.name, title, color)
        self.calls.call(lambda: self.journal.publish([printed]))

    async def render_message(self, name: str, text: str) -> None:
        """Prints a text with the renderer of that name, at the terminal's width (80 if it has none); as it is
        if there is no such renderer."""
        width = self.face.size()[0] or 80
        rendered = await self.host.ui.render_message(self.session_id, name, text, width)
        self.print(text if rendered is None else rendered)

    def exit(self) -> None:
        """Closes the front end, if there is one."""
        self.calls.call(lambda: self.face.exit())

    def spawn(self, prompt: Content, **options: Unpack[SpawnOptions]) -> Subagent:
        """Starts a child that works in the background, in its own session, under the same guards. It belongs
        to the current run, which ends after it, or else to the session. Raises `UsageError` for an unknown
        model, agent or tool."""
        return subagents_module.spawn(self, prompt, options)

    async def run_subagent(self, prompt: Content, **options: Unpack[SpawnOptions]) -> SubagentResult:
        """Spawns a child and waits for its result."""
        return await self.spawn(prompt, **options).wait()

    @cached_property
    def ui(self) -> session_ui_module.ExtensionUI:
        """Widgets, dialogs, themes, the editor."""

        # While a handler waits, others run in other threads: all must get the same object.
        def make() -> session_ui_module.ExtensionUI:
            vars(self).setdefault("ui", session_ui_module.ExtensionUI(self))
            return self.ui

        return self.calls.call(make)

    @cached_property
    def history(self) -> history_module.History:
        """Messages, entries, the tree."""
        return history_module.History(self)

    @cached_property
    def models(self) -> models_module.Models:
        """The current model, available models, and completions."""
        return models_module.Models(self)

    @cached_property
    def tools(self) -> session_info_module.Tools:
        """The session's tools, and which of them the model is offered."""
        return session_info_module.Tools(self)

    @cached_property
    def skills(self) -> skills_module.Skills:
        return skills_module.Skills(self)

    @cached_property
    def templates(self) -> templates_module.Templates:
        """The grammar of prompt templates and of arguments."""
        return templates_module.Templates(self)

    async def usage(self) -> session_info_module.SessionUsage:
        """The usage of the session's model calls, and of its children."""
        return await session_info_module.session_usage(self)

    def context_stats(self) -> session_info_module.ContextStats:
        """How full the model's context window is, and how that was counted."""
        return self.calls.call(lambda: session_info_module.context_stats(self))

    async def last_run(self) -> session_info_module.LastRun | None:
        """The last completed run: its answer, calls and totals. None before the first."""
        return await session_info_module.last_run(self)

    @cached_property
    def state(self) -> State:
        """Its own values in this session."""
        return State(self.extension.name, self.journal, self.calls)

    def state_of(self, extension: str) -> State:
        """Another extension's values."""
        return State(extension, self.journal, self.calls)

    def option(self, name: str) -> str:
        """The value of a registered option: as set by `set_option`, else in the environment
        (`OSTLER_OPT_NAME`), else in the configuration, else its default."""
        return self.host.option(name)

    def set_option(self, name: str, value: str) -> None:
        """Sets an option until the process ends, across reloads."""
        self.host.set_options[name] = value

    async def emit(self, name: str, data: Any = None) -> None:
        """Emits an event to all extensions that subscribe to its name."""
        await self.extension_session.emit(name, data)

    async def send(self, content: Content) -> str:
        """Sends a prompt: it starts a run, or is queued while one is open. Returns the request's id."""
        return await self._submit(requests.Prompt, content=as_content(content))

    async def steer(self, content: Content) -> str:
        """Sends a message to the model between two steps."""
        return await self._submit(requests.Steer, content=as_content(content))

    async def abort(self) -> None:
        """Cancels the current run, and drops queued prompts."""
        await self._submit(requests.ReleasePrompts, drop=True)
        if self.session.is_running:
            self.session.cancel(f"cancelled by {self._by}")

    async def cancel_and_send(self, content: Content) -> str:
        """Cancels the current run, drops queued prompts, and sends this one."""
        await self.abort()
        request = await self.send(content)
        await self._submit(requests.ReleasePrompts)
        return request

    async def compact(self, instructions: str = "") -> str:
        """Requests a compaction: before the next model call of the current run, else at once."""
        return await self._submit(requests.Compact, instructions=instructions)

    async def reload(self) -> None:
        """Reloads all extensions. The new ones run before the next step of a run, after the calling handler
        has returned."""
        if self.host.reloading is not None:
            await self.host.reloading.reload()

    async def new_session(self, prompt: str = "") -> str:
        """Switches the front end to a new session once the run has ended; returns its id. Raises
        `SessionBusy` if that takes too long, and `UsageError` if an extension or the front end refuses."""
        return await self.host.switch(self, PlannedSwitch(self.session_id, "new", prompt))

    async def _submit(self, kind: Callable[..., requests.AnyRequest], **fields: Any) -> str:
        request = kind(id=self.journal.world.new_id("req"), by=self._by, **fields)
        self.host.own_requests.add(request.id)
        await self.journal.store.submit(self.session_id, request)
        return request.id

    @property
    def _by(self) -> str:
        return f"extension {self.extension.name}"
