"""The transcript that a model is told, grown from the entries on a session's path."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ostler.schema import events
from ostler.schema.facts import UnknownEvent
from ostler.schema.ids import blake2b
from ostler.schema.messages import Message, Text, ToolCall, ToolResult
from ostler.schema.visibility import is_blank, visibility_of

NEVER_RUN = "This call was not run: the conversation was taken up again from before its result."

SUMMARY = "This conversation began earlier. What came before the messages below, in a summary:"

OTHER_BRANCH = "This was done from here before, and then left. What came of it, in a summary:"

_encoder = msgspec.json.Encoder()

_HASHED_TOGETHER = 200  # messages: the memory for one lot serves the next


class TranscriptBuilder:
    """Takes entries in one by one. Results are told together, once all calls of their message have one."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.sources: list[int] = []
        """The number of the entry that each message comes from; of results, the last one's."""
        self.prompts: set[int] = set()
        """The numbers of the entries that began a run."""
        self.steers: set[int] = set()
        """Those of what people said while one was under way."""
        self.undone: set[int] = set()
        """Compactions that were undone: nothing is left out for them."""
        self.instructions: dict[str, str] = {}
        """The instruction files that results told of, each with its digest."""
        self.files: tuple[str, ...] = ()
        """Those that the work before the last compaction has touched."""
        self._seq = 0
        """The number of the last entry that was told."""
        self._calls: dict[str, ToolCall] = {}
        """Those of the last assistant message, in its order, until all have their results."""
        self._results: dict[str, ToolResult] = {}
        self._behind: list[Message] = []
        """What an extension said while calls were open: it is told behind their results."""

    def add(self, event: events.Event | UnknownEvent, seq: int) -> None:
        kind = type(event)
        if kind is events.ToolResultFact:  # of these two there are thousands
            self._result(event, seq)  # type: ignore[arg-type]
        elif kind is events.AssistantMessage:
            self._answer(event, seq)  # type: ignore[arg-type]
        elif kind in _TELLERS and visibility_of(event).sent:
            self._seq = seq
            _TELLERS[kind](self, event)

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

    def _answer(self, event: events.AssistantMessage, seq: int) -> None:
        if is_blank(event):
            return
        self._seq = seq
        if self._calls:
            self.close_results()
        self._add(Message("assistant", event.content))
        for block in event.content:
            if type(block) is ToolCall:
                self._calls[block.id] = block

    def _result(self, event: events.ToolResultFact, seq: int) -> None:
        self._seq = seq
        if event.call not in self._calls:
            return
        if event.details and "instructions" in event.details:
            self._note_instructions(event.details["instructions"])
        result = ToolResult(event.call, event.name, event.content, event.failed is not None)
        if len(self._calls) == 1:  # nearly always, in sessions of thousands of them
            self._calls = {}
            self._add(Message("tool", (result,)))
            if self._behind:
                self._tell_behind()
            return
        self._results[event.call] = result
        if len(self._results) == len(self._calls):
            self.close_results()

    def _note_instructions(self, named: Any) -> None:
        if isinstance(named, dict):
            told = {path: digest for path, digest in named.items() if isinstance(digest, str)}
            self.instructions = {**self.instructions, **told}

    def _new_history(self, event: events.HistoryReplaced) -> None:
        self._calls, self._results = {}, {}
        self._behind = []
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
        message = Message("user", event.told)
        if self._calls:
            self._behind.append(message)
        else:
            self._add(message)

    def _tell_behind(self) -> None:
        behind, self._behind = self._behind, []
        for message in behind:
            self._add(message)

    def close_results(self) -> None:
        """A tool message with one result a call, in the order of the calls.

        All are there unless the path was cut between two of them by a fork or by navigating.
        """
        if not self._calls:
            return
        results = [
            self._results.get(id) or ToolResult(id, call.name, (Text(NEVER_RUN),), failed=True)
            for id, call in self._calls.items()
        ]
        self._add(Message("tool", tuple(results)))
        self._calls, self._results = {}, {}
        self._tell_behind()


_TELLERS: dict[type[Any], Any] = {
    events.UserMessage: TranscriptBuilder._user,
    events.HistoryReplaced: TranscriptBuilder._new_history,
    events.Compacted: TranscriptBuilder._compacted,
    events.BranchCollapsed: TranscriptBuilder._collapsed,
    events.ExtensionEntry: TranscriptBuilder._extension,
}
"""How the transcript grows by what the model is told beside answers and results."""


class Transcript:
    """The messages a model is told, each with its encodings.

    A transcript only grows. Every wire asks for its own encoding of each message through `encoded`,
    which calls the encoder once a message, however many steps the message lives through.
    """

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages: list[Message] = list(messages)
        self.append: Callable[[Message], None] = self._messages.append
        """Adds a message. The list's own: opening a long session calls it thousands of times."""
        self._encodings: dict[str, list[bytes]] = {}
        self._hasher = blake2b(digest_size=16)
        self._hashed = 0
        self._call_ids: set[str] = set()
        self._searched = 0

    @property
    def messages(self) -> Sequence[Message]:
        """All of them; it grows with the transcript."""
        return self._messages

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __getitem__(self, index: int) -> Message:
        return self._messages[index]

    def encoded(self, key: str, encode: Callable[[Message], bytes]) -> list[bytes]:
        """One encoding a message. `key` names the encoder: a wire and whatever changes its output."""
        done = self._encodings.setdefault(key, [])
        done += map(encode, self._messages[len(done) :])
        return done

    def call_ids(self) -> set[str]:
        """The ids of all calls in it."""
        for message in self._messages[self._searched :]:
            self._call_ids.update([call.id for call in message.calls])
        self._searched = len(self._messages)
        return self._call_ids

    def digest(self) -> bytes:
        while new := self._messages[self._hashed : self._hashed + _HASHED_TOGETHER]:
            self._hasher.update(_encoder.encode_lines(new))
            self._hashed += len(new)
        return self._hasher.digest()
