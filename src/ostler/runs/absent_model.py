"""What a session is opened with where no model is needed, or none can be had."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from ostler.kernel.harness import Harness
from ostler.kernel.model import ModelEvent, ModelFailure, ModelRequest
from ostler.vocabulary.errors import Failure

NOBODY_ANSWERS = "the session was opened without a model"


class AbsentModel:
    """Stands where nothing is going to be asked, or says why nobody answers."""

    name = "absent"

    def __init__(self, why: str = NOBODY_ANSWERS) -> None:
        self.why = why

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        yield [ModelFailure(Failure("no_model", self.why))]

    async def aclose(self) -> None:
        pass


def harness_without_model(cwd: str) -> Harness:
    return Harness(AbsentModel(), cwd=Path(cwd))
