"""Models, as an extension sees them: which one is asked, which there are, what they can do."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import unwrap
from typing import TYPE_CHECKING, Literal, cast, get_args

import msgspec

from ostler.extensions.parts.completing import Completion, OnChunk, complete, model_named
from ostler.kernel.harness import Harness
from ostler.kernel.model import ReasoningLevel
from ostler.models.catalogue import ASSUMED_CONTEXT_WINDOW, Catalogue, ModelInfo
from ostler.models.provider_table import PROVIDERS, Provider
from ostler.models.providers import split_name
from ostler.models.settings import FREE, Modality, Prices
from ostler.runs.model_choice import ModelMaker
from ostler.vocabulary.errors import OstlerError, UsageError
from ostler.vocabulary.events import SettingsChanged
from ostler.vocabulary.messages import Message, PlainBlock, Text, as_content, user

if TYPE_CHECKING:
    from ostler.extensions.context import ExtensionContext


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


class Resolution(msgspec.Struct, frozen=True):
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


class Said(msgspec.Struct, frozen=True):
    """What was said before, in a completion."""

    role: Literal["user", "assistant"]
    text: str


class Models:
    """`context.models`."""

    def __init__(self, context: ExtensionContext) -> None:
        self._context = context

    # --- the one that is asked ------------------------------------------------------------------------

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
        return self._context.calls.do(lambda: self._set(model, reasoning))

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

        self._context.calls.do(change)

    # --- those there are ------------------------------------------------------------------------------

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

    async def resolve(self, preferences: Sequence[str]) -> Resolution:
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
                return Resolution(name, found, tuple(attempted), problems)
            problems[preferred] = problem
        return Resolution(attempted=tuple(attempted), problems=problems)

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

    # --- asking one -----------------------------------------------------------------------------------

    async def complete(
        self,
        prompt: str | Sequence[str | PlainBlock] = "",
        *,
        system: str = "",
        messages: Sequence[Said | Message] = (),
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

    # --- where it comes from --------------------------------------------------------------------------

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
        if isinstance(maker, ModelMaker):
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


def _message(said: Said | Message) -> Message:
    return said if isinstance(said, Message) else Message(said.role, (Text(said.text),))
