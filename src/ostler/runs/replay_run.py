"""The replay of one run: what the log says comes from outside, and the comparison with what comes of it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ostler.kernel.cancel import CancelToken
from ostler.kernel.hooks import FinishedCall
from ostler.kernel.journal import Journal
from ostler.kernel.model import ModelRequest
from ostler.kernel.state import SessionState
from ostler.models.recorded import RecordedAnswer
from ostler.runs.replay_difference import Difference, What, masked
from ostler.runs.replay_recording import RecordedRun
from ostler.vocabulary import events
from ostler.vocabulary.errors import CallRefused
from ostler.vocabulary.events import RunEnded, RunWaiting
from ostler.vocabulary.outcomes import Failed, Ok, Settled, failed
from ostler.vocabulary.requests import Steer

Judged = Literal["results", "hooks"]
"""What a replay compares beside requests: results that are not the log's, and what hooks did to requests."""

FROM_OUTSIDE = ("tool_cancelled", "tool_interrupted")
"""How calls fail that somebody stopped, or whose process died: no tool would do so again by itself."""


class RunReplay:
    """Follows the loop through one recorded run. `difference` is the first one, if there is any.

    Once nothing recorded is left of a run that was cut, the run is cancelled where the log says so. What its
    end did to calls that had not begun is the log's word, and not compared.
    """

    def __init__(
        self,
        run: RecordedRun,
        then: SessionState,
        journal: Journal,
        cancel: CancelToken,
        folders: tuple[str, str],
        judged: set[Judged],
    ) -> None:
        self.run = run
        self.difference: Difference | None = None
        self.requests = self.exact = self.results = 0
        self.is_over = False
        self._then = then
        """What the recorded facts add up to, up to the request that is being compared."""
        self._heard = 0
        self._is_steady = True
        """Nobody changed settings in the run: what the log does not hold is the same in all its requests."""
        self._journal = journal
        self._folders = folders
        self._judged = judged
        self._cancel = cancel
        self._from_log: set[str] = set()
        self._asked_about: dict[str, int] = {}
        self._left = len(run.answers) + sum(not run.was_cut(call) for call in run.results)
        self._steers = dict(run.steers)

    # --- the model's side ---------------------------------------------------------------------------

    @property
    def model_name(self) -> str:
        """Of the model that the log has answer next."""
        following = self._following
        return following.called.model if following else self.run.event.model

    def ask(self, request: ModelRequest) -> RecordedAnswer | None:
        """The recorded answer to a request that is as it was; None ends the replay of this run."""
        answer = self._following
        if answer is None:
            ended = self.run.ended
            # A limit is the process's own, and the one that reached it may not have begun the run.
            if self.run.ends_itself and ended and ended.status != "limit":
                replayed = _request(self._journal.state, request)
                self._differ_at_end("one more request than was recorded", replayed)
            self._stop()
            return None
        self._compare_request(request, answer)
        if self.difference is None:
            self.requests += 1
            if answer.end is not None:
                return answer
        self._stop()
        return None

    def count(self) -> None:
        """One more thing of the log has happened again."""
        self._left -= 1
        if not self._left and not self.run.ends_itself:
            self._stop()

    def retries(self) -> bool:
        """Whether the failure that was just given was tried again."""
        end = self.run.answers[self.requests - 1].end
        return isinstance(end, events.ModelFailed) and end.retry_in is not None

    @property
    def _following(self) -> RecordedAnswer | None:
        return self.run.answers[self.requests] if self.requests < len(self.run.answers) else None

    def _compare_request(self, request: ModelRequest, answer: RecordedAnswer) -> None:
        called = answer.called
        while self._heard < len(self.run.facts) and self.run.facts[self._heard].seq <= answer.fact:
            fact = self.run.facts[self._heard]
            self._then.apply(fact)
            self._is_steady = self._is_steady and fact.type != "settings_changed"
            self._heard += 1
        if request.digest() == called.digest:
            self.exact += 1
            return
        now, then = self._journal.state, self._then
        recorded, replayed = _request(then), _request(now, request)
        if "hooks" in self._judged and called.messages != len(request.transcript):
            recorded["messages told"], replayed["messages told"] = called.messages, len(request.transcript)
        is_same = then.transcript.digest() == now.transcript.digest()
        if not is_same or any(recorded[name] != replayed[name] for name in recorded if name != "messages"):
            self._differ("request", "the request", answer.fact, recorded, replayed)
        elif self.requests and self.exact == self.requests and self._is_steady:
            text = "the request, in what the log does not hold (system prompt, descriptions), or the log"
            digests = {"digest": called.digest}, {"digest": request.digest()}
            self._differ("request", text, answer.fact, *digests)

    # --- the tools' side ----------------------------------------------------------------------------

    def may_run(self, call: str) -> bool:
        """Whether the call itself is to be replayed; otherwise its result is the log's."""
        found = self.run.results.get(call)
        return found is not None and found.result.failed not in FROM_OUTSIDE

    def from_log(self, call: str) -> Settled:
        """Stands for the recorded result, which `settle` puts in its place."""
        found = self.run.results.get(call)
        if found is None:
            return failed("the recording ends before this result")
        self._from_log.add(call)
        result = found.result
        if result.failed is None:
            return Ok(summary=result.summary, ends_run=result.ends_run)
        return Failed(result.failed, summary=result.summary, ends_run=result.ends_run)

    def settle(self, finished: FinishedCall) -> FinishedCall:
        """The result as it is, if it is as it was; the log's own where the tool did not run."""
        found = self.run.results.get(finished.call)
        if found is None:
            return finished
        result = found.result
        of_log = msgspec.structs.replace(
            finished, content=result.content, failed=result.failed, details=result.details
        )
        if self.is_over or self.run.was_cut(finished.call):
            return of_log
        if finished.call in self._from_log or "results" not in self._judged:
            finished = of_log
        elif (finished.content, finished.failed) != (result.content, result.failed):
            recorded, replayed = _result(result), _result(finished)
            text = f"the result of {finished.name}"
            self._differ("result", text, found.fact, recorded, replayed, finished.call, finished.name)
        if self.difference is None:
            self.results += 1
            self.count()
        return finished

    # --- people's side ------------------------------------------------------------------------------

    def take(self) -> list[Steer]:
        """What was said before the step that comes next."""
        run = self._journal.state.run
        said = self._steers.pop(run.steps + 1, []) if run else []
        return [Steer(id=message.request, content=message.content) for message in said]

    async def read(self) -> None:
        pass

    async def answer(self, asked: events.QuestionAsked) -> Any:
        """The recorded answer to the next question about this call."""
        recorded = self.run.questions.get(asked.call, [])
        number = self._asked_about.get(asked.call, 0)
        self._asked_about[asked.call] = number + 1
        answered = recorded[number].answered if number < len(recorded) else None
        if answered is None:
            raise CallRefused("the log has no answer to this question")
        if answered.outcome != "answered":
            raise CallRefused(answered.answer if isinstance(answered.answer, str) else "")
        return answered.answer

    # --- the end ------------------------------------------------------------------------------------

    def finish(self, quiet: RunEnded | RunWaiting) -> None:
        """Compares the end, if the loop came to one by itself."""
        if self.is_over:
            return
        status = quiet.status if isinstance(quiet, RunEnded) else "waiting"
        end = {"end": {"status": status, "reason": quiet.reason}}
        if (missing := self._following) is not None:
            text = f"the run is {status} before this request"
            self._differ("request", text, missing.fact, {"model_called": missing.called.model}, end)
        elif self.run.ended and self.run.ended.status != status:
            self._differ_at_end("the end of the run", end)

    def _stop(self) -> None:
        self.is_over = True
        ended = self.run.ended
        if ended and ended.status == "cancelled":
            self._cancel.cancel(ended.reason, ended.request)
        else:
            self._cancel.cancel("the recording ends here")

    def _differ_at_end(self, text: str, replayed: dict[str, Any]) -> None:
        ended = self.run.ended
        assert ended is not None
        recorded = {"end": {"status": ended.status, "reason": ended.reason}}
        self._differ("end", text, self.run.facts[-1].seq, recorded, replayed)

    def _differ(
        self,
        what: What,
        text: str,
        fact: int,
        recorded: dict[str, Any],
        replayed: dict[str, Any],
        call: str = "",
        tool: str = "",
    ) -> None:
        """Ends the replay, unless nothing is left of the difference once both are masked."""
        then, now = masked(recorded, *self._folders), masked(replayed, *self._folders)
        if then == now or self.difference is not None:
            return
        run = self._journal.state.run
        step = run.steps if run else 0
        self.difference = Difference(what, text, fact, self.run.number, step, call, tool, then, now)
        self._stop()


def _request(state: SessionState, request: ModelRequest | None = None) -> dict[str, Any]:
    """What a log holds of a request: the one that was recorded, or the one that was built now."""
    step = state.run.step if state.run else None
    offered = [offer.name for offer in request.tools] if request else list(step.tools if step else ())
    return {"messages": list(state.transcript), "tools": offered}


def _result(result: events.ToolResultFact | FinishedCall) -> dict[str, Any]:
    return {"content": result.content, "failed": result.failed}
