"""The transcript that a model is told, grown from the entries on a session's path."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from ostler.kernel.model import Transcript
from ostler.vocabulary import events
from ostler.vocabulary.facts import UnknownEvent
from ostler.vocabulary.governance import fate
from ostler.vocabulary.messages import Message, Text, ToolResult

NEVER_RUN = "This call was not run: the conversation was taken up again from before its result."

SUMMARY = "This conversation began earlier. What came before the messages below, in a summary:"

OTHER_BRANCH = "This was done from here before, and then left. What came of it, in a summary:"


class Telling:
    """Takes entries in one by one. Results are told together, once all calls of their message have one."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.sources: list[int] = []
        """The number of the entry that each message comes from; of results, the last one's."""
        self.prompts: set[int] = set()
        """The numbers of the entries that began a run."""
        self.steers: set[int] = set()
        """Those of what people said while one was under way."""
        self.undone: frozenset[int] = frozenset()
        """Compactions that were undone: nothing is left out for them."""
        self.instructions: dict[str, str] = {}
        """The instruction files that results told of, each with its digest."""
        self.files: tuple[str, ...] = ()
        """Those that the work before the last compaction has touched."""
        self._seq = 0
        self._results: dict[str, ToolResult | None] = {}
        """The calls of the last assistant message, in its order, with their results so far."""
        self._names: dict[str, str] = {}

    def tell(self, event: events.Event | UnknownEvent, seq: int) -> None:
        kind = type(event)
        teller = _TELLERS.get(kind)
        if teller is not None and (kind not in _JUDGED or fate(event).told):
            self._seq = seq
            teller(self, event)

    def _add(self, message: Message) -> None:
        self.transcript.append(message)
        self.sources.append(self._seq)

    def _user(self, event: events.UserMessage) -> None:
        self.close_results()
        if event.source == "prompt":
            self.prompts.add(self._seq)
        elif event.source == "steer":
            self.steers.add(self._seq)
        self._add(Message("user", event.content))

    def _answer(self, event: events.AssistantMessage) -> None:
        if self._results:
            self.close_results()
        message = Message("assistant", event.content)
        self._add(message)
        self._names = {call.id: call.name for call in message.calls}
        self._results = dict.fromkeys(self._names)

    def _result(self, event: events.ToolResultFact) -> None:
        if event.call in self._results:
            if event.details:
                self._note_instructions(event.details.get("instructions"))
            result = ToolResult(event.call, event.name, event.content, event.failed is not None)
            if len(self._results) == 1:  # nearly always, in sessions of thousands of them
                self._results = {}
                self._add(Message("tool", (result,)))
                return
            self._results[event.call] = result
            if None not in self._results.values():
                self.close_results()

    def _note_instructions(self, named: Any) -> None:
        if isinstance(named, dict):
            told = {path: digest for path, digest in named.items() if isinstance(digest, str)}
            self.instructions = {**self.instructions, **told}

    def _new_history(self, event: events.HistoryReplaced) -> None:
        self._results = {}
        self.instructions = {}
        self.transcript = Transcript(event.messages)
        self.sources = [self._seq] * len(event.messages)

    def _compacted(self, event: events.Compacted) -> None:
        """A summary in place of what came before `keeps_from`; everything after it stays as it was."""
        if self._seq in self.undone:
            return
        self.close_results()
        self.instructions = {}  # a summary is no place for them: they are told again from their files
        self.files = event.files
        kept = bisect_left(self.sources, event.keeps_from)
        summary = Message("user", (Text(f"{SUMMARY}\n\n{event.summary}"),))
        self.transcript = Transcript([summary, *list(self.transcript)[kept:]])
        self.sources = [self._seq, *self.sources[kept:]]

    def _collapsed(self, event: events.BranchCollapsed) -> None:
        self.close_results()
        self._add(Message("user", (Text(f"{OTHER_BRANCH}\n\n{event.summary}"),)))

    def _extension(self, event: events.ExtensionEntry) -> None:
        self._add(Message("user", event.told))

    def close_results(self) -> None:
        """A tool message with one result a call, in the order of the calls.

        All are there unless the path was cut between two of them by a fork or by navigating.
        """
        if not self._results:
            return
        results = [
            result or ToolResult(call, self._names[call], (Text(NEVER_RUN),), failed=True)
            for call, result in self._results.items()
        ]
        self._add(Message("tool", tuple(results)))
        self._results = {}


_TELLERS: dict[type[Any], Any] = {
    events.UserMessage: Telling._user,
    events.AssistantMessage: Telling._answer,
    events.ToolResultFact: Telling._result,
    events.HistoryReplaced: Telling._new_history,
    events.Compacted: Telling._compacted,
    events.BranchCollapsed: Telling._collapsed,
    events.ExtensionEntry: Telling._extension,
}
"""How the transcript grows by what the model is told."""

_JUDGED = frozenset({events.UserMessage, events.AssistantMessage, events.ExtensionEntry})
"""Those of them that are told or not by what is in them; results by the thousand are not even asked about."""
