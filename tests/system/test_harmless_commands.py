"""A million commands from a hostile grammar: whatever is judged harmless runs and writes nothing.

Those that are judged harmless are executed as an unprivileged user, in bash and in dash, in an empty
directory among tripwires. Nothing but the judge stands between them and the tripwires.
"""

from __future__ import annotations

from random import Random

import pytest

from ostler.permissions.judge import Judge
from tests.support.seeds import SEED
from tests.support.shell_commands import CommandGrammar
from tests.support.tripwires import batches, need_shells, tripwires

SHARDS = 20
JUDGED = 50_000
EXECUTED = 2_600
"""In each shard: a million and 52,000 in all."""


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_harmless_command_trips_a_wire(shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    need_shells()
    grammar = CommandGrammar(f"{SEED} {shard}")
    with tripwires() as wires:
        monkeypatch.setenv("HOME", str(wires.home))
        judge = Judge("edit", (), wires.work)
        harmless: dict[str, None] = {}
        for _ in range(JUDGED):
            command = grammar.command()
            if judge.judge("bash", "execute", {"command": command}).is_harmless:
                harmless[command] = None
        chosen = Random(f"{SEED} {shard}").sample(list(harmless), EXECUTED)
        tripped = [one for some in batches(chosen) for one in wires.check(some)]
    assert tripped == []
