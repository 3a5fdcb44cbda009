"""A question and its answer as they are said afterwards."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.tools.permissions import preview
from ostler.vocabulary.outcomes import Question

UNSEEN = "•••"


def question_in_words(question: Question) -> str:
    """In a line: of a permission what it was for, and not all that could be answered."""
    details = question.details or {}
    if question.kind != "permission" or "tool" not in details:
        return question.text
    return f"Allow {details['tool']}: {preview(str(details['tool']), details.get('arguments') or {})}"


def answer_in_words(question: Question, answer: Any) -> str:
    """Without what was typed unseen."""
    if question.secret:
        return "answered"
    if isinstance(answer, str):
        return answer
    fields = (question.form or {}).get("properties")
    if isinstance(answer, dict) and isinstance(fields, dict):
        answer = {name: UNSEEN if is_unseen(fields.get(name)) else one for name, one in answer.items()}
    return msgspec.json.encode(answer).decode()


def is_unseen(field: Any) -> bool:
    """Whether a schema wants its value not to be shown."""
    return isinstance(field, dict) and (field.get("format") == "password" or bool(field.get("writeOnly")))
