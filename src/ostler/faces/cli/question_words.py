"""A question as a person reads it who is to answer on the command line."""

from __future__ import annotations

import msgspec

from ostler.runs.run_list import AskedOf
from ostler.vocabulary.outcomes import Question


def in_words(question: Question | AskedOf) -> str:
    """What is asked, why, and what an answer may be. The text of a permission says its own answers."""
    words = [question.text]
    if question.kind == "permission":
        return question.text
    if question.reason:
        words.append(f"({question.reason})")
    if question.choices:
        words.append(f"[{' / '.join(question.choices)}]")
    if question.form is not None:
        words.append(f"[JSON: {msgspec.json.encode(question.form).decode()}]")
    if question.secret:
        words.append("[a secret]")
    return " ".join(words)
