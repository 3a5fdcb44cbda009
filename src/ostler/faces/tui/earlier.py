"""What is shown of a conversation when it is opened: its end. No more of the log is read than that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ostler.faces.tui.blocks import Item
from ostler.faces.tui.drawing.spacing import apart
from ostler.faces.tui.drawing.wide_rows import height
from ostler.faces.tui.transcript import Transcript
from ostler.kernel.journal import Journal
from ostler.vocabulary.facts import Fact

FACTS = 300
"""That are read at first; four times as many whenever that was too little."""

_UNSEEN = frozenset(
    {"model_called", "usage", "step_started", "step_ended", "run_started", "audited", "request_refused"}
)
"""Types that sessions are full of, and nobody sees: they are not decoded. That something was refused is news
for whoever asked, and for nobody later."""


async def earlier_facts(journal: Journal, blocks: int) -> tuple[list[Fact], bool]:
    """Facts on the path to the present leaf that make at least so many blocks, and whether more lie before
    them."""
    last, window = journal.state.last_seq, FACTS
    while True:
        after = max(0, last - window)
        facts = [fact for fact in await journal.history(after) if fact.seq <= last]
        on_path = seen(facts, journal.state.leaf)
        if after == 0 or len(Transcript().take(on_path)) >= blocks:
            return on_path, after > 0
        window *= 4


def seen(facts: Sequence[Fact], leaf: int) -> list[Fact]:
    """The entries on the path to the leaf, and the records of their runs."""
    entries = {fact.seq: fact for fact in facts if fact.parent is not None}
    path: set[int] = set()
    while (entry := entries.get(leaf)) is not None and entry.parent is not None:
        path.add(leaf)
        leaf = entry.parent
    runs = {entries[seq].run for seq in path} | {""}
    return [
        fact
        for fact in facts
        if fact.type not in _UNSEEN and (fact.seq in path if fact.parent is not None else fact.run in runs)
    ]


def last_rows(blocks: Iterable[Item], draw: Callable[[Item], list[str]], most: int, width: int) -> list[str]:
    """The rows of as many blocks from the end as fill so many rows of a terminal."""
    drawn: list[list[str]] = []
    count = 0
    for block in reversed(list(blocks)):
        if count >= most:
            break
        drawn.append(draw(block))
        count += sum(height(row, width) for row in drawn[-1])
    return apart(reversed(drawn), after_blank=False)
