"""`context.models`: reading and changing the model."""

from __future__ import annotations

from typing import Any

import pytest

from ostler.app.agent_setup import AgentResources
from ostler.app.settings import Settings
from ostler.core.function_tool import tool
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.extension_session import ModelChanged, ReasoningChanged
from ostler.models.catalogue import FREE, Catalogue
from ostler.models.factory import ModelFactory
from ostler.models.providers import ProviderSettings
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema.errors import NoModel, UsageError
from ostler.schema.messages import as_content
from ostler.sessions.session import Session
from tests.support.extension_session import extension, facts_of, session_with


@tool
def look() -> str:
    "Looks."
    return "nothing"


async def at_work(*script: Any, setup: Any = lambda ostler: None, **options: Any) -> tuple[Session, Any]:
    session, host = await session_with(ScriptedModel(script), extension("mine", setup), **options)
    return session, host.sessions[session.id].channels["mine"].context


def configured(**settings: Any) -> Any:
    """Makes models by these settings, with one key in the environment."""
    return ModelFactory(Settings(**settings), {"ANTHROPIC_API_KEY": "sk-1"}, lambda provider, search: None)


def known_model(provider: str = "anthropic") -> str:
    return next(
        info.name for info in Catalogue().models() if info.name.startswith(f"{provider}/") and info.prices
    )


async def test_the_present_model_has_a_provider_an_id_and_a_level() -> None:
    session, context = await at_work(reasoning="high")
    models = context.models
    assert (models.current, models.provider, models.id) == ("scripted/model", "scripted", "model")
    assert models.reasoning == "high"
    session.harness.reasoning = None
    assert models.reasoning == "off"
    await session.close()


async def test_set_changes_the_model_from_the_next_step_and_records_the_extension() -> None:
    collected: list[Any] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_tool
        def change(call: Any, context: ExtensionContext) -> None:
            assert context.models.set("scripted/other", "low") == "scripted/other"

        @ostler.on(ModelChanged, ReasoningChanged)
        def note(changed: Any) -> None:
            collected.append(changed)

    session, _ = await at_work(
        Call("look"),
        setup=setup,
        tools={"look": look},
        make_model=lambda name: ScriptedModel(["done"], name=name),
    )
    await session.prompt(as_content("go"))
    called = [one.model for one in await facts_of(session, "model_called")]
    assert called == ["scripted/model", "scripted/other"]
    (changed,) = await facts_of(session, "settings_changed")
    assert (changed.model, changed.reasoning, changed.by) == ("scripted/other", "low", "extension mine")
    assert collected == [
        ModelChanged("scripted/other", "scripted/model", "extension mine"),
        ReasoningChanged("low", "off", "extension mine"),
    ]
    await session.close()


async def test_a_model_that_cannot_be_made_changes_nothing() -> None:
    session, context = await at_work(make_model=configured())
    with pytest.raises(UsageError, match="there is no model 'nobody/nothing'"):
        context.models.set("nobody/nothing")
    with pytest.raises(NoModel, match="openai needs a key"):
        context.models.set("openai/gpt-5")
    with pytest.raises(UsageError, match="there is no reasoning level 'deep'"):
        context.models.set(known_model(), "deep")
    assert context.models.current == "scripted/model"
    assert not await facts_of(session, "settings_changed")
    await session.close()


async def test_the_reasoning_level_is_set_once_and_only_if_it_exists() -> None:
    session, context = await at_work()
    context.models.set_reasoning("medium")
    context.models.set_reasoning("medium")
    with pytest.raises(UsageError, match="the levels are: off, minimal, low, medium, high"):
        context.models.set_reasoning("deep")
    await session.journal.commit()
    (changed,) = await facts_of(session, "settings_changed")
    assert (changed.model, changed.reasoning, changed.by) == ("", "medium", "extension mine")
    assert context.models.reasoning == "medium"
    await session.close()


async def test_the_available_models_are_those_of_the_catalogue_and_of_the_configuration() -> None:
    make = configured(
        models={"ollama/mine": {"context_window": 4096}},
        providers={"house": ProviderSettings(base_url="http://127.0.0.1:9/v1", charges=False)},
    )
    session, context = await at_work(make_model=make)
    models = {model.name: model for model in context.models.available()}
    assert len(models) > 100
    assert (models["ollama/mine"].context_window, models["ollama/mine"].prices) == (4096, FREE)
    listed = models[known_model()]
    assert (listed.provider, listed.known, listed.streaming) == ("anthropic", True, True)
    assert listed.prices is not None and listed.prices.input is not None and listed.prices.input > 0
    await session.close()


async def test_a_free_model_has_prices_of_zero_and_an_unknown_one_has_none() -> None:
    session, context = await at_work(make_model=configured())
    free = context.models.capabilities("ollama/whatever")
    unpriced = context.models.capabilities("anthropic/unheard-of")
    assert free.prices == FREE
    assert (unpriced.prices, unpriced.known, unpriced.context_window) == (None, False, None)
    present = context.models.capabilities()
    assert (present.name, present.known) == ("scripted/model", False)
    with pytest.raises(UsageError, match="there is no model 'nobody/nothing'"):
        context.models.capabilities("nobody/nothing")
    await session.close()


async def test_a_model_is_available_if_it_can_be_made() -> None:
    session, context = await at_work(make_model=configured())
    assert await context.models.is_available(known_model())
    assert not await context.models.is_available("openai/gpt-5")
    assert not await context.models.is_available("nobody/nothing")
    await session.close()


async def test_a_chain_resolves_to_the_first_model_that_is_known_and_has_a_key() -> None:
    session, context = await at_work(make_model=configured())
    good = known_model()
    resolution = await context.models.resolve(
        ["nobody/x", "openai/gpt-5", "anthropic/unheard-of", good, "ollama/x"]
    )
    assert (resolution.model, resolution.error) == (good, "")
    assert resolution.capabilities is not None and resolution.capabilities.id == good.partition("/")[2]
    assert resolution.attempted == ("nobody/x", "openai/gpt-5", "anthropic/unheard-of", good)
    assert "openai needs a key" in resolution.problems["openai/gpt-5"]
    assert resolution.problems["anthropic/unheard-of"] == "the catalogue does not know anthropic/unheard-of"
    own = await context.models.resolve(["ollama/of-mine"])
    assert own.model == "ollama/of-mine"
    none = await context.models.resolve(["openai/gpt-5"])
    assert (none.model, none.capabilities) == ("", None)
    assert "openai/gpt-5: openai needs a key" in none.error
    assert (await context.models.resolve([])).error == "no model was named"
    await session.close()


async def test_models_that_are_only_tried_are_closed() -> None:
    things = AgentResources()
    session, context = await at_work(make_model=things.closing(configured()))
    assert await context.models.is_available(known_model())
    assert things.models == []
    assert context.models.capabilities("ollama/x").prices == FREE
    await session.close()


async def test_a_plain_command_changes_the_model() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.command("switch")
        def switch(name: str, context: ExtensionContext) -> str:
            resolution = context.wait(context.models.resolve(["nobody/x", name]))
            return context.models.set(resolution.model)

    session, host = await session_with(
        ScriptedModel([]),
        extension("mine", setup),
        make_model=lambda name: ScriptedModel(["hello"], name=name) if "nobody" not in name else _refuse(),
    )
    assert await host.run_command(session, "switch", "scripted/other") == "scripted/other"
    assert session.harness.model.name == "scripted/other"
    await session.close()


def _refuse() -> Any:
    raise UsageError("there is no such model")
