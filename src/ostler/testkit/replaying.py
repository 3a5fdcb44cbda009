"""A recorded session as a test: the same prompts and answers again, with the agent as it is now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ostler.kernel.harness import Harness
from ostler.models.recorded import RecordedModel
from ostler.runs.replay import Replayed, Stage, replay
from ostler.runs.replay_recording import Recording, recording_in
from ostler.vocabulary.facts import Fact

if TYPE_CHECKING:
    from ostler.faces.sdk import Agent


def assert_replays(
    recording: Path | str | Sequence[Fact], agent: Agent | None = None, *, live: bool = True
) -> Replayed:
    """Fails with the first difference, if there is one. For tests without an event loop; see `replayed`.

    ```python
    def test_the_agent_still_does_what_it_did():
        assert_replays("tests/recorded/refund.jsonl", make_agent())
    ```
    """
    found = asyncio.run(replayed(recording, agent, live=live))
    if found.difference is not None:
        place = f"fact {found.difference.fact}, run {found.difference.run}, step {found.difference.step}"
        raise AssertionError(f"{found.difference.text} ({place})\n{found.difference.diff()}")
    return found


async def replayed(
    recording: Path | str | Sequence[Fact], agent: Agent | None = None, *, live: bool = True
) -> Replayed:
    """Replays an exported file, or facts, without a network.

    The agent's tools, hooks, permissions and system prompt are used, never its model. With `live=False` its
    tools do not run: what they return is the log's word. Without an agent only the loop is tested.
    """
    if isinstance(recording, Path | str):
        recorded = await recording_in(_lines(Path(recording)))
    else:
        recorded = Recording(tuple(recording))
    if agent is None:
        return await replay(recorded, Stage(Harness(RecordedModel(recorded.facts))))
    own = msgspec.structs.replace(agent._harness, memory={})
    return await replay(recorded, Stage(own, live=live, own=True))


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines()
