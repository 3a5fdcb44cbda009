"""The transcript that a model gets, built from the entries on a session's path."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ostler.schema import events
from ostler.schema.facts import UnknownEvent
from ostler.schema.ids import blake2b
from ostler.schema.messages import Message, Text, ToolCall, ToolResult
from ostler.schema.visibility import is_blank, visibility_of

NEVER_RUN = "This call was not run: the conversation continued from before its result."
SUMMARY = "This conversation began earlier. This is a summary of what came before the messages below:"
OTHER_BRANCH = "Another attempt was made from here and then abandoned. This is a summary of it:"

_encoder = msgspec.json.Encoder()

_HASHED_TOGETHER = 200  # messages, so that their memory is reused for the next ones


class TranscriptBuilder:
    """Adds entries one by one. Results are sent together, once all calls of their message have one."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.sources: list[int] = []
        """The number of the entry that each message comes from; of results, the last one's."""
        self.prompts: set[int] = set()
        """The numbers of the entries that began a run."""
        self.steers: set[int] = set()
        """The numbers of the entries that steered one."""
        self.undone: set[int] = set()
        """Compactions that were undone, and replace nothing."""
        self.instructions: dict[str, str] = {}
        """The instruction files that results contain, each with its digest."""
        self.files: tuple[str, ...] = ()
        """The files that were used before the last compaction."""
        self._seq = 0
        """The number of the last entry that is sent."""
        self._calls: dict[str, ToolCall] = {}
        """Those of the last assistant message, in its order, until all have their results."""
        self._results: dict[str, ToolResult] = {}
        self._delayed: list[Message] = []
        """Messages of extensions that came while calls were open: they follow the results."""

    def add(self, event: events.Event | UnknownEvent, seq: int) -> None:
        kind = type(event)
        if kind is events.ToolResultFact:  # of these two there are thousands
            self._result(event, seq)  # type: ignore[arg-type]
        elif kind is events.AssistantMessage:
            self._answer(event, seq)  # type: ignore[arg-type]
        elif kind in _HANDLERS and visibility_of(event).sent:
            self._seq = seq
            _HANDLERS[kind](self, event)

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
        if event.details and isinstance(files := event.details.get("instructions"), dict):
            digests = {path: digest for path, digest in files.items() if isinstance(digest, str)}
            self.instructions = {**self.instructions, **digests}
        result = ToolResult(event.call, event.name, event.content, event.failed is not None)
        self._results[event.call] = result
        if len(self._results) == len(self._calls):
            self.close_results()

    def _new_history(self, event: events.HistoryReplaced) -> None:
        self._calls, self._results, self._delayed = {}, {}, []
        self.instructions = {}
        self.transcript = Transcript(event.messages)
        self.sources = [self._seq] * len(event.messages)

    def _compacted(self, event: events.Compacted) -> None:
        """Replaces everything before `keeps_from` with a summary."""
        if self._seq in self.undone:
            return
        self.close_results()
        self.instructions = {}  # a summary does not contain them: they are sent again from their files
        self.files = event.files
        first = bisect_left(self.sources, event.keeps_from)
        summary = Message("user", (Text(f"{SUMMARY}\n\n{event.summary}"),))
        self.transcript = Transcript([summary, *list(self.transcript)[first:]])
        self.sources = [self._seq, *self.sources[first:]]

    def _collapsed(self, event: events.BranchCollapsed) -> None:
        self.close_results()
        self._add(Message("user", (Text(f"{OTHER_BRANCH}\n\n{event.summary}"),)))

    def _extension(self, event: events.ExtensionEntry) -> None:
        message = Message("user", event.told)
        if self._calls:
            self._delayed.append(message)
        else:
            self._add(message)

    def close_results(self) -> None:
        """Adds a tool message with one result for each call, in the order of the calls. One is missing only
        if a fork or a navigation cut the path between the results."""
        if not self._calls:
            return
        results = [
            self._results.get(id) or ToolResult(id, call.name, (Text(NEVER_RUN),), failed=True)
            for id, call in self._calls.items()
        ]
        self._add(Message("tool", tuple(results)))
        delayed, self._calls, self._results, self._delayed = self._delayed, {}, {}, []
        for message in delayed:
            self._add(message)


_HANDLERS: dict[type[Any], Any] = {
    events.UserMessage: TranscriptBuilder._user,
    events.HistoryReplaced: TranscriptBuilder._new_history,
    events.Compacted: TranscriptBuilder._compacted,
    events.BranchCollapsed: TranscriptBuilder._collapsed,
    events.ExtensionEntry: TranscriptBuilder._extension,
}
"""For entries that the model gets beside answers and results."""


class Transcript:
    """The messages that a model gets, each with its encodings.

    A transcript only grows. Every wire gets its own encoding of each message from `encoded`, which calls the
    encoder once for each message, not once for each step.
    """

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.messages: list[Message] = list(messages)
        self.append: Callable[[Message], None] = self.messages.append
        """Adds a message. It is the list's own method: opening a long session calls it thousands of times."""
        self._encodings: dict[str, list[bytes]] = {}
        self._hasher = blake2b(digest_size=16)
        self._hashed = 0
        self._call_ids: set[str] = set()
        self._searched = 0

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __getitem__(self, index: int) -> Message:
        return self.messages[index]

    def encoded(self, key: str, encode: Callable[[Message], bytes]) -> list[bytes]:
        """The encodings of all messages. `key` names the encoder: a wire and all that changes its output."""
        encodings = self._encodings.setdefault(key, [])
        encodings += map(encode, self.messages[len(encodings) :])
        return encodings

    def call_ids(self) -> set[str]:
        for message in self.messages[self._searched :]:
            self._call_ids.update([call.id for call in message.calls])
        self._searched = len(self.messages)
        return self._call_ids

    def digest(self) -> bytes:
        while new := self.messages[self._hashed : self._hashed + _HASHED_TOGETHER]:
            self._hasher.update(_encoder.encode_lines(new))
            self._hashed += len(new)
        return self._hasher.digest()
