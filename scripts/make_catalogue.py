"""Makes src/ostler/models/catalogue.jsonl from the newest `genai-prices` and `@earendil-works/pi-ai`.

pip and npm download them to a temporary folder. Prices and context windows come from `genai-prices`; the list
of models for agents, their output limits, modalities and reasoning, and all that is missing there come from
`pi-ai`. Each line of the file is a model, so an update is readable as a diff.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import msgspec

from ostler.models.catalogue import (
    FILE,
    FREE,
    Header,
    Hours,
    LaterPrices,
    Modality,
    ModelInfo,
    Prices,
    Rates,
    Tier,
)
from ostler.models.families import LEVELS, Level

PRICES_PACKAGE = "genai-prices"
MODELS_PACKAGE = "@earendil-works/pi-ai"

# The name of a provider here, in genai-prices and in pi-ai.
PROVIDERS = (
    ("anthropic", "anthropic", "anthropic"),
    ("azure", "azure", "azure"),
    ("deepseek", "deepseek", "deepseek"),
    ("fireworks", "fireworks", "fireworks"),
    ("google", "google", "google"),
    ("groq", "groq", "groq"),
    ("mistral", "mistral", "mistral"),
    ("moonshot", "moonshotai", "moonshotai"),
    ("openai", "openai", "openai"),
    ("openrouter", "openrouter", "openrouter"),
    ("together", "together", "together"),
    ("xai", "x-ai", "xai"),
)
# For these, genai-prices uses the ids of the vendor's API, so models that only it has are listed too.
LISTED_WITHOUT_LIMITS = (
    "anthropic",
    "deepseek",
    "google",
    "groq",
    "mistral",
    "moonshot",
    "openai",
    "together",
    "xai",
)
NOT_FOR_AGENTS = re.compile(
    r"audio|batch|computer-use|embed|guard|image|live|moderation|ocr|orpheus|realtime|robotics|search|"
    r"transcribe|tts|vision-preview|voice|voxtral|whisper|:"
)

# The alias of a line of models, its provider, and the pattern of its ids. The groups are the version.
LINES = (
    ("claude", "anthropic", r"claude-sonnet-(\d+)(?:-(\d))?"),
    ("sonnet", "anthropic", r"claude-sonnet-(\d+)(?:-(\d))?"),
    ("opus", "anthropic", r"claude-opus-(\d+)(?:-(\d))?"),
    ("haiku", "anthropic", r"claude-haiku-(\d+)(?:-(\d))?"),
    ("fable", "anthropic", r"claude-fable-(\d+)(?:-(\d))?"),
    ("gpt", "openai", r"gpt-(\d+)(?:\.(\d+))?(?:-sol)?"),
    ("gpt-terra", "openai", r"gpt-(\d+)(?:\.(\d+))?-terra"),
    ("gpt-luna", "openai", r"gpt-(\d+)(?:\.(\d+))?-luna"),
    ("gpt-mini", "openai", r"gpt-(\d+)(?:\.(\d+))?-mini"),
    ("gpt-nano", "openai", r"gpt-(\d+)(?:\.(\d+))?-nano"),
    ("gpt-codex", "openai", r"gpt-(\d+)(?:\.(\d+))?-codex"),
    ("gemini", "google", r"gemini-(\d+)(?:\.(\d+))?-(?:pro|argon)(?:-preview)?"),
    ("gemini-flash", "google", r"gemini-(\d+)(?:\.(\d+))?-flash(?:-preview)?"),
    ("gemini-flash-lite", "google", r"gemini-(\d+)(?:\.(\d+))?-flash-lite(?:-preview)?"),
    ("mistral-large", "mistral", r"mistral-large-(\d)"),
    ("mistral-medium", "mistral", r"mistral-medium-(\d)\.(\d)"),
    ("mistral-small", "mistral", r"mistral-small-latest"),
    ("codestral", "mistral", r"codestral-latest"),
    ("devstral", "mistral", r"devstral-latest"),
    ("deepseek-pro", "deepseek", r"deepseek-v(\d+)(?:\.(\d+))?-pro"),
    ("deepseek-flash", "deepseek", r"deepseek-flash"),
    ("grok", "xai", r"grok-(\d+)(?:\.(\d+))?"),
    ("kimi", "moonshot", r"kimi-k(\d+)(?:\.(\d+))?(?:-pro)?"),
    ("kimi-code", "moonshot", r"kimi-k(\d+)(?:\.(\d+))?-code"),
)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        print(f"downloading {PRICES_PACKAGE} and {MODELS_PACKAGE}", file=sys.stderr)
        prices, prices_date = fetch_prices(Path(folder))
        tables, tables_date = fetch_tables(Path(folder))
    sources = {PRICES_PACKAGE: prices_date, MODELS_PACKAGE: tables_date}
    models = distilled(prices, tables, max(sources.values()))
    FILE.write_bytes(written(models, sources))
    print(f"{FILE.name}: {len(models)} models, {FILE.stat().st_size:,} bytes", file=sys.stderr)
    return 0


# --- the sources -------------------------------------------------------------------------------------


def fetch_prices(folder: Path) -> tuple[dict[str, Any], str]:
    """The providers of genai-prices by name, and the newest date in its data, which is undated."""
    packages = folder / "packages"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", packages, PRICES_PACKAGE], check=True
    )
    sys.path.insert(0, str(packages))
    data = importlib.import_module("genai_prices.data")
    text = Path(str(data.__file__)).read_text(encoding="utf-8")
    return {provider.id: provider for provider in data.providers}, newest_day(text)


def fetch_tables(folder: Path) -> tuple[dict[str, dict[str, Any]], str]:
    """The tables of pi-ai by provider and id, and their date."""
    # Without "latest", npm may choose an older version that supports an older Node.
    pack = ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{MODELS_PACKAGE}@latest"]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    [archive] = folder.glob("*.tgz")
    with tarfile.open(archive) as package:

        def read(name: str) -> Any:
            file = package.extractfile(f"package/dist/providers/data/{name}.json")
            assert file is not None
            return json.load(file)

        tables = {theirs: chat_models(read(theirs)) for _, _, theirs in PROVIDERS}
        return tables, read(".manifest")["generatedAt"][:10]


def chat_models(groups: dict[str, dict[str, Any]]) -> dict[str, Any]:
    models = (model for group in groups.values() for model in group.values())
    return {model["id"]: model for model in models if model["type"] == "chat"}


def newest_day(text: str) -> str:
    today = datetime.now(UTC).date()
    days = re.findall(r"\b(20\d\d)(?:-|, )(\d\d?)(?:-|, )(\d\d?)\b", text)
    return max(day for day in _dates(days) if day <= today).isoformat()


def _dates(days: Iterable[tuple[str, ...]]) -> Iterator[date]:
    for year, month, day in set(days):
        try:
            yield date(int(year), int(month), int(day))
        except ValueError:  # not a date
            continue


# --- a model -----------------------------------------------------------------------------------------


def distilled(prices: dict[str, Any], tables: dict[str, dict[str, Any]], today: str) -> list[ModelInfo]:
    models: list[ModelInfo] = []
    for provider, in_prices, in_tables in PROVIDERS:
        priced, table = prices[in_prices], tables[in_tables]
        for model in table.values():
            if ":batch" not in model["id"]:
                models.append(listed_model(provider, model, priced.find_model(model["id"]), today))
        if provider in LISTED_WITHOUT_LIMITS:
            taken = {id.lower() for id in table}
            models += [
                priced_model(provider, entry, today)
                for entry in priced.models
                if entry.id.lower() not in taken and worth_listing(provider, entry)
            ]
    return sorted(models, key=lambda model: model.name)


def listed_model(provider: str, model: dict[str, Any], entry: Any, today: str) -> ModelInfo:
    """A model of pi-ai, with the prices of its entry in genai-prices or else of its family."""
    own = entry is not None and model["id"].lower().rpartition("/models/")[2] == entry.id.lower()
    window = (entry.context_window if own else None) or model["contextWindow"] or None
    return ModelInfo(
        name=f"{provider}/{model['id']}",
        context_window=window,
        output_limit=output_limit(provider, model["maxTokens"], window),
        input=modalities(model, entry if own else None),
        reasoning=model["reasoning"],
        reasoning_levels=levels(model),
        tools=True,
        deprecated=bool(own and entry.deprecated),
        **dated_fields(chosen(own, price_list(entry, today), cost_of(model))),
    )


def priced_model(provider: str, entry: Any, today: str) -> ModelInfo:
    """A model that only genai-prices has."""
    return ModelInfo(
        name=f"{provider}/{entry.id}",
        context_window=entry.context_window,
        **dated_fields(price_list(entry, today)),
    )


def worth_listing(provider: str, entry: Any) -> bool:
    if entry.deprecated or not entry.context_window or NOT_FOR_AGENTS.search(entry.id):
        return False
    if provider == "google" and not re.match(r"gemini-\d", entry.id):
        return False  # models of other vendors, and other spellings
    prices = price_list(entry, "")[-1:]
    return bool(prices) and prices[0].input is not None and prices[0].output is not None


def output_limit(provider: str, limit: int, window: int | None) -> int | None:
    """None if unknown: pi-ai then has nearly the whole context window, or 4096 for OpenRouter."""
    if not limit or (provider == "openrouter" and limit == 4096):
        return None
    return limit if window is None or limit < window * 3 / 4 else None


def modalities(model: dict[str, Any], entry: Any) -> tuple[Modality, ...]:
    """The modalities of pi-ai, and those with a price."""
    named = set(model["input"])
    named |= {name for name in ("audio", "video") if entry is not None and priced_apart(entry, name)}
    return tuple(name for name in get_args(Modality) if name in named)


def priced_apart(entry: Any, modality: str) -> bool:
    return any(f"input_{modality}_mtok" in vars(prices) for _, prices in conditions(entry))


def levels(model: dict[str, Any]) -> tuple[Level, ...]:
    """Levels missing from pi-ai's map are supported, except the two highest. Without a map, none is known."""
    mapped = model.get("thinkingLevelMap")
    if not model["reasoning"] or not mapped:
        return ()
    usual = {level: level for level in LEVELS if level not in ("xhigh", "max")}
    return tuple(level for level in LEVELS if (usual | mapped).get(level) is not None)


# --- prices ------------------------------------------------------------------------------------------


def chosen(own: bool, priced: list[Prices], cost: Prices | None) -> list[Prices]:
    if not priced or cost is None:
        return priced or ([cost] if cost else [])
    now = priced[0]
    if (now.input, now.output) != (cost.input, cost.output):
        return priced if own else []  # the family's price differs from pi-ai's: neither is certain
    missing = {name: getattr(cost, name) for name in Rates.__struct_fields__ if getattr(now, name) is None}
    return [msgspec.structs.replace(now, **missing), *priced[1:]]


def dated_fields(prices: list[Prices]) -> dict[str, Any]:
    return {"prices": prices[0], "later_prices": tuple(prices[1:])} if prices else {}


def cost_of(model: dict[str, Any]) -> Prices | None:
    """None if unknown: pi-ai then has 0. Only models named `:free` are free."""
    cost = model["cost"]
    if model["id"].endswith(":free"):
        return FREE
    if not cost["input"] and not cost["output"]:
        return None
    tiers = [Tier(above=tier["inputTokensAbove"], **rates_of_cost(tier)) for tier in cost.get("tiers", ())]
    return Prices(tiers=tuple(tiers), **rates_of_cost(cost))


def rates_of_cost(cost: dict[str, Any]) -> dict[str, Any]:
    names = {"input": "input", "output": "output", "cache_read": "cacheRead", "cache_write": "cacheWrite"}
    return {name: rounded(cost[theirs]) if cost[theirs] else None for name, theirs in names.items()}


def price_list(entry: Any, today: str) -> list[Prices]:
    """The prices of a day, then those of later days."""
    if entry is None:
        return []
    dated: list[tuple[str, Prices]] = []
    listed = conditions(entry)
    for at, (condition, prices) in enumerate(listed):
        if hasattr(condition, "start_time"):
            continue
        hours = [
            Hours(start=f"{apart.start_time:%H:%M}", end=f"{apart.end_time:%H:%M}", **rates(other, above=0))
            for apart, other in listed[at:]
            if hasattr(apart, "start_time")
        ]
        starts = condition.start_date.isoformat() if condition is not None else ""
        dated.append((starts, as_prices(prices, hours)))
    before = [prices for starts, prices in dated if starts <= today][-1:]
    later = [
        LaterPrices(since=starts, **msgspec.structs.asdict(prices))
        for starts, prices in dated
        if starts > today
    ]
    return [prices for prices in [*before, *later] if prices.input is not None]


def conditions(entry: Any) -> list[tuple[Any, Any]]:
    """Pairs of a condition and prices. The last pair whose condition holds applies."""
    if isinstance(entry.prices, list):
        return [(one.constraint, one.prices) for one in entry.prices]
    return [(None, entry.prices)]


def as_prices(prices: Any, hours: list[Hours]) -> Prices:
    starts = {
        tier.start for price in vars(prices).values() if hasattr(price, "tiers") for tier in price.tiers
    }
    tiers = [Tier(above=start, **rates(prices, above=start)) for start in sorted(starts)]
    return Prices(**rates(prices, above=0), tiers=tuple(tiers), hours=tuple(hours))


def rates(prices: Any, above: int) -> dict[str, Any]:
    """The price of a million tokens in a call with more than `above` input tokens."""
    if "output_reasoning_mtok" in vars(prices):
        return {}  # `Usage` does not count reasoning tokens separately

    def rate(price: Any) -> float | None:
        if hasattr(price, "tiers"):
            price = next((tier.price for tier in reversed(price.tiers) if tier.start <= above), price.base)
        return None if price is None else rounded(price)

    return {name: rate(vars(prices).get(f"{name}_mtok")) for name in Rates.__struct_fields__}


def rounded(price: Decimal | float) -> float:
    return round(float(price), 6)


# --- the file ----------------------------------------------------------------------------------------


def newest_of_each_line(models: list[ModelInfo]) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for alias, provider, pattern in LINES:
        candidates = []
        for model in models:
            fits = re.fullmatch(f"{provider}/{pattern}", model.name)
            if fits and model.tools and not model.deprecated:
                candidates.append(([int(part or 0) for part in fits.groups()], model.name))
        if not candidates:
            raise SystemExit(
                f"no model matches the line {alias!r}: check its pattern in {Path(__file__).name}"
            )
        aliases[alias] = max(candidates)[1]
    return aliases


def written(models: list[ModelInfo], sources: dict[str, str]) -> bytes:
    header = Header(
        date=max(sources.values()), sources=sources, aliases=dict(sorted(newest_of_each_line(models).items()))
    )
    lines = [msgspec.to_builtins(header)]
    for model in models:
        fields = msgspec.to_builtins(model)
        lines.append({"name": fields.pop("name"), **fields})
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
