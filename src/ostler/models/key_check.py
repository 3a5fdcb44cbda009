"""Whether a vendor takes a key: the smallest real request, on the wire that a run would use."""

from __future__ import annotations

import asyncio

from ostler.kernel.model import Model, ModelDone, ModelFailure, ModelRequest, Transcript
from ostler.vocabulary.errors import Failure
from ostler.vocabulary.ids import new_id
from ostler.vocabulary.messages import user

CHECK_SECONDS = 30.0
_FEWEST_TOKENS = 16
"""Less is refused by some vendors."""


async def refusal_of_key(model: Model) -> Failure | None:
    """Why the vendor does not answer with this key; `None` when it does."""
    request = ModelRequest(
        id=new_id("msg"),
        model=model.name,
        transcript=Transcript([user("Say OK.")]),
        max_output_tokens=_FEWEST_TOKENS,
    )
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            async for batch in model.stream(request):
                for event in batch:
                    if isinstance(event, ModelFailure):
                        return event.failure
                    if isinstance(event, ModelDone):
                        return None
    except TimeoutError:
        pass
    finally:
        await model.aclose()
    return Failure("stream_silent", f"no answer from {model.name} within {CHECK_SECONDS:g} s; try again")
