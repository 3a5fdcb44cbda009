"""`context.models`: the current model, the available ones, and completions outside the steps of a run.

A completion is recorded, priced, and counted against the run's limits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from inspect import unwrap
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import msgspec

from ostler.core.cancellation import running_stopwatch
from ostler.core.completion import OnText, complete_message, text_in
from ostler.core.harness import ONE_MODEL_ONLY, Harness
from ostler.core.hooks import TIME_LIMIT
from ostler.core.model import Model, ModelDone, ReasoningLevel
from ostler.core.recovery import close_interrupted_calls
from ostler.core.transcript import Transcript
from ostler.extensions.executor import ExtensionError, call_within
from ostler.models.catalogue import ASSUMED_CONTEXT_WINDOW, FREE, Catalogue, Modality, ModelInfo, Prices
from ostler.models.factory import ModelFactory, split_name
from ostler.models.providers import PROVIDERS, Provider
from ostler.schema.errors import ERRORS, Failure, ModelError, OstlerError, UsageError
from ostler.schema.events import Purpose, SettingsChanged
from ostler.schema.messages import Message, PlainBlock, StopReason, Text, as_content, user
from ostler.schema.usage import Usage
from ostler.sessions.lease import hold_lease, renew_lease

if TYPE_CHECKING:
    from ostler.extensions.extension_context import ExtensionContext

OnChunk = Callable[[str], Awaitable[None] | None]


class LimitReached(OstlerError):
    """No model was asked, because a limit of the open run forbids it."""


class Completion(msgspec.Struct, frozen=True):
    """What a model answered when it was asked once, without tools."""

    text: str
    usage: Usage
    model: str
    stop_reason: StopReason = "end"


async def complete(
    context: ExtensionContext,
    system: str,
    messages: Sequence[Message],
    *,
    model: str = "",
    max_tokens: int | None = None,
    on_chunk: OnChunk | None = None,
    purpose: Purpose = "extension",
) -> Completion:
    """One answer of the session's model, or of another one, which is closed afterwards.

    Raises the class of `ModelError` that says why there is none, with the vendor's message; `LimitReached`
    when the open run may not use as much; `UsageError` or `NoModel` for a model that cannot be made.
    """
    if not messages:
        raise UsageError("there is nothing to ask: give a prompt, or messages")
    harness = context.session.harness
    other = model_named(harness, model) if model and model != harness.model.name else None
    asked = msgspec.structs.replace(
        harness,
        model=other or harness.model,
        max_output_tokens=harness.max_output_tokens if max_tokens is None else max_tokens,
    )
    on_text = _guarded(context, on_chunk) if on_chunk else None
    try:
        async with lease_held(context), _reserved(context), _untimed():
            answer = await _answer(context, asked, purpose, system, messages, on_text)
    finally:
        if other is not None:
            await other.aclose()
    return Completion(text_in(answer), answer.usage, asked.model.name, answer.stop_reason)


async def _answer(
    context: ExtensionContext,
    harness: Harness,
    purpose: Purpose,
    system: str,
    messages: Sequence[Message],
    on_text: OnText | None,
) -> ModelDone:
    journal = context.journal
    if journal.state.run is None:
        close_interrupted_calls(journal, await journal.history())
    trace = {"extension": context.extension.name}
    answer = await complete_message(journal, harness, purpose, system, Transcript(messages), trace, on_text)
    await journal.commit()
    if isinstance(answer, Failure):
        raise error_of(answer)
    return answer


def model_named(harness: Harness, name: str) -> Model:
    """A model for one use: whoever asks for it closes it, and nobody else keeps it."""
    if harness.make_model is None:
        raise UsageError(ONE_MODEL_ONLY)
    made: Model = unwrap(harness.make_model)(name)
    return made


def error_of(failure: Failure) -> OstlerError:
    """The failure as the exception that it once was."""
    kind = ERRORS.get(failure.kind, ModelError)
    if not issubclass(kind, ModelError):
        return kind(failure.message)
    fields: dict[str, Any] = msgspec.structs.asdict(failure)
    del fields["kind"]
    return kind(**fields)


@asynccontextmanager
async def lease_held(context: ExtensionContext) -> AsyncIterator[None]:
    """Makes sure that what is recorded now can be stored: a session at rest does not renew its lease."""
    if context.session.is_running:
        yield
        return
    await hold_lease(context.journal)
    async with renew_lease(context.journal):
        yield


@asynccontextmanager
async def _untimed() -> AsyncIterator[None]:
    """A model takes its time, which has limits of its own: it is not the handler's."""
    watch = running_stopwatch.get()
    if watch is None:
        yield
        return
    watch.pause()
    try:
        yield
    finally:
        watch.go_on()


@asynccontextmanager
async def _reserved(context: ExtensionContext) -> AsyncIterator[None]:
    """What the call will use is set aside in the budget of the open run, if that is limited."""
    budget = context.session.budget
    if budget is None or not budget.is_limited:
        yield
        return
    reserved = await budget.reserve_side_call()
    if isinstance(reserved, str):
        raise LimitReached(f"no model was asked: {reserved}")
    try:
        yield
    finally:
        budget.release_side_call(reserved)
        await budget.warn()


def _guarded(context: ExtensionContext, on_chunk: OnChunk) -> OnText:
    """Calls the extension's function, until it fails once: that is reported, and the answer goes on."""
    is_heard = True

    async def on_text(text: str) -> None:
        nonlocal is_heard
        if not is_heard:
            return
        try:
            await call_within(TIME_LIMIT, context.extension.worker, on_chunk, text)
        except ExtensionError as failure:
            is_heard = False
            context.extension_session.report(context.extension, "on_chunk", str(failure))

    return on_text


class ModelDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a model. `None` is unknown."""

    name: str
    """`provider/id`."""
    provider: str
    id: str
    known: bool
    """Whether the catalogue or the user's configuration describes it."""
    context_window: int | None = None
    output_limit: int | None = None
    reasoning: bool | None = None
    reasoning_levels: tuple[str, ...] = ()
    tools: bool | None = None
    input: tuple[Modality, ...] = ()
    streaming: bool = True
    prices: Prices | None = None
    """Dollars for a million tokens. None: nobody knows; a free model has prices of 0."""


class ModelResolution(msgspec.Struct, frozen=True):
    """The first of some models that can be used, or why none can."""

    model: str = ""
    capabilities: ModelDescription | None = None
    attempted: tuple[str, ...] = ()
    """Those that were looked at, in order; the one that was found is the last."""
    problems: dict[str, str] = {}
    """Why the others cannot be used."""

    @property
    def error(self) -> str:
        """Empty if one was found."""
        if self.model:
            return ""
        return "; ".join(f"{name}: {why}" for name, why in self.problems.items()) or "no model was named"


class ChatMessage(msgspec.Struct, frozen=True):
    """What was said before, in a completion."""

    role: Literal["user", "assistant"]
    text: str


class Models:
    """`context.models`."""

    def __init__(self, context: ExtensionContext) -> None:
        self._context = context

    @property
    def current(self) -> str:
        """`provider/id`."""
        return self._harness.model.name

    @property
    def provider(self) -> str:
        return self.current.partition("/")[0]

    @property
    def id(self) -> str:
        return self.current.partition("/")[2]

    @property
    def reasoning(self) -> str:
        """How much it shall think; `off` where nobody has set it."""
        return self._harness.reasoning or "off"

    @property
    def window(self) -> int:
        """How many tokens it holds, as far as is known."""
        return self._description(self.current).context_window or ASSUMED_CONTEXT_WINDOW

    @property
    def provider_settings(self) -> Provider | None:
        """What is known of its provider."""
        return self._known()[1].get(self.provider)

    def set(self, model: str, reasoning: str = "") -> str:
        """From the next step on that model is asked, by its name or an alias. Returns its whole name.

        Raises `UsageError` or `NoModel`, and nothing has changed then.
        """
        return self._context.calls.call(lambda: self._set(model, reasoning))

    def _set(self, model: str, reasoning: str) -> str:
        harness = self._harness
        old, level = harness.model, harness.reasoning
        harness.set_model(model, reasoning)
        if harness.model.name == old.name:
            harness.model = old
        if harness.model is not old or harness.reasoning != level:
            self._record(SettingsChanged(model=self.current, reasoning=reasoning, by=self._by))
        return self.current

    def set_reasoning(self, level: str) -> None:
        """From the next step on the model shall think so much: `off`, `minimal`, `low`, `medium`, `high`."""
        levels = get_args(ReasoningLevel)
        if level not in levels:
            raise UsageError(f"there is no reasoning level {level!r}; the levels are: {', '.join(levels)}")

        def change() -> None:
            if self._harness.reasoning != level:
                self._harness.reasoning = cast(ReasoningLevel, level)
                self._record(SettingsChanged(reasoning=level, by=self._by))

        self._context.calls.call(change)

    def available(self) -> list[ModelDescription]:
        """All models of the catalogue and of the configuration whose provider Ostler can speak to."""
        catalogue, providers = self._known()
        known = [(info, providers.get(info.name.partition("/")[0])) for info in catalogue.models()]
        return [_described(info, provider, catalogue) for info, provider in known if provider]

    def capabilities(self, model: str = "") -> ModelDescription:
        """What is known of a model; of the present one, if none is named. Raises `UsageError`."""
        catalogue, providers = self._known()
        name = self.current
        if model:
            provider, id_ = split_name(catalogue.resolve(model.strip()), providers)
            name = f"{provider.name}/{id_}"
        return self._description(name)

    async def is_available(self, model: str) -> bool:
        """Whether it could be asked now: its provider exists, and there is a key if one is needed."""
        return not (await self._tried(model))[1]

    async def resolve(self, preferences: Sequence[str]) -> ModelResolution:
        """The first that is known and can be asked. A provider that the catalogue knows nothing of, such as
        a server of one's own, is taken at its word."""
        problems: dict[str, str] = {}
        attempted: list[str] = []
        for preferred in preferences:
            attempted.append(preferred)
            name, problem = await self._tried(preferred)
            found = self._description(name)
            if not problem and not found.known and self._lists_models_of(found.provider):
                problem = f"the catalogue does not know {name}"
            if not problem:
                return ModelResolution(name, found, tuple(attempted), problems)
            problems[preferred] = problem
        return ModelResolution(attempted=tuple(attempted), problems=problems)

    async def _tried(self, name: str) -> tuple[str, str]:
        """The whole name of a model that can be made, or why it cannot."""
        try:
            made = model_named(self._harness, name)
        except OstlerError as error:
            return name, error.message
        await made.aclose()
        return made.name, ""

    def _description(self, name: str) -> ModelDescription:
        catalogue, providers = self._known()
        provider = providers.get(name.partition("/")[0])
        info = catalogue.lookup(name, like=provider.like if provider else "")
        return _described(info, provider, catalogue)

    def _lists_models_of(self, provider: str) -> bool:
        return any(info.name.startswith(f"{provider}/") for info in self._known()[0].models())

    async def complete(
        self,
        prompt: str | Sequence[str | PlainBlock] = "",
        *,
        system: str = "",
        messages: Sequence[ChatMessage | Message] = (),
        model: str = "",
        max_tokens: int | None = None,
        on_chunk: OnChunk | None = None,
    ) -> Completion:
        """One answer to `messages` and the prompt, without tools and without the session's conversation.

        It is recorded and counted: in the session, and in the totals and limits of the open run. `on_chunk`
        is given the text as it comes. Raises as `complete` of `completing.py` does.
        """
        content = as_content(prompt)
        told = [*map(_message, messages), *([user(*content)] if content else [])]
        return await complete(
            self._context, system, told, model=model, max_tokens=max_tokens, on_chunk=on_chunk
        )

    @property
    def _harness(self) -> Harness:
        return self._context.session.harness

    @property
    def _by(self) -> str:
        return f"extension {self._context.extension.name}"

    def _record(self, changed: SettingsChanged) -> None:
        self._context.journal.record(changed)

    def _known(self) -> tuple[Catalogue, dict[str, Provider]]:
        """As the user configured them, where the models are made by the settings."""
        make = self._harness.make_model
        maker = unwrap(make) if make else None
        if isinstance(maker, ModelFactory):
            return maker.catalogue, maker.providers
        return Catalogue(), PROVIDERS


def _described(info: ModelInfo, provider: Provider | None, catalogue: Catalogue) -> ModelDescription:
    start, _, id_ = info.name.partition("/")
    is_free = provider is not None and not provider.charges
    return ModelDescription(
        name=info.name,
        provider=start,
        id=id_,
        known=info.known,
        context_window=info.context_window,
        output_limit=info.output_limit,
        reasoning=info.reasoning,
        reasoning_levels=info.reasoning_levels,
        tools=info.tools,
        input=info.input,
        prices=catalogue.prices_of_user(info.name) or (FREE if is_free else info.prices),
    )


def _message(said: ChatMessage | Message) -> Message:
    return said if isinstance(said, Message) else Message(said.role, (Text(said.text),))
