"""From what was typed to what the model is told: slash commands, mentioned files, pictures."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ostler.core.harness import Harness
from ostler.schema.messages import PlainBlock, as_content
from ostler.tui.editor.chips import PromptDraft
from ostler.tui.shell import without_escape


class PromptContent(msgspec.Struct, frozen=True):
    blocks: tuple[PlainBlock, ...]
    notices: tuple[str, ...] = ()
    """For the person: what was mentioned and is not there."""
    digests: dict[str, str] = {}
    """Of the files that are shown, by their paths: the session has read them."""


def prompt_content(typed: PromptDraft, harness: Harness, commands: Collection[str]) -> PromptContent:
    """As `ostler -p` does it. What was pasted is data: nothing in it is a command or a mention.

    Raises `UsageError` for a command that nobody has; `commands` are those of others, which may be meant.
    Reads files: not for the event loop.
    """
    written = without_escape(typed.text).strip()
    said = typed.chips.text_with_chips(written)
    text, mentioned_in = said.text, written
    if written.startswith("/"):
        from ostler.app.prompt_expansion import command_text

        command = command_text((said.text,), harness, commands)
        text = command.text
        # A project must not attach what its user did not name, and neither must a paste.
        if command.is_own:
            mentioned_in = command_text((written,), harness, commands).text
    if "@" not in mentioned_in:
        return PromptContent(as_content((text, *said.images)))
    from ostler.context.mentions import with_mentions

    mentions = with_mentions(text, harness.cwd, mentioned_in=mentioned_in)
    blocks = as_content((mentions.text, *said.images, *mentions.blocks))
    return PromptContent(blocks, mentions.notices, mentions.digests)
