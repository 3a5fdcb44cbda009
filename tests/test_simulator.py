"""The simulator: sessions through injected crashes, lost leases and full disks."""

from __future__ import annotations

import pytest

from ostler.testkit.simulator import FAULTS, simulate

SEEDS_A_TEST = 290
TESTS = 10
FAULTS_A_TEST = 1_000
"""Together 10,000 injected faults."""


@pytest.mark.parametrize("block", range(TESTS))
def test_whatever_goes_wrong_the_invariants_hold(block: int) -> None:
    injected = 0
    for seed in range(block * SEEDS_A_TEST, (block + 1) * SEEDS_A_TEST):
        report = simulate(seed, most_faults=8)
        assert report.problems == (), f"seed {seed}, faults {report.faults}"
        injected += len(report.faults)
    assert injected >= FAULTS_A_TEST


def test_the_same_seed_gives_the_same_run() -> None:
    assert [fact.body for fact in simulate(7).facts] == [fact.body for fact in simulate(7).facts]


def test_every_kind_of_fault_is_injected() -> None:
    assert {fault for seed in range(60) for fault in simulate(seed).faults} == set(FAULTS)
