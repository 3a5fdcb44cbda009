"""The interface of a store on a server, where the sessions run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ostler.schema.messages import PlainBlock, Text, as_content

if TYPE_CHECKING:
    from ostler.app.default_model import Candidate
    from ostler.core.processes import ProcessId
    from ostler.core.store import Store
    from ostler.schema.events import QuestionAsked
    from ostler.sessions.live_socket import Batch
    from ostler.tui.editor.chips import PromptDraft


class Relayed(Protocol):
    """See `Relay`."""

    owner: ProcessId | None
    problem: str

    def batches(self) -> AsyncGenerator[Batch, None]: ...


@runtime_checkable
class RemoteSessions(Protocol):
    """A store on a server. The server holds its sessions and expands prompts."""

    host: str

    def relay(self, session: str, after: int) -> Relayed:
        """The live events of a session."""
        ...

    async def begin(self, cwd: Path, model: str = "", reasoning: str = "") -> str:
        """Creates a session in a folder of that machine; its settings name the default model."""
        ...

    async def question(self, session: str, asked: QuestionAsked) -> QuestionAsked:
        """The question with what it is about there, such as the diff of a file."""
        ...

    async def candidates(self) -> list[Candidate]:
        """The models that can answer there."""
        ...


_NAMES = (
    "agents btw doctor edit extensions import key login logout permissions reload settings skills tools yolo"
)
ABOUT_THIS_MACHINE = frozenset(_NAMES.split())
"""Commands about this machine, which do not apply to a remote session."""


def refusal(store: Store, command: str) -> str:
    """Why a command does not apply to this session; empty if it does."""
    if not isinstance(store, RemoteSessions) or command not in ABOUT_THIS_MACHINE:
        return ""
    return f"/{command} is about the machine that the session runs on: use it at {store.host}"


def as_typed(draft: PromptDraft) -> tuple[PlainBlock, ...]:
    """The content of a prompt for the server to expand. Only its first block may have commands and mentions,
    so pasted text that looks like one follows in blocks of its own."""
    typed = draft.text.strip()
    prompt = draft.chips.text_with_chips(typed)
    if prompt.text == typed or not (prompt.text.startswith("/") or "@" in prompt.text):
        return as_content((prompt.text, *prompt.images))
    labels = dict.fromkeys(typed[begin:end] for begin, end in draft.chips.spans(typed))
    pasted = {label: draft.chips.text_with_chips(label).text for label in labels}
    blocks = [Text(f"{label}\n{text}") for label, text in pasted.items() if text != label]
    return (Text(typed), *blocks, *prompt.images)
