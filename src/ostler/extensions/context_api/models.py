"""`context.models`: the current model, the available ones, and completions outside the steps of a run, which
are recorded, priced, and counted against the run's limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from inspect import unwrap
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import msgspec

from ostler.core.completion import OnText, complete_message, text_in
from ostler.core.harness import ONE_MODEL_ONLY, Harness
from ostler.core.hooks import TIME_LIMIT
from ostler.core.model import Model, ModelDone, ReasoningLevel
from ostler.core.recovery import close_interrupted_calls
from ostler.core.transcript import Transcript
from ostler.extensions.executor import ExtensionError, call_within, untimed
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
    """A limit of the open run forbids the model call."""


class Completion(msgspec.Struct, frozen=True):
    """The answer of a model to one call without tools."""

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
    """One answer of the session's model, or of another one, which is closed afterwards. Raises a `ModelError`
    with the vendor's message if the call fails, `LimitReached` if the open run may not use as much, and
    `UsageError` or `NoModel` if the model cannot be made."""
    if not messages:
        raise UsageError("the call needs a prompt or messages")
    harness = context.session.harness
    other = model_named(harness, model) if model and model != harness.model.name else None
    side_harness = msgspec.structs.replace(
        harness,
        model=other or harness.model,
        max_output_tokens=harness.max_output_tokens if max_tokens is None else max_tokens,
    )
    on_text = _guarded(context, on_chunk) if on_chunk else None
    try:
        async with lease_held(context), _reserved(context):
            with untimed():
                answer = await _answer(context, side_harness, purpose, system, messages, on_text)
    finally:
        if other is not None:
            await other.aclose()
    return Completion(text_in(answer), answer.usage, side_harness.model.name, answer.stop_reason)


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
    """A model for one use, which the caller closes."""
    if harness.make_model is None:
        raise UsageError(ONE_MODEL_ONLY)
    model: Model = unwrap(harness.make_model)(name)
    return model


def error_of(failure: Failure) -> OstlerError:
    """The exception that the failure records."""
    kind = ERRORS.get(failure.kind, ModelError)
    if not issubclass(kind, ModelError):
        return kind(failure.message)
    fields: dict[str, Any] = msgspec.structs.asdict(failure)
    del fields["kind"]
    return kind(**fields)


@asynccontextmanager
async def lease_held(context: ExtensionContext) -> AsyncIterator[None]:
    """Holds the lease of the session, which an idle session does not renew, so that facts can be stored."""
    if context.session.is_running:
        yield
        return
    await hold_lease(context.journal)
    async with renew_lease(context.journal):
        yield


@asynccontextmanager
async def _reserved(context: ExtensionContext) -> AsyncIterator[None]:
    """Reserves the call's usage in the budget of the open run, if that is limited."""
    budget = context.session.budget
    if budget is None or not budget.is_limited:
        yield
        return
    reserved = await budget.reserve_side_call()
    if isinstance(reserved, str):
        raise LimitReached(f"the model was not called: {reserved}")
    try:
        yield
    finally:
        budget.release_side_call(reserved)
        await budget.warn()


def _guarded(context: ExtensionContext, on_chunk: OnChunk) -> OnText:
    """Calls the extension's function until it fails, which is reported and does not end the answer."""
    has_failed = False

    async def on_text(text: str) -> None:
        nonlocal has_failed
        if has_failed:
            return
        try:
            await call_within(TIME_LIMIT, context.extension.worker, on_chunk, text)
        except ExtensionError as failure:
            has_failed = True
            context.extension_session.report(context.extension, "on_chunk", str(failure))

    return on_text


class ModelDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A model; unknown fields are `None`."""

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
    """Dollars for a million tokens: 0 for a free model, None if unknown."""


class ModelResolution(msgspec.Struct, frozen=True):
    """The first usable model of a list, or why there is none."""

    model: str = ""
    capabilities: ModelDescription | None = None
    attempted: tuple[str, ...] = ()
    """The models that were tried, in order; `model` is the last."""
    problems: dict[str, str] = {}
    """Why the others cannot be used."""

    @property
    def error(self) -> str:
        """The problems of all models; empty if one can be used."""
        if self.model:
            return ""
        problems = (f"{name}: {problem}" for name, problem in self.problems.items())
        return "; ".join(problems) or "no model was named"


class ChatMessage(msgspec.Struct, frozen=True):
    """An earlier message of a completion."""

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
        """The reasoning level; `off` if none is set."""
        return self._harness.reasoning or "off"

    @property
    def window(self) -> int:
        """The size of its context window in tokens, or an assumption."""
        return self._description(self.current).context_window or ASSUMED_CONTEXT_WINDOW

    @property
    def provider_settings(self) -> Provider | None:
        """The settings of its provider, if known."""
        return self._catalogue()[1].get(self.provider)

    def set(self, model: str, reasoning: str = "") -> str:
        """Uses another model, by its name or an alias, from the next step on; returns its full name. Raises
        `UsageError` or `NoModel` without changing anything."""

        def change() -> str:
            harness = self._harness
            old, level = harness.model, harness.reasoning
            harness.set_model(model, reasoning)
            if harness.model.name == old.name:
                harness.model = old
            if harness.model is not old or harness.reasoning != level:
                self._record(model=self.current, reasoning=reasoning)
            return self.current

        return self._context.calls.call(change)

    def set_reasoning(self, level: str) -> None:
        """Sets the reasoning level from the next step on: `off`, `minimal`, `low`, `medium`, `high`."""
        levels = get_args(ReasoningLevel)
        if level not in levels:
            raise UsageError(f"there is no reasoning level {level!r}; the levels are: {', '.join(levels)}")

        def change() -> None:
            if self._harness.reasoning != level:
                self._harness.reasoning = cast(ReasoningLevel, level)
                self._record(reasoning=level)

        self._context.calls.call(change)

    def available(self) -> list[ModelDescription]:
        """All models of the catalogue and of the configuration that have a known provider."""
        catalogue, providers = self._catalogue()
        models = [(info, providers.get(info.name.partition("/")[0])) for info in catalogue.models()]
        return [_description(info, provider, catalogue) for info, provider in models if provider]

    def capabilities(self, model: str = "") -> ModelDescription:
        """The description of a model, by default the current one. Raises `UsageError`."""
        catalogue, providers = self._catalogue()
        name = self.current
        if model:
            provider, id_ = split_name(catalogue.resolve(model.strip()), providers)
            name = f"{provider.name}/{id_}"
        return self._description(name)

    async def is_available(self, model: str) -> bool:
        """Whether it can be used now: its provider exists, and there is a key if it needs one."""
        return not (await self._try(model))[1]

    async def resolve(self, preferences: Sequence[str]) -> ModelResolution:
        """The first model that is known and can be used. Models of a provider without entries in the
        catalogue, such as a local server, need not be known."""
        problems: dict[str, str] = {}
        for count, preferred in enumerate(preferences, 1):
            name, problem = await self._try(preferred)
            model = self._description(name)
            if not problem and not model.known and self._lists_models_of(model.provider):
                problem = f"the catalogue does not know {name}"
            if not problem:
                return ModelResolution(name, model, tuple(preferences[:count]), problems)
            problems[preferred] = problem
        return ModelResolution(attempted=tuple(preferences), problems=problems)

    async def _try(self, name: str) -> tuple[str, str]:
        """The full name of a model that can be made, or the problem."""
        try:
            model = model_named(self._harness, name)
        except OstlerError as error:
            return name, error.message
        await model.aclose()
        return model.name, ""

    def _description(self, name: str) -> ModelDescription:
        catalogue, providers = self._catalogue()
        provider = providers.get(name.partition("/")[0])
        info = catalogue.lookup(name, like=provider.like if provider else "")
        return _description(info, provider, catalogue)

    def _lists_models_of(self, provider: str) -> bool:
        return any(info.name.startswith(f"{provider}/") for info in self._catalogue()[0].models())

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
        """One answer to `messages` and the prompt, without tools and without the session's conversation. It
        is recorded and counted: in the session, and in the totals and limits of the open run. `on_chunk` gets
        the text as it arrives. Raises what the function `complete` raises."""
        content = as_content(prompt)
        sent = [*map(_message, messages), *([user(*content)] if content else [])]
        return await complete(
            self._context, system, sent, model=model, max_tokens=max_tokens, on_chunk=on_chunk
        )

    @property
    def _harness(self) -> Harness:
        return self._context.session.harness

    def _record(self, *, model: str = "", reasoning: str = "") -> None:
        by = f"extension {self._context.extension.name}"
        self._context.journal.record(SettingsChanged(model=model, reasoning=reasoning, by=by))

    def _catalogue(self) -> tuple[Catalogue, dict[str, Provider]]:
        """The catalogue and the providers, as configured if models are made from the settings."""
        make = self._harness.make_model
        factory = unwrap(make) if make else None
        if isinstance(factory, ModelFactory):
            return factory.catalogue, factory.providers
        return Catalogue(), PROVIDERS


def _description(info: ModelInfo, provider: Provider | None, catalogue: Catalogue) -> ModelDescription:
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


def _message(message: ChatMessage | Message) -> Message:
    return message if isinstance(message, Message) else Message(message.role, (Text(message.text),))
