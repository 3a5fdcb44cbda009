"""Commits the changes of a run and its children, with the first line of the prompt as the message.

ostler -e examples/extensions/auto_commit.py --permissions edit -p "rename the parser"
"""

import subprocess

from ostler import events, messages
from ostler.extensions import ExtensionAPI, ExtensionContext


def setup(ostler: ExtensionAPI) -> None:
    @ostler.on(events.UserMessage)
    def remember(message: events.UserMessage, context: ExtensionContext) -> None:
        if message.source == "prompt":
            context.state["prompt"] = messages.text_of(message.content)

    @ostler.on(events.RunEnded)
    def commit(ended: events.RunEnded, context: ExtensionContext) -> None:
        is_done = ended.status == "completed" and not context.parent  # a child's work is part of the run's
        if not is_done or not _git(context, "status", "--porcelain"):
            return
        title = (context.state.get("prompt", "").strip() or "work").splitlines()[0][:72]
        _git(context, "add", "--all")
        _git(context, "commit", "--quiet", "--message", title)
        context.print_info(f"committed {_git(context, 'rev-parse', '--short', 'HEAD')}: {title}")


def _git(context: ExtensionContext, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=context.cwd, capture_output=True, text=True, timeout=20)
    return done.stdout.strip()
