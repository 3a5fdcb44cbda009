"""`--schema`: the JSON Schema that an answer shall fit, and whether it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ostler.runs.session import Session
from ostler.vocabulary.errors import UsageError


def read_schema(file: Path) -> dict[str, Any]:
    from ostler.kernel.json_schema import schema_problem

    try:
        schema = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise UsageError(f"the schema {file} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{file} is not a JSON Schema: {error}") from None
    if problem := schema_problem(schema):
        raise UsageError(f"{file} is not a JSON Schema: {problem}")
    return schema


def unfit(session: Session) -> str:
    """Why the answer is not what `--schema` asked for; empty when it is, or when nothing was asked for."""
    schema = session.harness.answer_schema
    if schema is None:
        return ""
    from ostler.kernel.json_schema import mismatch

    try:
        answer = msgspec.json.decode(session.state.transcript[-1].text)
    except msgspec.DecodeError as error:
        return f"the answer is not JSON ({error})"
    problem = mismatch(answer, schema)
    return f"the answer does not fit the schema: {problem}" if problem else ""
