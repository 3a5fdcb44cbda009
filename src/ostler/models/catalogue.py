"""The model catalogue: limits, modalities and prices; and the profile that a wire gets of its model.

`make catalogue` writes the bundled file: a header and a line for each model, so that a lookup decodes one
line. What no source knows is absent in the file and `None` here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.core.lazy import lazy_module
from ostler.models.families import Level
from ostler.schema.errors import ConfigurationError
from ostler.schema.usage import Usage

if TYPE_CHECKING:
    from ostler.core import validation as validation_module
else:
    validation_module = lazy_module("ostler.core.validation")

Modality = Literal["text", "image", "file", "audio", "video"]


class Rates(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Dollars for a million tokens; `None` is unknown, which is never the same as 0."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None

    def charge(self, usage: Usage) -> float | None:
        """Unknown when a rate is missing for something that was used."""
        charged = 0.0
        for tokens, rate in (
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
        ):
            if not tokens:
                continue
            if rate is None:
                return None
            charged += tokens * rate
        return charged / 1_000_000


class Tier(Rates, frozen=True, kw_only=True):
    """What every token of a call costs whose input, cached or not, has more than so many tokens."""

    above: int


class Hours(Rates, frozen=True, kw_only=True):
    """What a call costs between two times of the day, `HH:MM` in UTC."""

    start: str
    end: str

    def include(self, clock: str) -> bool:
        if self.start <= self.end:
            return self.start <= clock < self.end
        return clock >= self.start or clock < self.end


class Prices(Rates, frozen=True):
    tiers: tuple[Tier, ...] = ()
    hours: tuple[Hours, ...] = ()

    def cost(self, usage: Usage, at: float | None = None) -> float | None:
        """Dollars for a call at that moment, by default now; `None` is unknown."""
        return self._rates(usage, at).charge(usage)

    def _rates(self, usage: Usage, at: float | None) -> Rates:
        if self.hours:
            clock = time.strftime("%H:%M", time.gmtime(at))
            for hours in self.hours:
                if hours.include(clock):
                    return hours
        input_tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        reached = [tier for tier in self.tiers if input_tokens > tier.above]
        return max(reached, key=lambda tier: tier.above) if reached else self


FREE = Prices(input=0.0, output=0.0, cache_read=0.0, cache_write=0.0)
"""Of a server of one's own."""


class ModelProfile(msgspec.Struct, frozen=True):
    max_output_tokens: int | None = None
    """For requests that do not say it themselves."""
    headers: dict[str, str] = {}
    """Sent with every request, over the wire's own."""
    prices: Prices | None = None
    """Without them the cost of a call is unknown, unless the vendor reports it."""
    output_limit: int | None = None
    """The most that the model can write in one answer, where it is known."""
    input: tuple[Modality, ...] = ()
    """What the model can be shown; empty where it is not known."""
    reasons: bool | None = None
    """Whether the model can reason, where it is known."""
    reasoning_levels: tuple[Level, ...] = ()
    """Those that it has; empty where they are not known."""
    tools: bool | None = None
    """Whether it takes tools, where it is known."""
    assumptions: str = ""
    """What had to be assumed of a model that nobody has described; told at the beginning of a session."""


FILE = Path(__file__).with_name("catalogue.jsonl")

ASSUMED_CONTEXT_WINDOW = 128_000
"""Nineteen of twenty models in the catalogue have as much or more."""


class LaterPrices(Prices, frozen=True, kw_only=True):
    """Prices from a day on, `YYYY-MM-DD`, in UTC."""

    since: str


class ModelFields(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """What can be said of a model, by the catalogue or by a user. What is absent is unknown."""

    context_window: int | None = None
    output_limit: int | None = None
    input: tuple[Modality, ...] = ()
    """Those that some source names; no source speaks of files, so far."""
    reasoning: bool | None = None
    reasoning_levels: tuple[Level, ...] = ()
    """`off` is among them where reasoning can be switched off."""
    tools: bool | None = None
    prices: Prices | None = None
    deprecated: bool = False


class ModelInfo(ModelFields, frozen=True, kw_only=True):
    name: str
    """`PROVIDER/ID`."""
    later_prices: tuple[LaterPrices, ...] = ()
    """Announced, and not yet in force; by day."""
    known: bool = True
    """Whether anybody described the model; of any other nothing is known but the name."""

    @property
    def context_limit(self) -> int:
        return self.context_window or ASSUMED_CONTEXT_WINDOW

    @property
    def assumptions(self) -> str:
        """A sentence for people where something had to be assumed, otherwise empty."""
        if self.known and self.context_window:
            return ""
        unknown = f"how much {self.name} holds" if self.known else self.name
        price = "" if self.prices else ", and its price is unknown"
        return (
            f"the catalogue does not know {unknown}: "
            f"a context of {ASSUMED_CONTEXT_WINDOW:,} tokens is assumed{price}"
        )


class Header(msgspec.Struct, frozen=True):
    date: str
    """Of the newest data in the file."""
    sources: dict[str, str]
    """The day of each source's data."""
    aliases: dict[str, str]
    """The newest model of a line, by the name of the line."""


class Catalogue:
    """The bundled models, and what a user says about these or others: the user wins.

    `overrides` are fields of `ModelFields` by `PROVIDER/ID`; each replaces that field of the bundled entry.
    """

    def __init__(
        self,
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self._overrides = {name: _checked(name, fields) for name, fields in (overrides or {}).items()}
        self._aliases = dict(aliases or {})

    @property
    def date(self) -> str:
        return _header().date

    @property
    def aliases(self) -> dict[str, str]:
        return _header().aliases | self._aliases

    def resolve(self, name: str) -> str:
        """The model that an alias stands for, be it by way of others; any other name stands for itself."""
        passed: list[str] = []
        while name in self._aliases:
            passed.append(name)
            name = self._aliases[name].strip()
            if name in passed:
                circle = " = ".join((*passed[passed.index(name) :], name))
                raise ConfigurationError(f"aliases lead in a circle: {circle}; let one of them name a model")
        return name if "/" in name else _header().aliases.get(name, name)

    def limits(self, model: str) -> tuple[int, int | None]:
        """How many tokens a model reads, and how many it writes."""
        info = self.lookup(model)
        return info.context_limit, info.output_limit

    def lookup(self, name: str, today: str | None = None, *, like: str = "") -> ModelInfo:
        """What is known of `PROVIDER/ID` or an alias, with the prices of that day. It always answers.

        Where the bundled models have no such name, it is known as the same id of the provider `like`.
        """
        name = self.resolve(name.strip())
        found = _find(name)
        if found is None and like:
            same = self.lookup(f"{like}/{name.partition('/')[2]}", today)
            return self._overridden(msgspec.structs.replace(same, name=name))
        info = _priced(found, today or _today()) if found else ModelInfo(name=name, known=False)
        return self._overridden(info)

    def prices_of_user(self, name: str) -> Prices | None:
        """What the user says that a model costs, which goes before all else."""
        prices: Prices | None = self._overrides.get(name, {}).get("prices")
        return prices

    def models(self, today: str | None = None) -> Iterator[ModelInfo]:
        """All of them, by name."""
        today = today or _today()
        listed = {info.name: info for info in map(_decode, _lines()[1:])}
        added = {name: ModelInfo(name=name, known=False) for name in self._overrides if name not in listed}
        for _, info in sorted((listed | added).items()):
            yield self._overridden(_priced(info, today))

    def _overridden(self, info: ModelInfo) -> ModelInfo:
        changes = self._overrides.get(info.name)
        if changes is None:
            return info
        if "prices" in changes:
            changes = {"later_prices": (), **changes}
        return msgspec.structs.replace(info, known=True, **changes)


@cache
def _lines() -> list[bytes]:
    return _content().splitlines()


@cache
def _content() -> bytes:
    return FILE.read_bytes()


@cache
def _header() -> Header:
    content = _content()
    return msgspec.json.decode(content[: content.index(b"\n")], type=Header)


def _find(name: str) -> ModelInfo | None:
    """The entry of that name, or of the name without the day of its snapshot."""
    content = _content()
    for candidate in (name, _without_day(name)):
        start = content.find(b'\n{"name":' + msgspec.json.encode(candidate) + b",") + 1
        if start:
            info = _decode(content[start : content.index(b"\n", start)])
            return msgspec.structs.replace(info, name=name)
    return None


def _without_day(name: str) -> str:
    """`x-20261101` and `x-2026-11-01` are `x` as it was on that day."""
    parts = name.split("-")
    for count in (1, 3):
        day = "".join(parts[-count:])
        if len(parts) > count and len(day) == 8 and day.isdecimal() and day.startswith("20"):
            return "-".join(parts[:-count])
    return name


def _decode(line: bytes) -> ModelInfo:
    return msgspec.json.decode(line, type=ModelInfo)


def _priced(info: ModelInfo, today: str) -> ModelInfo:
    """With the prices in force on that day."""
    due = [later for later in info.later_prices if later.since <= today]
    if not due:
        return info
    return msgspec.structs.replace(info, prices=due[-1], later_prices=info.later_prices[len(due) :])


def _today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def _checked(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    if "/" not in name:
        raise ConfigurationError(f'models."{name}": a model is named PROVIDER/ID')
    try:
        described = msgspec.convert(dict(fields), ModelFields)
    except msgspec.ValidationError:
        raise ConfigurationError(
            validation_module.describe_mismatch(dict(fields), ModelFields, f'models."{name}"')
        ) from None
    return {field: getattr(described, field) for field in fields}
