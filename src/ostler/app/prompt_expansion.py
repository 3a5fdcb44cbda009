"""Expands a typed prompt: slash commands, skills and mentioned files become the content of the message.

Only typed text is expanded. Piped, pasted and attached text is data, which reaches the model unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ostler.app.console import print_stderr
from ostler.context.instructions import skills_in
from ostler.context.mentions import with_mentions
from ostler.context.skills import expand_skill
from ostler.context.slash_commands import ExpandedPrompt, expand_command, prompt_commands, prompts_here
from ostler.core.harness import Harness
from ostler.schema.messages import PlainBlock, as_content
from ostler.tools.files import remember


class Expansion(msgspec.Struct, frozen=True):
    blocks: tuple[PlainBlock, ...]
    notices: tuple[str, ...] = ()
    """For the person: mentioned files that cannot be attached."""
    digests: dict[str, str] = {}
    """Digests of the attached files by path: the session has read them."""


def expand_prompt(
    words: Sequence[str],
    harness: Harness,
    commands: Collection[str] = (),
    *,
    typed: str | None = None,
    piped: str = "",
    attached: Iterable[PlainBlock] = (),
) -> Expansion:
    """The content of a prompt. Reads files, so it does not belong on the event loop.

    `words` is the prompt, or the words that a shell split it into. `typed` is what a person typed of it, if
    other parts were pasted: only that may mention files. `piped` is appended to the text and `attached`
    follows it. Raises `UsageError` for an unknown slash command; `commands` are those of extensions and front
    ends, which the error may suggest.
    """
    text = " ".join(words)
    if typed is None:
        typed = text = text.strip()
    mentioned_in = typed
    if typed.startswith("/"):
        command = command_text(words, harness, commands)
        # A project must not attach files that its user did not name, and neither must pasted text.
        if command.is_own:
            mentioned_in = command.text if typed == text else command_text((typed,), harness, commands).text
        text = command.text
    if "@" not in mentioned_in:
        return Expansion(as_content((text + piped, *attached)))
    rules = harness.file_rules()
    mentions = with_mentions(text, harness.cwd, mentioned_in=mentioned_in, rules=rules)
    blocks = as_content((mentions.text + piped, *attached, *mentions.blocks))
    return Expansion(blocks, mentions.notices, mentions.digests)


def command_text(words: Sequence[str], harness: Harness, commands: Collection[str]) -> ExpandedPrompt:
    """What a slash command stands for; the typed text if it is none."""
    typed = " ".join(words).strip()
    available = skills_in(harness.cwd)
    if typed.startswith("/skill:"):
        skill = expand_skill(typed, available, harness.cwd)
        return ExpandedPrompt(skill, is_own=False) if skill else ExpandedPrompt(typed)
    templates = prompt_commands(prompts_here(harness.cwd), harness.model.name)
    others = [*(f"/skill:{name}" for name in available.by_name), *(f"/{name}" for name in commands)]
    return expand_command(words, {"": templates}, others)


def expand_at_console(
    words: Sequence[str], harness: Harness, commands: Collection[str] = (), *, piped: str = ""
) -> Expansion:
    """`expand_prompt`, with its notices printed to stderr."""
    expansion = expand_prompt(words, harness, commands, piped=piped)
    for notice in expansion.notices:
        print_stderr(notice)
    return expansion


def record_read_files(memory: dict[str, Any], expansion: Expansion) -> None:
    """Records in a session's memory that it has read the attached files."""
    for path, digest in expansion.digests.items():
        remember(memory, Path(path), digest)
