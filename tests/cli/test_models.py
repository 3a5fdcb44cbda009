"""`ostler models`: the catalogue for people and programs."""

from __future__ import annotations

import re

from ostler.cli.models import HEADINGS
from ostler.models.catalogue import Catalogue
from tests.support.command import Ostler


def test_every_model_is_listed_with_the_date_of_the_catalogue(ostler: Ostler) -> None:
    ran = ostler("models")
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()] == [one.name for one in Catalogue().models()]
    assert re.fullmatch(
        rf"ostler: \d+ models, prices in dollars per million tokens, as of {Catalogue().date}\n", ran.err
    )
    assert not ostler.home.exists()


def test_words_must_all_be_in_the_name_or_an_alias(ostler: Ostler) -> None:
    bundled = Catalogue()
    listed = ostler("models", "SONNET", "5-5", "--json").lines
    assert [one["name"] for one in listed] == ["anthropic/claude-sonnet-5-5"]
    assert "sonnet" in listed[0]["aliases"]
    by_alias = ostler("models", "gemini-flash", "--provider", "google", "--json").lines
    assert bundled.aliases["gemini-flash"] in [one["name"] for one in by_alias]


def test_a_provider_limits_the_list(ostler: Ostler) -> None:
    names = [one["name"] for one in ostler("models", "--provider", "xai", "--json").lines]
    assert names and all(name.startswith("xai/") for name in names)
    ran = ostler("models", "--provider", "nobody")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("ostler: the catalogue has no models of 'nobody'; it has those of anthropic, ")
    assert ran.err.count("\n") == 1


def test_unknown_values_are_not_printed_as_zero(ostler: Ostler) -> None:
    without_price = next(one.name for one in Catalogue().models() if one.prices is None)
    (row,) = [
        line
        for line in ostler("models", without_price).out.splitlines()
        if line.startswith(without_price + " ")
    ]
    assert re.split(r" {2,}", row)[5:7] == ["unknown", "unknown"]
    listed = ostler("models", without_price, "--json").lines
    assert [one["prices"] for one in listed if one["name"] == without_price] == [None]


def test_a_variable_price_is_a_range(ostler: Ostler) -> None:
    tiered = next(
        one for one in Catalogue().models() if one.prices and one.prices.tiers and one.prices.input == 2.0
    )
    assert tiered.prices
    (row,) = [
        line for line in ostler("models", tiered.name).out.splitlines() if line.startswith(tiered.name + " ")
    ]
    highest = max(tier.input or 0 for tier in tiered.prices.tiers)
    assert re.split(r" {2,}", row)[5] == f"2–{highest:g}"


def test_no_match_says_that_unlisted_models_work(ostler: Ostler) -> None:
    ran = ostler("models", "no-such-model")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("ostler: 0 models, ")
    assert ran.err.endswith("; unlisted models work, too, as PROVIDER/ID\n")


def test_a_terminal_gets_headings_and_lines_that_fit(ostler: Ostler) -> None:
    head, *lines = ostler.on_terminal("models", "opus", columns=150).out.splitlines()
    assert tuple(re.split(r" {2,}", head)) == HEADINGS
    assert lines and max(map(len, (head, *lines))) <= 150


def test_a_narrow_terminal_keeps_names_prices_and_aliases(ostler: Ostler) -> None:
    head, *lines = ostler.on_terminal("models", "claude-opus-5", columns=80).out.splitlines()
    assert head.split("  ")[0] == "MODEL" and "$ IN" in head and "ALIASES" in head and "INPUT" not in head
    assert any(line.endswith(" opus") for line in lines)
    assert max(map(len, (head, *lines))) <= 80
    cramped = ostler.on_terminal("models", "opus", columns=30).out.splitlines()
    assert max(map(len, cramped)) <= 30


def test_an_alias_of_an_alias_is_listed_with_its_model(ostler: Ostler) -> None:
    ostler.configure(
        """
        [aliases]
        swift = "quick"
        quick = "acme/small"
        bard = "sonnet"
        [models."acme/small"]
        tools = true
        """
    )
    (small,) = ostler("models", "swift", "--json").lines
    assert (small["name"], small["aliases"]) == ("acme/small", ["quick", "swift"])
    assert "bard" in ostler("models", "bard", "--json").lines[0]["aliases"]
