from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hatchling.builders.wheel import WheelBuilder
from hypothesis import given
from hypothesis import strategies as st

from ostler.models import catalogue
from ostler.models.catalogue import (
    ASSUMED_CONTEXT_WINDOW,
    FREE,
    Catalogue,
    Hours,
    ModelInfo,
    Prices,
    Rates,
    Tier,
)
from ostler.models.providers import PROVIDERS, Provider
from ostler.schema.errors import ConfigurationError
from ostler.schema.usage import Usage
from tests.support.paths import ROOT

BUNDLED = list(Catalogue().models())
HEADER = json.loads(catalogue.FILE.read_bytes().splitlines()[0])
MILLION = Usage(input_tokens=1_000_000)

Bundle = Callable[..., Catalogue]


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bundle]:
    """Makes a catalogue of these lines the bundled one."""

    def use(*models: dict[str, Any], **aliases: str) -> Catalogue:
        header = {"date": "2026-01-01", "sources": {}, "aliases": aliases}
        lines = [json.dumps(line, separators=(",", ":")) for line in (header, *models)]
        file = tmp_path / "catalogue.jsonl"
        file.write_text("".join(f"{line}\n" for line in lines))
        monkeypatch.setattr(catalogue, "FILE", file)
        forget()
        return Catalogue()

    def forget() -> None:
        for cached in (catalogue._content, catalogue._header):
            cached.cache_clear()

    yield use
    forget()


# --- what is bundled


def test_the_bundled_file_is_small_sorted_and_in_the_wheel() -> None:
    names = [model.name for model in BUNDLED]
    lines = catalogue.FILE.read_bytes().splitlines(keepends=True)
    assert [json.loads(line)["name"] for line in lines[1:]] == sorted(set(names)) == names
    assert all(line.startswith(b'{"name":"') and line.endswith(b"}\n") for line in lines[1:])
    assert catalogue.FILE.stat().st_size < 150_000
    packed = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert f"ostler/models/{catalogue.FILE.name}" in packed


def test_every_model_is_of_a_provider_of_ours_and_has_a_window() -> None:
    assert {model.name.partition("/")[0] for model in BUNDLED} <= set(PROVIDERS)
    for model in BUNDLED:
        assert model.context_window and model.context_window > 1000
        assert model.output_limit is None or 0 < model.output_limit < model.context_window


def test_a_price_of_zero_is_only_that_of_what_is_called_free() -> None:
    for model in BUNDLED:
        prices = [model.prices, *model.later_prices] if model.prices else []
        rates = [rate for one in prices for rate in (one, *one.tiers, *one.hours)]
        bundled = [getattr(rate, kind) for rate in rates for kind in Rates.__struct_fields__]
        assert 0 not in bundled or (model.name.endswith(":free") and model.prices == FREE)


def test_every_alias_leads_to_a_model_that_an_agent_can_use() -> None:
    usable = {model.name for model in BUNDLED if model.tools and not model.deprecated}
    aliases = Catalogue().aliases
    assert set(aliases.values()) <= usable
    assert {
        "sonnet",
        "opus",
        "haiku",
        "claude",
        "gpt",
        "gpt-mini",
        "gemini",
        "gemini-flash",
        "grok",
        "kimi",
    } <= set(aliases)


def test_no_alias_has_the_name_of_a_provider_which_alone_means_its_default_model() -> None:
    assert set(Catalogue().aliases) & set(PROVIDERS) == set()


@pytest.mark.parametrize("provider", [one for one in PROVIDERS.values() if one.default_model])
def test_the_default_model_of_a_provider_is_one_that_an_agent_can_use(provider: Provider) -> None:
    info = Catalogue().lookup(f"{provider.name}/{provider.default_model}")
    assert info.tools and not info.deprecated


def test_no_source_lags_far_behind_the_newest() -> None:
    """It compares the sources with each other, not with today: a checkout does not rot by lying there."""
    days = {source: date.fromisoformat(day) for source, day in HEADER["sources"].items()}
    newest = max(days.values())
    assert len(days) == 2 and HEADER["date"] == newest.isoformat()
    stale = {source: str(day) for source, day in days.items() if (newest - day).days > 90}
    assert not stale, "renew the catalogue with `make catalogue`"


# --- looking up


@pytest.mark.parametrize("name", [BUNDLED[0].name, BUNDLED[-1].name, "anthropic/claude-sonnet-5-5"])
def test_a_lookup_finds_what_the_list_has_and_decodes_nothing_else(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[bytes] = []
    real = catalogue._decode
    monkeypatch.setattr(catalogue, "_decode", lambda line: decoded.append(line) or real(line))
    assert Catalogue().lookup(name) in BUNDLED
    assert len(decoded) == 1


def test_every_bundled_model_is_found_by_its_name() -> None:
    bundled = Catalogue()
    assert [bundled.lookup(model.name) for model in BUNDLED] == BUNDLED


def test_an_alias_is_looked_up_as_the_model_it_stands_for() -> None:
    bundled = Catalogue()
    assert bundled.lookup("sonnet") == bundled.lookup(bundled.aliases["sonnet"])
    assert bundled.lookup("sonnet").name.startswith("anthropic/claude-sonnet-")


@given(st.text(max_size=30))
def test_any_name_has_an_answer(name: str) -> None:
    info = Catalogue().lookup(name)
    assert info.known or info == ModelInfo(name=name.strip(), known=False)


def test_an_unknown_model_has_assumptions() -> None:
    info = Catalogue().lookup("openai/gpt-99")
    assert not info.known and info.prices is None and info.context_window is None
    assert info.context_limit == ASSUMED_CONTEXT_WINDOW
    assert info.assumptions == (
        "the catalogue does not have openai/gpt-99: "
        "a context of 128,000 tokens is assumed, and its price is unknown"
    )
    assert Catalogue().lookup("sonnet").assumptions == ""


def test_a_model_without_a_known_window_has_an_assumption(bundle: Bundle) -> None:
    info = bundle({"name": "xai/a", "prices": {"input": 1}}).lookup("xai/a")
    assert info.known and info.context_limit == ASSUMED_CONTEXT_WINDOW
    assert info.assumptions == (
        "the catalogue does not have the context window of xai/a: a context of 128,000 tokens is assumed"
    )


@pytest.mark.parametrize("day", ["-20261001", "-2026-10-01"])
def test_a_dated_snapshot_is_found_by_its_model(day: str) -> None:
    bundled = Catalogue().lookup("anthropic/claude-sonnet-5-5")
    snapshot = Catalogue().lookup(f"anthropic/claude-sonnet-5-5{day}")
    assert snapshot == msgspec.structs.replace(bundled, name=f"anthropic/claude-sonnet-5-5{day}")


@pytest.mark.parametrize("other", ["-20261", "-99999999", "-2026-10", "-fast", "20261001", ":free"])
def test_no_other_suffix_counts_as_a_snapshot(other: str) -> None:
    assert not Catalogue().lookup(f"anthropic/claude-sonnet-5-5{other}").known


def test_announced_prices_hold_from_their_day_on(bundle: Bundle) -> None:
    later = [
        {"since": "2026-12-01", "input": 2.0, "output": 4.0},
        {"since": "2027-01-01", "input": 3.0, "output": 6.0},
    ]
    bundled = bundle({"name": "google/g", "prices": {"input": 1.0, "output": 2.0}, "later_prices": later})
    seen = {
        day: bundled.lookup("google/g", today=day)
        for day in ("2026-11-30", "2026-12-01", "2026-12-31", "2028-01-01")
    }
    assert [info.prices and info.prices.input for info in seen.values()] == [1.0, 2.0, 2.0, 3.0]
    assert [len(info.later_prices) for info in seen.values()] == [2, 1, 1, 0]
    assert [next(bundled.models(today=day)) for day in seen] == list(seen.values())


# --- what a user says


def test_a_users_fields_replace_those_of_the_catalogue_one_by_one(bundle: Bundle) -> None:
    bundle({"name": "xai/a", "context_window": 9000, "tools": True, "prices": {"input": 1.0}})
    info = Catalogue({"xai/a": {"context_window": 5000}}).lookup("xai/a")
    assert info == ModelInfo(name="xai/a", context_window=5000, tools=True, prices=Prices(input=1.0))


def test_a_users_prices_are_the_prices_from_then_on(bundle: Bundle) -> None:
    later = [{"since": "2026-12-01", "input": 2.0}]
    bundle({"name": "xai/a", "prices": {"input": 1.0, "output": 1.0}, "later_prices": later})
    for day in ("2026-01-01", "2027-01-01"):
        info = Catalogue({"xai/a": {"prices": {"input": 7}}}).lookup("xai/a", today=day)
        assert (info.prices, info.later_prices) == (Prices(input=7.0), ())


def test_a_user_adds_models_and_aliases(bundle: Bundle) -> None:
    bundle({"name": "xai/b", "context_window": 9000}, b="xai/b")
    mine = {"ollama/qwen": {"context_window": 32768, "input": ["text", "image"]}}
    bundled = Catalogue(mine, {"local": "ollama/qwen", "fast": "b", "b2": "b"})
    assert [model.name for model in bundled.models()] == ["ollama/qwen", "xai/b"]
    info = bundled.lookup("local")
    assert (info.name, info.known, info.context_limit, info.assumptions) == ("ollama/qwen", True, 32768, "")
    assert bundled.resolve("fast") == "xai/b" and bundled.resolve("nobody") == "nobody"
    assert Catalogue(aliases={"b": "ollama/qwen"}).resolve("b") == "ollama/qwen"


def test_an_alias_may_stand_for_another(bundle: Bundle) -> None:
    bundle(newest="openai/gpt-6")
    bundled = Catalogue(aliases={"a": "b", "b": " c ", "c": "ollama/x", "mine": "newest"})
    assert [bundled.resolve(name) for name in ("a", "b", "mine", "d")] == [
        "ollama/x",
        "ollama/x",
        "openai/gpt-6",
        "d",
    ]


@pytest.mark.parametrize(
    ("aliases", "circle"), [({"a": "a"}, "a = a"), ({"a": "b", "b": "c", "c": "b"}, "b = c = b")]
)
def test_aliases_in_a_circle_are_refused(aliases: dict[str, str], circle: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"refer to each other: {circle}; let one of them name a model"
    ):
        Catalogue(aliases=aliases).resolve("a")


@pytest.mark.parametrize(
    ("name", "fields", "complaint"),
    [
        ("gpt", {}, "PROVIDER/ID"),
        ("openai/x", {"context": 5}, "context"),
        ("openai/x", {"context_window": "big"}, "context_window"),
        ("openai/x", {"input": ["smell"]}, "smell"),
        ("openai/x", {"prices": {"inputs": 1}}, "inputs"),
    ],
)
def test_an_invalid_override_is_reported_in_one_line(
    name: str, fields: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        Catalogue({name: fields})
    assert name in caught.value.message and "\n" not in caught.value.message


# --- prices


def test_a_missing_rate_makes_the_cost_unknown_only_when_it_is_needed() -> None:
    prices = Prices(input=2.0, output=8.0)
    assert prices.cost(Usage(input_tokens=1_000_000, output_tokens=500_000)) == 6.0
    assert prices.cost(Usage(input_tokens=1, cache_read_tokens=1)) is None
    assert Prices().cost(MILLION) is None and Prices().cost(Usage()) == 0.0
    assert FREE.cost(Usage(input_tokens=9, output_tokens=9, cache_read_tokens=9, cache_write_tokens=9)) == 0.0


def test_a_large_input_puts_every_token_into_its_tier() -> None:
    prices = Prices(
        input=1.0,
        output=10.0,
        cache_read=0.1,
        tiers=(Tier(above=500_000, input=4.0), Tier(above=200_000, input=2.0, output=15.0, cache_read=0.2)),
    )
    assert prices.cost(Usage(input_tokens=200_000)) == pytest.approx(0.2)
    assert prices.cost(Usage(input_tokens=200_001)) == pytest.approx(0.400002)
    told = Usage(input_tokens=100_000, cache_read_tokens=150_000, output_tokens=100_000)
    assert prices.cost(told) == pytest.approx(0.2 + 0.03 + 1.5)
    assert prices.cost(Usage(input_tokens=600_000)) == pytest.approx(2.4)
    assert prices.cost(Usage(input_tokens=600_000, output_tokens=1)) is None


@pytest.mark.parametrize(
    ("clock", "cost"), [("00:59", 1.0), ("01:00", 2.0), ("03:59", 2.0), ("04:00", 1.0), ("23:30", 5.0)]
)
def test_prices_depend_on_the_hour_if_the_vendor_has_hours(clock: str, cost: float) -> None:
    prices = Prices(
        input=1.0,
        hours=(Hours(start="01:00", end="04:00", input=2.0), Hours(start="23:00", end="00:30", input=5.0)),
    )
    hour, minute = map(int, clock.split(":"))
    assert prices.cost(MILLION, at=86400 * 20_000 + hour * 3600 + minute * 60) == cost


rate = st.none() | st.floats(0, 100)
count = st.integers(0, 10**7)


@given(st.builds(Rates, rate, rate, rate, rate), st.builds(Usage, count, count, count, count))
def test_a_cost_is_known_only_if_every_used_rate_is(rates: Rates, usage: Usage) -> None:
    used = [
        (usage.input_tokens, rates.input),
        (usage.output_tokens, rates.output),
        (usage.cache_read_tokens, rates.cache_read),
        (usage.cache_write_tokens, rates.cache_write),
    ]
    cost = rates.charge(usage)
    assert (cost is None) == any(tokens and rate is None for tokens, rate in used)
    if cost is not None:
        assert cost == pytest.approx(sum(tokens * (rate or 0) for tokens, rate in used) / 1_000_000)
