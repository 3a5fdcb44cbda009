from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.context.calibration import LEAST, MOST, NEWEST_SAMPLES, Calibration, input_of
from ostler.core.context import Count
from ostler.schema.events import ModelCalled, UsageReported
from ostler.schema.usage import UNKNOWN_USAGE, Usage

MODEL = "anthropic/claude-sonnet-5-5"
ESTIMATE = Count(1000, "estimated", "low")


def see(
    calibration: Calibration,
    samples: Iterable[tuple[int, int]],
    *,
    model: str = MODEL,
    count: Count = ESTIMATE,
) -> None:
    for number, (counted, reported) in enumerate(samples):
        tokens = msgspec.to_builtins(msgspec.structs.replace(count, tokens=counted))
        usage = Usage(input_tokens=reported)
        calibration.apply(ModelCalled(f"msg_{number}", model, "", trace={"estimate": tokens}))
        calibration.apply(UsageReported(f"msg_{number}", model, usage, usage))


def test_two_samples_do_not_calibrate() -> None:
    calibration = Calibration()
    see(calibration, [(100, 150)] * 2)
    coefficient = calibration.of(MODEL, "estimated")
    assert (coefficient.applies, coefficient.samples, coefficient.value) == (False, 2, 1.0)
    assert calibration.of(MODEL, ESTIMATE.source).applied(ESTIMATE) == ESTIMATE


def test_three_samples_make_a_coefficient_from_their_sums() -> None:
    calibration = Calibration()
    see(calibration, [(100, 100), (200, 300), (700, 1000)])
    assert calibration.of(MODEL, ESTIMATE.source).applied(ESTIMATE) == Count(1400, "calibrated", "low")


def test_what_was_cached_counts_as_input() -> None:
    assert input_of(Usage(input_tokens=10, cache_read_tokens=70, cache_write_tokens=20)) == 100
    assert input_of(UNKNOWN_USAGE) == 0


def test_confidence_grows_with_samples_that_agree() -> None:
    calibration = Calibration()
    see(calibration, [(1000, 1200)] * 3)
    assert calibration.of(MODEL, "estimated").confidence == "medium"
    see(calibration, [(1000, 1210)] * 5)
    assert calibration.of(MODEL, "estimated").confidence == "high"
    see(calibration, [(1000, 1800)])
    assert calibration.of(MODEL, "estimated").confidence == "low"


def test_samples_of_other_models_and_sources_are_ignored() -> None:
    calibration = Calibration()
    see(calibration, [(100, 150)] * 3, model="openai/gpt-5")
    see(calibration, [(100, 150)] * 3, count=Count(0, "tokenizer", "high"))
    assert not calibration.of(MODEL, "estimated").applies
    assert calibration.of("openai/gpt-5", "estimated").value == 1.5


def test_calls_without_a_count_or_a_report_are_no_samples() -> None:
    calibration = Calibration()
    usage = Usage(input_tokens=100)
    traces = [
        None,
        {},
        {"estimate": 5},
        {"estimate": {"tokens": 0, "source": "estimated", "confidence": "low"}},
    ]
    for number, trace in enumerate(traces):
        calibration.apply(ModelCalled(f"a{number}", MODEL, "", trace=trace))
        calibration.apply(UsageReported(f"a{number}", MODEL, usage, usage))
    calibration.apply(UsageReported("nobody", MODEL, usage, usage))
    counted = {"estimate": msgspec.to_builtins(ESTIMATE)}
    calibration.apply(ModelCalled("b", MODEL, "", trace=counted))
    calibration.apply(UsageReported("b", MODEL, UNKNOWN_USAGE, UNKNOWN_USAGE))
    assert calibration.of(MODEL, "estimated").samples == 0


@pytest.mark.parametrize(("reported", "expected"), [(1, LEAST), (100_000, MOST)])
def test_a_report_beyond_belief_is_bounded(reported: int, expected: float) -> None:
    calibration = Calibration()
    see(calibration, [(1000, reported)] * 3)
    assert calibration.of(MODEL, "estimated").value == expected


def test_only_the_newest_samples_count() -> None:
    calibration = Calibration()
    see(calibration, [(1000, 3000)] * 30 + [(1000, 1100)] * NEWEST_SAMPLES)
    coefficient = calibration.of(MODEL, "estimated")
    assert (coefficient.value, coefficient.samples) == (1.1, NEWEST_SAMPLES)


def test_what_the_vendor_reported_is_not_corrected() -> None:
    calibration = Calibration()
    see(calibration, [(1000, 1500)] * 3)
    reported = Count(10, "reported", "high")
    assert calibration.of(MODEL, "estimated").applied(reported) == reported


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**6)), max_size=40), st.integers(0, 10**7))
def test_any_samples_give_a_coefficient_within_bounds(samples: list[tuple[int, int]], tokens: int) -> None:
    calibration, again = Calibration(), Calibration()
    see(calibration, samples)
    see(again, samples)
    coefficient = calibration.of(MODEL, "estimated")
    assert coefficient == again.of(MODEL, "estimated")
    assert LEAST <= coefficient.value <= MOST
    assert (
        calibration.of(MODEL, "estimated").applied(Count(tokens, "estimated", "low")).tokens >= tokens * LEAST
    )
