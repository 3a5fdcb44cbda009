"""A command that a person ran with `!`, as an entry of the session: told to the model, and seen again when
the session is opened again."""

from __future__ import annotations

from ostler.faces.tui.blocks import CallBlock
from ostler.vocabulary.events import ExtensionEntry
from ostler.vocabulary.messages import Text, text_of

_OWNER, _NAME = "tui", "shell"


def shell_entry(block: CallBlock) -> ExtensionEntry:
    """No message of the person: it starts no run, and may come while calls are open. The model is told with
    the next prompt, or before its next step."""
    command = block.arguments["command"]
    about = {"command": command, "failed": block.stage == "failed", "seconds": round(block.seconds, 3)}
    said = Text(f"The user ran this command in a shell of their own:\n$ {command}\nIt printed:")
    return ExtensionEntry(_OWNER, _NAME, about, (said, Text(block.result)))


def shell_block(entry: ExtensionEntry) -> CallBlock | None:
    """What is seen of it; None if the entry is somebody else's."""
    data = entry.data
    if (entry.extension, entry.name) != (_OWNER, _NAME) or not isinstance(data, dict):
        return None
    return CallBlock(
        "",
        "!",
        "failed" if data.get("failed") else "done",
        {"command": str(data.get("command", ""))},
        "execute",
        result=text_of(entry.told[1:]),
        seconds=float(data.get("seconds", 0)),
    )
