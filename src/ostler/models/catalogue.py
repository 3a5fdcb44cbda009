"""The model catalogue: limits, modalities and prices; and the profile of a model that its wire gets.

`make catalogue` writes the bundled file: a header and a line for each model, so that a lookup decodes one
line. A value that no source has is absent in the file and `None` here.
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
    """Dollars for a million tokens; `None` is unknown, not 0."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None

    def charge(self, usage: Usage) -> float | None:
        """The cost in dollars; None if a rate is missing for tokens that were used."""
        used = (
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
        )
        if any(tokens and rate is None for tokens, rate in used):
            return None
        return sum(tokens * (rate or 0.0) for tokens, rate in used) / 1_000_000


class Tier(Rates, frozen=True, kw_only=True):
    """The rates of a call whose input, cached or not, has more tokens than `above`."""

    above: int


class Hours(Rates, frozen=True, kw_only=True):
    """The rates between two times of the day, `HH:MM` in UTC."""

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
        """The cost of a call in dollars at that moment, by default now; `None` is unknown."""
        clock = time.strftime("%H:%M", time.gmtime(at)) if self.hours else ""
        input_tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        tiers = [tier for tier in self.tiers if input_tokens > tier.above]
        by_size = max(tiers, key=lambda tier: tier.above) if tiers else self
        return next((hours for hours in self.hours if hours.include(clock)), by_size).charge(usage)


FREE = Prices(input=0.0, output=0.0, cache_read=0.0, cache_write=0.0)
"""The prices of a local server."""


class ModelProfile(msgspec.Struct, frozen=True):
    """Settings and capabilities of a model; what is unknown is None or empty."""

    max_output_tokens: int | None = None
    """The default for requests without a limit of their own."""
    headers: dict[str, str] = {}
    """Sent with every request; they override those of the wire."""
    prices: Prices | None = None
    """Without them the cost of a call is unknown, unless the vendor reports it."""
    output_limit: int | None = None
    """The maximum number of tokens in one answer."""
    input: tuple[Modality, ...] = ()
    reasons: bool | None = None
    """Whether the model can reason."""
    reasoning_levels: tuple[Level, ...] = ()
    tools: bool | None = None
    """Whether the model supports tools."""
    assumptions: str = ""
    """A warning about assumed values, for the beginning of a session."""


FILE = Path(__file__).with_name("catalogue.jsonl")

ASSUMED_CONTEXT_WINDOW = 128_000
"""19 of 20 models in the catalogue have at least this window."""


class LaterPrices(Prices, frozen=True, kw_only=True):
    """Prices that apply from a day on, `YYYY-MM-DD`, in UTC."""

    since: str


class ModelFields(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """The description of a model, by the catalogue or by a user. What is absent is unknown."""

    context_window: int | None = None
    output_limit: int | None = None
    input: tuple[Modality, ...] = ()
    """As named by some source; no source mentions files so far."""
    reasoning: bool | None = None
    reasoning_levels: tuple[Level, ...] = ()
    """They include `off` if reasoning can be turned off."""
    tools: bool | None = None
    prices: Prices | None = None
    deprecated: bool = False


class ModelInfo(ModelFields, frozen=True, kw_only=True):
    name: str
    """`PROVIDER/ID`."""
    later_prices: tuple[LaterPrices, ...] = ()
    """Announced prices, by day."""
    known: bool = True
    """Whether the catalogue or the user describes the model."""

    @property
    def context_limit(self) -> int:
        return self.context_window or ASSUMED_CONTEXT_WINDOW

    @property
    def assumptions(self) -> str:
        """A warning for people if something is assumed, otherwise empty."""
        if self.known and self.context_window:
            return ""
        unknown = f"the context window of {self.name}" if self.known else self.name
        price = "" if self.prices else ", and its price is unknown"
        assumed = f"a context of {ASSUMED_CONTEXT_WINDOW:,} tokens is assumed"
        return f"the catalogue does not have {unknown}: {assumed}{price}"


class Header(msgspec.Struct, frozen=True):
    date: str
    """The date of the newest data in the file."""
    sources: dict[str, str]
    """The date of each source's data."""
    aliases: dict[str, str]
    """The newest model of each product line, by the line's name."""


class Catalogue:
    """The bundled models, with the user's changes and additions.

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
        """The model that an alias stands for, directly or through others; else the name itself."""
        names: list[str] = []
        while name in self._aliases:
            names.append(name)
            name = self._aliases[name].strip()
            if name in names:
                circle = " = ".join((*names[names.index(name) :], name))
                raise ConfigurationError(
                    f"aliases refer to each other: {circle}; let one of them name a model"
                )
        return name if "/" in name else _header().aliases.get(name, name)

    def limits(self, model: str) -> tuple[int, int | None]:
        """A model's context window and output limit, in tokens."""
        info = self.lookup(model)
        return info.context_limit, info.output_limit

    def lookup(self, name: str, today: str | None = None, *, like: str = "") -> ModelInfo:
        """The description of `PROVIDER/ID` or an alias, with the prices of that day; it never fails.

        A name that is not bundled is looked up as the same id of the provider `like`.
        """
        name = self.resolve(name.strip())
        bundled = _find(name)
        if bundled is None and like:
            same = self.lookup(f"{like}/{name.partition('/')[2]}", today)
            return self._overridden(msgspec.structs.replace(same, name=name))
        info = _priced(bundled, today or _today()) if bundled else ModelInfo(name=name, known=False)
        return self._overridden(info)

    def prices_of_user(self, name: str) -> Prices | None:
        """The prices that the user sets for a model, which override all others."""
        prices: Prices | None = self._overrides.get(name, {}).get("prices")
        return prices

    def models(self, today: str | None = None) -> Iterator[ModelInfo]:
        """All models, sorted by name."""
        today = today or _today()
        listed = {info.name: info for info in map(_decode, _content().splitlines()[1:])}
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
def _content() -> bytes:
    return FILE.read_bytes()


@cache
def _header() -> Header:
    content = _content()
    return msgspec.json.decode(content[: content.index(b"\n")], type=Header)


def _find(name: str) -> ModelInfo | None:
    """The entry of that name, or of the name without the date of its snapshot."""
    content = _content()
    for candidate in (name, _without_day(name)):
        start = content.find(b'\n{"name":' + msgspec.json.encode(candidate) + b",") + 1
        if start:
            info = _decode(content[start : content.index(b"\n", start)])
            return msgspec.structs.replace(info, name=name)
    return None


def _without_day(name: str) -> str:
    """The name without a date at its end: `x` for `x-20261101` and `x-2026-11-01`."""
    parts = name.split("-")
    for count in (1, 3):
        day = "".join(parts[-count:])
        if len(parts) > count and len(day) == 8 and day.isdecimal() and day.startswith("20"):
            return "-".join(parts[:-count])
    return name


def _decode(line: bytes) -> ModelInfo:
    return msgspec.json.decode(line, type=ModelInfo)


def _priced(info: ModelInfo, today: str) -> ModelInfo:
    """The model with the prices of that day."""
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
        model = msgspec.convert(dict(fields), ModelFields)
    except msgspec.ValidationError:
        problem = validation_module.describe_mismatch(dict(fields), ModelFields, f'models."{name}"')
        raise ConfigurationError(problem) from None
    return {field: getattr(model, field) for field in fields}
