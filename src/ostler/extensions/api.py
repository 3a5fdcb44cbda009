"""`ExtensionAPI`, the argument of an extension's `setup`: everything that it can register."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

from ostler.context.providers import ContextProvider
from ostler.core.function_tool import tool as make_tool
from ostler.core.hooks import (
    TIME_LIMIT,
    Allow,
    Ask,
    ContextDraft,
    DraftMessage,
    FailedCall,
    FinishedCall,
    GiveUp,
    Handled,
    InputDraft,
    PlannedCall,
    PlannedCompaction,
    PlannedFork,
    PlannedSwitch,
    Point,
    Refuse,
    Replace,
    Retry,
    Rewrite,
    RunPlan,
    StepPlan,
    Summary,
    Suppress,
)
from ostler.core.tool import Tool, ToolOptions
from ostler.extensions.executor import Handler
from ostler.extensions.extension import (
    Command,
    HookHandler,
    MessageRenderer,
    Observer,
    Option,
    RegisteredProvider,
    Registrations,
    Shortcut,
    ToolRenderer,
)
from ostler.extensions.ui.front_end import shortcut_key
from ostler.schema.errors import UsageError

if TYPE_CHECKING:
    from ostler.extensions.extension_context import ExtensionContext

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Subject = TypeVar("Subject")
Decision = TypeVar("Decision")

HandlerCode = (
    Callable[[Subject], Decision | Awaitable[Decision | None] | None]
    | Callable[[Subject, "ExtensionContext"], Decision | Awaitable[Decision | None] | None]
)
"""A function that takes the subject, or the subject and the context. Returning None decides nothing."""


class HookPoint(Generic[Subject, Decision]):
    """`@ostler.before_tool`, or with options: `@ostler.before_tool(guard=False, time_limit=5)`. A guard that
    fails or times out refuses; any other handler is reported and skipped."""

    def __init__(self, point: Point, registered: Registrations, guard: bool = False) -> None:
        self._point = point
        self._registered = registered
        self._guard = guard

    @overload
    def __call__(self, function: HandlerCode[Subject, Decision], /) -> HandlerCode[Subject, Decision]: ...
    @overload
    def __call__(
        self, *, guard: bool | None = None, time_limit: float = TIME_LIMIT
    ) -> Callable[[HandlerCode[Subject, Decision]], HandlerCode[Subject, Decision]]: ...
    def __call__(
        self, function: Any = None, *, guard: bool | None = None, time_limit: float = TIME_LIMIT
    ) -> Any:
        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            refuses = self._guard if guard is None else guard
            self._registered.hooks.append(HookHandler(self._point, Handler.of(function), refuses, time_limit))
            return function

        return register if function is None else register(function)


class ExtensionAPI:
    """Registers handlers, tools, commands and more. Each method is a decorator, or takes the object itself.

    A handler takes the subject, or the subject and the `context` (see `ExtensionContext`). A plain function
    runs in the extension's own thread, an `async` one on the event loop. Handlers of one extension never run
    concurrently.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.registered = registered = Registrations()
        self.input: HookPoint[InputDraft, InputDraft | Handled | Refuse] = HookPoint("input", registered)
        """A prompt is about to start a run: `InputDraft` -> a changed one, `Handled`, `Refuse` or None."""
        self.before_run: HookPoint[RunPlan, RunPlan | Refuse] = HookPoint("before_run", registered)
        """A run is about to begin: `RunPlan` -> a changed one, `Refuse` or None."""
        self.before_step: HookPoint[StepPlan, StepPlan | Refuse] = HookPoint("before_step", registered)
        """A step is about to begin: `StepPlan` -> a changed one, `Refuse` or None."""
        self.context: HookPoint[ContextDraft, ContextDraft] = HookPoint("context", registered)
        """The context of one model call: `ContextDraft` -> a changed one or None. It is not stored."""
        self.before_tool: HookPoint[PlannedCall, Refuse | Rewrite | Ask | Allow] = HookPoint(
            "before_tool", registered, guard=True
        )
        """A call is about to run: `PlannedCall` -> `Refuse`, `Rewrite`, `Ask`, `Allow` or None. A guard."""
        self.after_tool: HookPoint[FinishedCall, FinishedCall] = HookPoint("after_tool", registered)
        """A result is about to go to the model: `FinishedCall` -> a changed one or None."""
        self.before_message: HookPoint[DraftMessage, Suppress | Replace] = HookPoint(
            "before_message", registered
        )
        """An answer is about to be displayed: `DraftMessage` -> `Suppress`, `Replace` or None."""
        self.after_failure: HookPoint[FailedCall, Retry | GiveUp] = HookPoint("after_failure", registered)
        """A model call failed: `FailedCall` -> `Retry`, `GiveUp` or None."""
        self.before_fork: HookPoint[PlannedFork, Refuse] = HookPoint("before_fork", registered)
        """A session is about to be copied: `PlannedFork` -> `Refuse` or None."""
        self.before_switch: HookPoint[PlannedSwitch, Refuse] = HookPoint("before_switch", registered)
        """A front end is about to switch to another session: `PlannedSwitch` -> `Refuse` or None."""
        self.before_compact: HookPoint[PlannedCompaction, Refuse | Summary] = HookPoint(
            "before_compact", registered
        )
        """A summary is about to replace messages: `PlannedCompaction` -> `Refuse`, `Summary` or None."""

    @overload
    def on(
        self, what: type[Subject], /, *, batch: Literal[False] = False
    ) -> Callable[[HandlerCode[Subject, None]], HandlerCode[Subject, None]]: ...
    @overload
    def on(
        self, what: type[Subject], /, *, batch: Literal[True]
    ) -> Callable[[HandlerCode[tuple[Subject, ...], None]], HandlerCode[tuple[Subject, ...], None]]: ...
    @overload
    def on(
        self, what: type, second: type, /, *more: type, batch: bool = False
    ) -> Callable[[Decorated], Decorated]: ...
    @overload
    def on(self, what: str, /, *more: str) -> Callable[[Decorated], Decorated]: ...
    def on(self, *what: type | str, batch: bool = False) -> Any:
        """Subscribes to facts, deltas, live values and lifecycle events of these types, in order. With
        `batch` the handler gets a tuple of all events since its last call. A name instead of a type
        subscribes to an event between extensions (`context.emit`); its handler gets the data."""
        if not what:
            raise UsageError("name the events: @ostler.on(ToolStarted)")

        def register(function: Decorated) -> Decorated:
            observer = Observer(Handler.of(function), batch)
            for one in what:
                if isinstance(one, str):
                    self.registered.custom.setdefault(one, []).append(observer.handler)
                elif isinstance(one, type):
                    self.registered.observers.setdefault(one, []).append(observer)
                else:
                    raise UsageError(f"@ostler.on takes types of events and names, not {one!r:.60}")
            return function

        return register

    @overload
    def tool(self, function: Callable[..., Any] | Tool, /) -> Tool: ...
    @overload
    def tool(self, **options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...
    def tool(self, function: Any = None, **options: Unpack[ToolOptions]) -> Any:
        """A tool for the model: a typed function, as with `ostler.tool`, or a `Tool` object."""

        def register(one: Any) -> Tool:
            tool: Tool = one if hasattr(one, "spec") else make_tool(**options)(one)
            self.registered.tools[tool.spec.name] = tool
            return tool

        return register if function is None else register(function)

    @overload
    def context_provider(
        self, provider: ContextProvider, /, *, time_limit: float = TIME_LIMIT
    ) -> ContextProvider: ...
    @overload
    def context_provider(
        self, kind: str, /, *, time_limit: float = TIME_LIMIT, **how: Any
    ) -> Callable[[Decorated], Decorated]: ...
    def context_provider(
        self, provider: ContextProvider | str, /, *, time_limit: float = TIME_LIMIT, **how: Any
    ) -> Any:
        """Adds a `ContextProvider`; or decorates the function that returns the text, which gets a
        `ProviderRequest`: `@ostler.context_provider("memory", placement="system")`."""

        def register(one: ContextProvider) -> ContextProvider:
            self.registered.providers[one.kind] = RegisteredProvider(one, Handler.of(one.source), time_limit)
            return one

        def decorate(function: Decorated) -> Decorated:
            assert isinstance(provider, str)
            register(ContextProvider(provider, function, **how))
            return function

        return register(provider) if isinstance(provider, ContextProvider) else decorate

    def command(
        self, name: str, *, description: str = "", complete: Callable[..., Any] | None = None
    ) -> Callable[[Decorated], Decorated]:
        """A command for users: `/name arguments`. Its function gets the arguments as one string."""

        def register(function: Decorated) -> Decorated:
            plain = name.removeprefix("/")
            if not plain or any(letter.isspace() for letter in plain):
                raise UsageError(f"a command's name must not be empty or contain spaces: {name!r}")
            about = description or (function.__doc__ or "").strip().partition("\n")[0]
            completer = complete and Handler.of(complete)
            self.registered.commands[plain] = Command(plain, Handler.of(function), about, completer)
            return function

        return register

    def shortcut(self, key: str, *, description: str = "") -> Callable[[Decorated], Decorated]:
        """A keyboard shortcut such as `ctrl+shift+s`: the function gets the context."""
        plain = shortcut_key(key)

        def register(function: Decorated) -> Decorated:
            is_repeated = plain in self.registered.shortcuts
            self.registered.shortcuts[plain] = Shortcut(plain, Handler.of(function), description, is_repeated)
            return function

        return register

    def option(self, name: str, *, description: str = "", default: str = "") -> Option:
        """A setting: read with `context.option(name)`. The last default wins."""
        option = self.registered.options[name] = Option(name, description, default)
        return option

    def tool_renderer(self, renderer: ToolRenderer | str, /, **how: Any) -> ToolRenderer:
        """How front ends render calls of a tool: `ostler.tool_renderer("deploy", header=…, body=…)`."""
        renderer = ToolRenderer(renderer, **how) if isinstance(renderer, str) else renderer
        self.registered.tool_renderers[renderer.tool] = renderer
        return renderer

    def message_renderer(self, name: str) -> Callable[[Decorated], Decorated]:
        """A named renderer: the function gets a text and a width, and returns the lines."""

        def register(function: Decorated) -> Decorated:
            self.registered.message_renderers[name] = MessageRenderer(name, function)
            return function

        return register
