"""How `make catalogue` merges its two sources, on small samples of their formats."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ostler.models.catalogue import FREE, Hours, LaterPrices, ModelInfo, Prices, Tier
from tests.support.paths import ROOT

SCRIPTS = ROOT / "scripts"
TODAY = "2026-11-15"


@pytest.fixture(scope="module")
def maker() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        yield importlib.import_module("make_catalogue")


def listed(id: str = "m-1", **fields: Any) -> dict[str, Any]:
    """A model as pi-ai has it."""
    cost = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}
    usual = {"contextWindow": 9000, "maxTokens": 1000, "input": ["text"], "reasoning": False, "cost": cost}
    return {"id": id, "type": "chat", **usual, **fields}


def priced(id: str = "m-1", prices: Any = None, **fields: Any) -> SimpleNamespace:
    """A model as genai-prices has it."""
    prices = mtok(1, 2) if prices is None else prices
    return SimpleNamespace(
        **{"id": id, "prices": prices, "context_window": None, "deprecated": None, **fields}
    )


def mtok(input: Any = None, output: Any = None, **others: Any) -> SimpleNamespace:
    named = {"input": input, "output": output, **others}
    return SimpleNamespace(
        **{
            f"{name}_mtok": Decimal(str(price)) if isinstance(price, int | float) else price
            for name, price in named.items()
            if price is not None
        }
    )


def tiered(base: float, **tiers: float) -> SimpleNamespace:
    return SimpleNamespace(
        base=Decimal(str(base)),
        tiers=[SimpleNamespace(start=int(at[1:]), price=Decimal(str(price))) for at, price in tiers.items()],
    )


def on(condition: Any, prices: Any) -> SimpleNamespace:
    return SimpleNamespace(constraint=condition, prices=prices)


def from_day(day: str) -> SimpleNamespace:
    return SimpleNamespace(start_date=date.fromisoformat(day))


def between(start: int, end: int) -> SimpleNamespace:
    return SimpleNamespace(start_time=time(start), end_time=time(end))


def test_the_own_entry_of_genai_prices_decides_window_and_prices(maker: ModuleType) -> None:
    entry = priced(prices=mtok(3, 4, cache_read=0.5), context_window=8000, deprecated=True)
    model = maker.listed_model("xai", listed(), entry, TODAY)
    assert model == ModelInfo(
        name="xai/m-1",
        context_window=8000,
        output_limit=1000,
        input=("text",),
        reasoning=False,
        tools=True,
        prices=Prices(input=3.0, output=4.0, cache_read=0.5),
        deprecated=True,
    )


def test_values_missing_in_genai_prices_come_from_pi_ai(maker: ModuleType) -> None:
    tiers = [{"inputTokensAbove": 500, "input": 2, "output": 4, "cacheRead": 0, "cacheWrite": 0}]
    cost = {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0, "tiers": tiers}
    model = maker.listed_model("xai", listed(cost=cost), None, TODAY)
    assert model.context_window == 9000
    assert model.prices == Prices(
        input=1.0, output=2.0, cache_read=0.1, tiers=(Tier(above=500, input=2.0, output=4.0),)
    )


def test_the_entry_of_a_family_counts_only_as_long_as_nothing_contradicts_it(maker: ModuleType) -> None:
    def prices(entry: Any, **cost: float) -> Any:
        model = listed("m-latest", cost={"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, **cost})
        found = maker.listed_model("xai", model, entry, TODAY)
        assert found.context_window == 9000
        return found.prices

    family = priced("m-1", mtok(1, 2, cache_read=0.1), context_window=5)
    known = Prices(input=1.0, output=2.0, cache_read=0.1)
    assert prices(family) == prices(family, input=1, output=2) == known
    assert prices(family, input=1, output=3) is None


def test_a_missing_rate_comes_from_the_other_source_if_the_rest_agrees(maker: ModuleType) -> None:
    cost = Prices(input=1.0, output=2.0, cache_read=0.3, cache_write=0.4)
    known = Prices(input=1.0, output=2.0, cache_read=0.1)
    assert maker.chosen(True, [known], cost) == [
        Prices(input=1.0, output=2.0, cache_read=0.1, cache_write=0.4)
    ]
    other = Prices(input=9.0, output=2.0)
    assert maker.chosen(True, [other], cost) == [other]
    assert maker.chosen(False, [], None) == [] and maker.chosen(False, [], cost) == [cost]


def test_zero_in_pi_ai_is_unknown_unless_the_name_says_free(maker: ModuleType) -> None:
    nothing = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    assert maker.cost_of(listed(cost=nothing)) is None
    assert maker.cost_of(listed("m:free", cost=nothing)) == FREE


def test_past_prices_are_dropped_and_future_ones_stay(maker: ModuleType) -> None:
    entry = priced(
        prices=[
            on(None, mtok(1, 1)),
            on(from_day("2026-01-01"), mtok(2, 2)),
            on(from_day("2026-12-01"), mtok(3, 3)),
        ]
    )
    assert maker.price_list(entry, TODAY) == [
        Prices(input=2.0, output=2.0),
        LaterPrices(since="2026-12-01", input=3.0, output=3.0),
    ]


def test_prices_by_hour_and_by_size_are_generated(maker: ModuleType) -> None:
    entry = priced(prices=[on(None, mtok(1, 2)), on(between(1, 4), mtok(3, 4))])
    assert maker.price_list(entry, TODAY) == [
        Prices(input=1.0, output=2.0, hours=(Hours(start="01:00", end="04:00", input=3.0, output=4.0),))
    ]
    entry = priced(prices=mtok(tiered(1, _100=2, _200=3), tiered(5, _200=6), cache_read=0.1))
    assert maker.price_list(entry, TODAY) == [
        Prices(
            input=1.0,
            output=5.0,
            cache_read=0.1,
            tiers=(
                Tier(above=100, input=2.0, output=5.0, cache_read=0.1),
                Tier(above=200, input=3.0, output=6.0, cache_read=0.1),
            ),
        )
    ]


def test_a_price_of_tokens_that_usage_does_not_separate_is_unknown(maker: ModuleType) -> None:
    assert maker.price_list(priced(prices=mtok(1, 2, output_reasoning=3)), TODAY) == []


def test_a_placeholder_output_limit_is_unknown(maker: ModuleType) -> None:
    assert maker.output_limit("xai", 0, 9000) is None
    assert maker.output_limit("xai", 9000, 9000) is maker.output_limit("xai", 8100, 9000) is None
    assert maker.output_limit("xai", 4500, 9000) == maker.output_limit("xai", 4500, None) == 4500
    assert (
        maker.output_limit("openrouter", 4096, 9000) is None and maker.output_limit("xai", 4096, 9000) == 4096
    )


@pytest.mark.parametrize(
    ("mapped", "levels"),
    [
        (None, ()),
        ({"off": None}, ("minimal", "low", "medium", "high")),
        ({"minimal": None, "off": "none", "max": "max"}, ("off", "low", "medium", "high", "max")),
    ],
)
def test_levels_are_those_that_the_map_does_not_exclude(
    maker: ModuleType, mapped: Any, levels: tuple[str, ...]
) -> None:
    assert maker.levels(listed(reasoning=True, thinkingLevelMap=mapped)) == levels
    assert maker.levels(listed(reasoning=False, thinkingLevelMap=mapped)) == ()


def test_separately_priced_variants_can_be_configured(maker: ModuleType) -> None:
    model = listed(input=["image", "text"])
    assert maker.modalities(model, priced(prices=mtok(1, 2, input_audio=3))) == ("text", "image", "audio")
    assert maker.modalities(model, None) == ("text", "image")


def test_the_alias_of_a_line_is_its_highest_version_that_an_agent_can_use(
    maker: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maker, "LINES", (("grok", "xai", r"grok-(\d+)(?:\.(\d+))?"),))
    models = [
        ModelInfo(name="xai/grok-4.9", tools=True),
        ModelInfo(name="xai/grok-4.10", tools=True),
        ModelInfo(name="xai/grok-4", tools=True),
        ModelInfo(name="xai/grok-5", tools=True, deprecated=True),
        ModelInfo(name="xai/grok-4.20"),
        ModelInfo(name="xai/grok-9-fast", tools=True),
    ]
    assert maker.newest_of_each_line(models) == {"grok": "xai/grok-4.10"}
    with pytest.raises(SystemExit, match="'grok'"):
        maker.newest_of_each_line(models[-1:])


def test_only_chat_models_and_none_for_batches_are_listed(
    maker: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maker, "PROVIDERS", (("xai", "x-ai", "xai"),))
    groups = {"api": {"1": listed("a"), "2": listed("b:batch"), "3": listed("c", type="image")}}
    old = priced("old", context_window=5)
    extra = [old, priced("a", context_window=5), priced("tts", context_window=5), priced("no-window")]
    prices = {"x-ai": SimpleNamespace(models=extra, find_model=lambda id: None)}
    models = maker.distilled(prices, {"xai": maker.chat_models(groups)}, TODAY)
    assert [(model.name, model.tools) for model in models] == [("xai/a", True), ("xai/old", None)]


def test_the_newest_day_is_one_that_has_been(maker: ModuleType) -> None:
    assert maker.newest_day("2025-01-02, date(2025, 3, 4), 2025-99-99, 2999-01-01") == "2025-03-04"
