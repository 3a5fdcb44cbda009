"""The page for those who come from linnkit: where its names and cases are found here, and what shows it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping

from docs_claims import ROOT, Entry, case_table, in_words, names_here, remark_of, shown_by
from docs_tables import row

MAPPING = ROOT / "docs" / "linnkit_mapping.toml"

INTRODUCTION = """\
# Coming from linnkit

linnkit declares the contracts of an agent runtime and leaves much of them to its host. Here the runtime keeps
them itself: there is no port that has to be filled in before something runs.

| start with | for |
|---|---|
| [sdk.md](sdk.md) | an agent in a few lines; hooks take the place of policies and enrichers |
| [tools.md](tools.md) | tools: what they declare, know and return |
| [runs.md](runs.md) | the life of a run: supervisor, questions, limits, children, crashes |
| [agents.md](agents.md) | named agents that work is handed to |
| [events.md](events.md#linnkit-runtimeevent) | where each of its events is found |
| [invariants.md](invariants.md#coming-from-linnkit) | where each of its invariants is found |
| [testkit.md](testkit.md) | the scripted model, fake contexts, suites for stores |

A conversation is a *session*, a turn is a *run*, and a step is one answer of the model with its calls. State
is not saved beside the events: it follows from them, so there is no checkpointer.

Below is a row for each of its names, for each group of its features, and for 71 cases in which both were
compared. A row names the tests that show what happens here, or says that there is nothing, and why.
"""


def linnkit_page(notice: str) -> str:
    mapping = tomllib.loads(MAPPING.read_text(encoding="utf-8"))
    parts = [notice, INTRODUCTION.strip(), "## Names"]
    for title, rows in mapping["names"].items():
        parts += [f"### {title}", "\n".join(name_table(rows))]
    parts += ["## Features", "\n".join(feature_table(mapping["features"]))]
    parts += ["## Cases", "\n".join(case_table(MAPPING.name, "case", mapping["cases"]))]
    return "\n\n".join(parts) + "\n"


def name_table(rows: Mapping[str, Entry]) -> Iterator[str]:
    yield "| linnkit | here | shown by | |"
    yield "|---|---|---|---|"
    for name, entry in rows.items():
        where = f"{MAPPING.name}: {name}"
        yield row(f"`{name}`", names_here(where, entry), shown_by(where, entry), remark_of(entry))


def feature_table(entries: list[Entry]) -> Iterator[str]:
    yield "| linnkit has | here | shown by |"
    yield "|---|---|---|"
    for entry in entries:
        where = f"{MAPPING.name}: {entry['theirs']}"
        yield row(entry["theirs"], in_words(entry), shown_by(where, entry))
