"""How somebody who leaves a session comes back to it, from the shell."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ostler.faces.cli.own_output import print_own
from ostler.faces.tui.far_store import FarStore
from ostler.runs.session import Session

if TYPE_CHECKING:
    from ostler.faces.tui.conversation import Conversation


def way_back(session: Session, cwd: str | None = None) -> str:
    """The command; with the folder, where one was named."""
    store = session.journal.store
    if isinstance(store, FarStore):
        return shlex.join(["ostler", "attach", store.host, "--session", session.id])
    return shlex.join(["ostler", *(["--cwd", cwd] if cwd else []), "--session", session.id])


def tell_way_back(conversation: Conversation, cwd: str | None = None) -> None:
    """Where something was said that is kept. What cannot go on has said so itself."""
    from ostler.log.memory import MemoryStore

    if conversation.problem is not None or isinstance(conversation.store, MemoryStore):
        return
    if conversation.session.state.transcript:
        print_own(f"to go on with this session: {way_back(conversation.session, cwd)}")
