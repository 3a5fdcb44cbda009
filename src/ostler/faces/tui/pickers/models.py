"""Models as rows: those that can answer now first, with what they hold and cost."""

from __future__ import annotations

from pathlib import Path

from ostler.faces.cli.models import UNKNOWN, window_and_prices
from ostler.faces.tui.pickers.picker import Choice
from ostler.runs.first_run import Surroundings
from ostler.runs.model_candidates import Candidate, known_models
from ostler.runs.settings import load_settings


def candidates(cwd: Path) -> list[Candidate]:
    """All that are known here, those first that can answer now. It looks around: not on the event loop."""
    return known_models(Surroundings(load_settings(cwd, {}).settings), set_key="/key set")


def model_choice(one: Candidate, present: str) -> Choice:
    if one.info is None or not one.info.known:
        cells, known = ("", ""), "its window and its price are not known"
    else:
        window, given, answered = window_and_prices(one.info)
        has_price = UNKNOWN not in (given, answered)
        cells = (window, f"${given} → ${answered}" if has_price else "")
        price = f"a million cost ${given} in and ${answered} out" if has_price else "its price is not known"
        known = f"it holds {window} tokens; {price}"
    about = one.to_do or f"answers from the next step on; {known}"
    return Choice(
        one.name,
        one,
        (*cells, "" if not one.to_do else "no key"),
        " ".join(one.aliases),
        about,
        one.name == present,
    )
