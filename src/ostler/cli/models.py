"""`ostler models`: lists the bundled catalogue of models."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence

import msgspec

from ostler.app.console import aligned, print_json, print_lines, print_stderr
from ostler.app.default_model import aliases_by_model
from ostler.app.options import Parser, add_json
from ostler.app.reports import UNKNOWN, price_range, size_text
from ostler.app.settings import load_settings, working_directory
from ostler.models.catalogue import Catalogue, ModelInfo
from ostler.schema.errors import UsageError
from ostler.schema.text import cells, cut, plural, printable

HEADINGS = ("MODEL", "CONTEXT", "OUTPUT", "INPUT", "REASONING", "$ IN", "$ OUT", "ALIASES")
_SPARED = ("INPUT", "OUTPUT", "REASONING", "CONTEXT")
"""Columns to drop in a narrow terminal, in this order."""


def models_command(arguments: list[str]) -> int:
    options = _models_parser().parse_args(arguments)
    settings = load_settings(working_directory(), {}).settings
    catalogue = Catalogue(settings.models, settings.aliases)
    aliases = aliases_by_model(catalogue)
    models = list(catalogue.models())
    if options.provider:
        models = _of_provider(models, options.provider)
    words = [word.lower() for word in options.words]
    matches = [one for one in models if _has_all(words, (one.name, *aliases.get(one.name, ())))]
    if options.json:
        for one in matches:
            about = {"name": one.name, "aliases": aliases.get(one.name, [])}
            print_json(about | msgspec.structs.asdict(one))
    else:
        print_lines(rows(matches, aliases))
    count = plural(len(matches), "model")
    hint = "" if matches else "; unlisted models work, too, as PROVIDER/ID"
    print_stderr(f"{count}, prices in dollars per million tokens, as of {catalogue.date}{hint}")
    return 0


def _models_parser() -> Parser:
    parser = Parser(
        prog="ostler models",
        description="Lists models with their context window, modalities and prices. "
        "The list is bundled; nothing is fetched.",
    )
    parser.add_argument("words", metavar="WORD", nargs="*", help="only models whose name contains every WORD")
    parser.add_argument("--provider", metavar="NAME", help="only models of this provider")
    add_json(parser)
    return parser


def rows(models: Sequence[ModelInfo], aliases: dict[str, list[str]]) -> Iterator[str]:
    """Lines of a table: for a terminal with headings and the columns that fit, for a pipe whole."""
    if not models:
        return
    table = [_row(one, aliases.get(one.name, [])) for one in models]
    if not sys.stdout.isatty():
        yield from aligned(table)
        return
    width = shutil.get_terminal_size().columns
    for line in _fitting([HEADINGS, *table], width):
        yield cut(line, width)


def _fitting(table: Sequence[Sequence[str]], width: int) -> list[str]:
    lines = list(aligned(table))
    for heading in _SPARED:
        if max(map(cells, lines)) <= width:
            break
        at = table[0].index(heading)
        table = [(*row[:at], *row[at + 1 :]) for row in table]
        lines = list(aligned(table))
    return lines


def _row(model: ModelInfo, aliases: Sequence[str]) -> tuple[str, ...]:
    return (
        printable(model.name),
        size_text(model.context_window),
        size_text(model.output_limit),
        ",".join(model.input) or UNKNOWN,
        _reasoning(model),
        price_range(model.prices, "input"),
        price_range(model.prices, "output"),
        printable(" ".join((*aliases, *(["(deprecated)"] if model.deprecated else [])))),
    )


def _reasoning(model: ModelInfo) -> str:
    if model.reasoning_levels:
        return f"{model.reasoning_levels[0]}…{model.reasoning_levels[-1]}"
    return UNKNOWN if model.reasoning is None else "yes" if model.reasoning else "no"


def _of_provider(models: Sequence[ModelInfo], provider: str) -> list[ModelInfo]:
    matches = [one for one in models if one.name.startswith(f"{provider}/")]
    if not matches:
        providers = ", ".join(sorted({one.name.partition("/")[0] for one in models}))
        raise UsageError(f"the catalogue has no models of {provider!r}; it has those of {providers}")
    return matches


def _has_all(words: Sequence[str], names: Sequence[str]) -> bool:
    text = " ".join(names).lower()
    return all(word in text for word in words)
