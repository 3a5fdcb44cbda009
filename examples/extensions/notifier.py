"""Notifies you when a long run has ended, or waits for you.

OSTLER_OPT_NOTIFY_COMMAND="notify-send ostler" ostler -e examples/extensions/notifier.py -p "…"
"""

import asyncio
import shlex

from ostler import events
from ostler.extensions import ExtensionAPI, ExtensionContext

LONG_MS = 10_000


def setup(ostler: ExtensionAPI) -> None:
    ostler.option(
        "notify-command",
        description="A program that gets the text as its last argument",
        default="notify-send ostler",
    )

    @ostler.on(events.RunEnded)
    async def ended(event: events.RunEnded, context: ExtensionContext) -> None:
        if event.own.duration_ms >= LONG_MS or event.status != "completed":
            await _notify(
                context, f"{event.status}: {event.own.steps} steps in {event.own.duration_ms / 1000:.0f} s"
            )

    @ostler.on(events.QuestionAsked)
    async def asked(event: events.QuestionAsked, context: ExtensionContext) -> None:
        await _notify(context, f"needs you: {event.question.text}")


async def _notify(context: ExtensionContext, text: str) -> None:
    words = shlex.split(context.option("notify-command"))
    try:
        program = await asyncio.create_subprocess_exec(*words, text)
        failed = await program.wait() != 0
    except OSError:
        failed = True
    if failed:
        context.print_error(f"{words[0]} failed to notify you: {text}")
