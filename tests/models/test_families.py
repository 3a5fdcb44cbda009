"""A model gets the nearest reasoning level that it supports, and a different level is reported."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.core.model import ReasoningLevel
from ostler.models.catalogue import Catalogue, ModelInfo
from ostler.models.families import LEVELS, Level, Levels, nearest
from ostler.models.providers import PROVIDERS, Wire
from tests.models.wires.wire_cases import KEY, READ, load_model, request_of

ASKED: tuple[ReasoningLevel, ...] = get_args(ReasoningLevel)
REASONING = [
    info for info in Catalogue().models() if info.reasoning_levels and info.name.split("/")[0] in PROVIDERS
]


def model_of(name: str, **options: Any) -> Any:
    return load_model(name, **{"api_key": KEY, "environment": {}, **options})


def level_in(body: dict[str, Any]) -> str | None:
    """The level that a body asks for, however it is spelled."""
    config = body.get("generationConfig", {}).get("thinkingConfig", {})
    thinking, reasoning = body.get("thinking", {}), body.get("reasoning", {})
    spelled = (
        body.get("reasoning_effort")
        or body.get("output_config", {}).get("effort")
        or config.get("thinkingLevel", "").lower()
        or reasoning.get("effort")
    )
    if spelled:
        return {"none": "off", "default": "high"}.get(spelled, spelled)
    if thinking.get("type") == "disabled" or reasoning.get("enabled") is False:
        return "off"
    return "high" if thinking or reasoning else None


@given(st.sampled_from(ASKED), st.sets(st.sampled_from(LEVELS)))
def test_the_nearest_level_is_at_least_the_requested_one_if_possible(
    asked: ReasoningLevel, had: set[Level]
) -> None:
    found = nearest(asked, had)
    above = [level for level in LEVELS[LEVELS.index(asked) :] if level in had]
    if above:
        assert found == above[0]
    else:
        assert found == max(had, key=LEVELS.index, default=None)


@pytest.mark.parametrize(
    ("levels", "listed", "reasons", "had"),
    [
        (Levels({"low": 1, "high": 2}), (), None, {"low": 1, "high": 2}),
        (Levels({"low": 1, "high": 2}), ("off", "low"), True, {"low": 1}),
        (Levels({"low": 1, "high": 2}), ("max",), True, {"low": 1, "high": 2}),
        (Levels({"low": 1, "high": 2}, assumed={"high": 3}), (), None, {"high": 3}),
        (Levels({"low": 1, "high": 2}, assumed={}), ("low",), None, {"low": 1}),
        (Levels({"low": 1, "high": 2}), ("low",), False, {}),
        (Levels({"off": 0, "low": 1, "high": 2}, stoppable=True), ("low",), None, {"off": 0, "low": 1}),
        (Levels({"off": 0, "low": 1, "high": 2}), ("low",), None, {"low": 1}),
        (Levels(), ("low",), True, {}),
    ],
)
def test_a_model_has_the_levels_that_are_listed_and_can_be_spelled(
    levels: Levels, listed: tuple[Level, ...], reasons: bool | None, had: dict[Level, int]
) -> None:
    assert levels.available(listed, reasons) == had


@pytest.mark.parametrize("provider", sorted({info.name.split("/")[0] for info in REASONING}))
def test_no_catalogue_model_gets_an_unsupported_level(provider: str) -> None:
    options = {"base_url": "https://mine.example/openai/v1"} if provider == "azure" else {}
    for info in REASONING:
        if not info.name.startswith(f"{provider}/"):
            continue
        model = model_of(info.name, **options)
        for asked in ASKED:
            request = request_of(reasoning=asked)
            sent = level_in(json.loads(model.body(request)))
            assert sent in info.reasoning_levels or is_known_better(info, sent), (info.name, asked, sent)
            assert bool(model.warnings(request)) == (sent != asked), (info.name, asked, sent)


def is_known_better(info: ModelInfo, sent: str | None) -> bool:
    """Azure's list leaves `none` out for models that OpenAI takes it for."""
    return info.name.startswith("azure/gpt-5.") and sent == "off"


@pytest.mark.parametrize(
    ("name", "wire", "asked", "sentence"),
    [
        ("anthropic/claude-sonnet-5-5", None, "off", "cannot turn reasoning off; the level is low"),
        ("google/gemini-4-argon", None, "off", "cannot turn reasoning off; the level is low"),
        ("openai/gpt-5.1", None, "minimal", "cannot reason at the level minimal; the level is low"),
        ("openai/gpt-5-pro", "chat", "low", "cannot reason at the level low; the level is high"),
        ("openai/gpt-4o", None, "high", "does not support reasoning levels; none is sent"),
        ("moonshot/kimi-k3.1-pro", None, "medium", "cannot reason at the level medium; the level is high"),
    ],
)
def test_a_level_other_than_the_requested_one_is_reported(
    name: str, wire: Wire | None, asked: str, sentence: str
) -> None:
    assert model_of(name, wire=wire).warnings(request_of(reasoning=asked)) == [f"{name} {sentence}"]


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("openai/gpt-4o", "off"),
        ("groq/llama-3.3-70b-versatile", "off"),
        ("lmstudio/mine", "off"),
        ("anthropic/claude-opus-5", "off"),
        ("anthropic/claude-sonnet-5-5", "high"),
        ("anthropic/claude-sonnet-5-5", None),
    ],
)
def test_a_supported_level_causes_no_warning(name: str, asked: str | None) -> None:
    assert model_of(name).warnings(request_of(reasoning=asked)) == []


def test_a_model_whose_reasoning_cannot_be_turned_off_is_reported() -> None:
    catalogue = Catalogue({"lmstudio/mine": {"reasoning": True}, "azure/mine": {"reasoning": True}})
    for name in ("lmstudio/mine", "azure/mine"):
        model = model_of(name, base_url="http://127.0.0.1:1/v1", catalogue=catalogue)
        warning = f"it is not known how to turn reasoning off for {name}; it stays on"
        assert model.warnings(request_of(reasoning="off")) == [warning]


@pytest.mark.parametrize(
    ("name", "level", "warning"),
    [
        ("deepseek/deepseek-v4-pro", None, True),
        ("deepseek/deepseek-v4-pro", "high", True),
        ("deepseek/deepseek-v4-pro", "off", False),
        ("anthropic/claude-sonnet-4-5", "high", True),
        ("anthropic/claude-sonnet-5-5", "high", True),
        ("anthropic/claude-sonnet-5-5", None, False),
        ("openai/gpt-6.1-sol", "high", False),
    ],
)
def test_a_tool_choice_that_disables_reasoning_is_reported(
    name: str, level: str | None, warning: bool
) -> None:
    request = request_of(tools=(READ,), tool_choice="read", reasoning=level)
    sentence = f"{name} cannot reason when it must call a tool; reasoning is turned off"
    assert model_of(name).warnings(request) == ([sentence] if warning else [])
    assert sentence not in model_of(name).warnings(request_of(tools=(READ,), reasoning=level))


def test_an_output_limit_raised_for_reasoning_is_reported() -> None:
    model = model_of("anthropic/claude-sonnet-4-5")
    request = request_of(reasoning="low", max_output_tokens=1000)
    assert json.loads(model.body(request))["max_tokens"] == 6144
    warning = "anthropic/claude-sonnet-4-5 needs room to reason; the output limit is 6,144 tokens"
    assert model.warnings(request) == [warning]
    assert model.warnings(request_of(reasoning="low", max_output_tokens=9000)) == []
    assert model.warnings(request_of(reasoning="low")) == []


def test_a_tool_choice_weakened_to_any_tool_is_reported() -> None:
    request = request_of(tools=(READ,), tool_choice="read")
    warning = "lmstudio/mine cannot be made to call read; it must call any tool instead"
    assert model_of("lmstudio/mine").warnings(request) == [warning]
    assert model_of("lmstudio/mine").warnings(request_of(tools=(READ,), tool_choice="required")) == []
    assert model_of("vllm/mine").warnings(request) == []


@pytest.mark.parametrize("wire", ["responses", "chat"])
def test_levels_of_openai_are_sent_to_azure_even_if_unlisted(wire: Wire) -> None:
    model = model_of("azure/gpt-5.1", base_url="https://mine.example/openai/v1", wire=wire)
    assert "off" not in Catalogue().lookup("azure/gpt-5.1").reasoning_levels
    assert level_in(json.loads(model.body(request_of(reasoning="off")))) == "off"
    assert level_in(json.loads(model.body(request_of(reasoning="minimal")))) == "low"
