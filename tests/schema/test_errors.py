from __future__ import annotations

import inspect
import typing

import pytest

from ostler.schema import errors
from ostler.schema.errors import ERRORS, Failure, ModelError, OstlerError, RateLimited, failure_of, kind_of
from ostler.schema.outcomes import FailureKind

CLASSES = {
    item
    for item in vars(errors).values()
    if inspect.isclass(item) and issubclass(item, OstlerError) and item.__module__ == errors.__name__
}


def test_every_error_has_a_kind_of_its_own_and_every_kind_its_error() -> None:
    assert len(ERRORS) == len(CLASSES)
    assert set(ERRORS.values()) == CLASSES
    assert all(kind_of(error) == kind for kind, error in ERRORS.items())


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ostler_error", "OstlerError"),
        ("no_model", "NoModel"),
        ("rate_limited", "RateLimited"),
        ("tool_timed_out", "ToolTimedOut"),
    ],
)
def test_a_kind_is_the_name_in_snake_case(kind: str, name: str) -> None:
    assert ERRORS[kind].__name__ == name


def test_every_error_says_what_it_means() -> None:
    assert all(vars(error).get("__doc__") for error in CLASSES)


def test_every_failure_kind_of_a_call_is_an_error_of_a_tool() -> None:
    kinds = set(typing.get_args(FailureKind))
    assert kinds == {kind for kind, error in ERRORS.items() if issubclass(error, errors.ToolError)} - {
        "tool_error"
    }


def test_exit_codes_and_statuses_are_those_that_scripts_rely_on() -> None:
    assert {error.__name__: error.exit_code for error in CLASSES if error.exit_code != 1} == {
        "UsageError": 2,
        "ConfigurationError": 2,
        "NotFound": 2,
        "SessionBusy": 2,
        "ConsentRefused": 4,
        "NoModel": 3,
        "CallRefused": 4,
        "NotTrusted": 4,
    }
    assert all(400 <= error.http_status < 600 for error in CLASSES)


def test_a_model_error_as_data_keeps_the_vendors_details() -> None:
    details = {"status": 429, "code": "rate_limit_error", "request_id": "req_1", "retry_after": 2.5}
    error = RateLimited("slow down", **details, stream_opened=True)
    assert failure_of(error) == Failure("rate_limited", "slow down", **details, stream_opened=True)


def test_any_error_as_data_has_its_kind_and_message() -> None:
    for kind, error in ERRORS.items():
        if not issubclass(error, ModelError):
            assert failure_of(error("what to do")) == Failure(kind, "what to do")


def test_the_text_of_an_error_is_its_message() -> None:
    assert str(OstlerError("what to do")) == "what to do"


def test_an_exception_whose_str_raises_is_described_by_its_name() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemExit

    texts = [errors.describe_error(one) for one in (ValueError("no"), KeyboardInterrupt(), Mute())]
    assert texts == ["ValueError: no", "KeyboardInterrupt", "Mute"]
