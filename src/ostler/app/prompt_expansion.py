"""What a typed prompt stands for: the text of a slash command, and the files that it mentions.

Only words of the command line are expanded. What is piped in is data, and reaches the model as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ostler.app.console import print_stderr
from ostler.core.harness import Harness
from ostler.schema.messages import PlainBlock, as_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.context.slash_commands import ExpandedPrompt


class Expansion(msgspec.Struct, frozen=True):
    blocks: tuple[PlainBlock, ...]
    notices: tuple[str, ...] = ()
    """For the person: what was mentioned and is not there."""
    digests: dict[str, str] = {}
    """Of the files that are shown, by their paths: the session has read them."""


def expand_typed(
    words: Sequence[str], prompt: str, harness: Harness, commands: Collection[str] = ()
) -> Expansion:
    """The content of a prompt that begins with what was typed: `words`. It is none of the extensions'
    commands, but one of them may be meant."""
    expansion = expansion_of(words, prompt, harness, commands)
    for notice in expansion.notices:
        print_stderr(notice)
    return expansion


def record_read_files(memory: dict[str, Any], expansion: Expansion) -> None:
    """Notes in a session's memory which files it knows."""
    if expansion.digests:
        from ostler.tools.files import remember

        for path, digest in expansion.digests.items():
            remember(memory, Path(path), digest)


def expansion_of(
    words: Sequence[str], prompt: str, harness: Harness, commands: Collection[str] = ()
) -> Expansion:
    """Reads files: not for the event loop. Raises `UsageError` for a command that nobody has."""
    typed = " ".join(words).strip()
    text, mentioned_in = typed, typed
    if typed.startswith("/"):
        command = command_text(words, harness, commands)
        text = command.text
        # A project must not attach what its user did not name.
        mentioned_in = text if command.is_own else typed
    piped = prompt[len(typed) :]
    if "@" not in mentioned_in:
        return Expansion(as_content(text + piped))
    from ostler.context.mentions import with_mentions

    mentions = with_mentions(text, harness.cwd, mentioned_in=mentioned_in)
    blocks = as_content((mentions.text + piped, *mentions.blocks))
    return Expansion(blocks, mentions.notices, mentions.digests)


def command_text(words: Sequence[str], harness: Harness, commands: Collection[str] = ()) -> ExpandedPrompt:
    """What a slash command stands for; what was typed, if it is none."""
    from ostler.context.slash_commands import ExpandedPrompt, expand_prompt

    typed = " ".join(words).strip()
    if typed.startswith("/skill:"):
        from ostler.context.instructions import skills_in
        from ostler.context.skills import expand_skill

        skill = expand_skill(typed, skills_in(harness.cwd), harness.cwd)
        return ExpandedPrompt(skill, is_own=False) if skill else ExpandedPrompt(typed)
    from ostler.context.instructions import skills_in
    from ostler.context.slash_commands import prompt_commands, prompts_here

    templates = prompt_commands(prompts_here(harness.cwd), harness.model.name)
    skills = [f"/skill:{name}" for name in skills_in(harness.cwd).found]
    return expand_prompt(words, {"": templates}, [*skills, *(f"/{name}" for name in commands)])
