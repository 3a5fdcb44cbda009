"""What a session is doing right now, in a few words."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from ostler.faces.tui.blocks import CallBlock
from ostler.faces.tui.transcript import Transcript
from ostler.kernel.run_state import RunState
from ostler.tools.permissions import preview
from ostler.vocabulary import events

_BESIDE = {"compaction": "compacting", "summary": "compacting", "title": "finding a title"}
_WAITS = {"question": "waiting for you", "pending": "waiting for a result", "paused": "paused"}


class Activity:
    """Follows the events of a session. Nothing is said while no run is under way."""

    def __init__(self, transcript: Transcript, now: Callable[[], float] = time.monotonic) -> None:
        self._transcript = transcript
        self._now = now
        self._words = ""
        self._before = ""
        """What was said before a call beside the steps."""
        self._retry_at: float | None = None
        self._asked: set[str] = set()
        self._stage_since = self._run_since = now()

    @property
    def needs_person(self) -> bool:
        return bool(self._asked)

    @property
    def seconds(self) -> float:
        """Of the present stage."""
        return self._now() - self._stage_since

    @property
    def run_seconds(self) -> float:
        return self._now() - self._run_since

    @property
    def words(self) -> str:
        if self._asked:
            return _WAITS["question"]
        if self._retry_at is not None:
            left = math.ceil(self._retry_at - self._now())
            return f"retrying in {left} s" if left > 0 else "retrying"
        return self._words and (self._at_work() or self._words)

    def _at_work(self) -> str:
        """What the calls do that are written or run at the moment."""
        calls = self._transcript.calls
        running = [call for call in calls if call.block.stage == "running"]
        if len(running) > 1:
            return f"running {len(running)} calls"
        for call in running:
            return f"running {call.block.name} {_about(call.block)}"
        for call in calls:
            if call.block.stage == "writing":
                return f"writing {call.arguments.path or f'a call of {call.block.name}'}"
        return ""

    def join(self, run: RunState, seconds: float, asked: Iterable[str]) -> None:
        """A run is under way since then, whose beginning was not seen here."""
        self._run_since = self._now() - seconds
        self._asked = set(asked)
        self._begin(_WAITS[run.waiting.reason] if run.waiting else "working")
        self._stage_since = self._run_since

    def take(self, event: object) -> None:
        match event:
            case events.TextDelta():
                self._go_on("answering")
            case events.ReasoningDelta():
                self._go_on("thinking")
            case events.RunStarted():
                self._run_since = self._now()
                self._begin("starting")
            case events.ModelCalled(model=model, purpose=purpose):
                if purpose == "step":
                    self._begin(f"asking {model}")
                elif purpose in _BESIDE:
                    self._before = self._words
                    self._begin(_BESIDE[purpose])
            case events.UsageReported(purpose=purpose) if purpose in _BESIDE:
                self._begin(self._before)  # which is nothing, if it was done in between two runs
            case events.ToolInputStarted() | events.ToolStarted():
                self._begin("working")
            case events.ModelFailed(retry_in=float(seconds)):
                self._begin("retrying")
                self._retry_at = self._now() + seconds
            case events.QuestionAsked(id=question):
                self._asked.add(question)
                self._stage_since = self._now()
            case events.QuestionAnswered(id=question):
                self._asked.discard(question)
                self._stage_since = self._now()
            case events.RunWaiting(reason=reason):
                self._begin(_WAITS[reason])
            case events.RunResumed():
                self._begin("going on")
            case events.RunEnded():
                self._asked.clear()
                self._begin("")

    def _go_on(self, words: str) -> None:
        if words != self._words:
            self._begin(words)

    def _begin(self, words: str) -> None:
        self._words, self._stage_since, self._retry_at = words, self._now(), None


def _about(block: CallBlock) -> str:
    title = block.display.title_for(block.arguments) if block.display else ""
    return title or preview(block.name, block.arguments)
