"""Keeps a checkpoint of the working tree before each run; `/undo` brings the last one back.

    ostler -e examples/extensions/git_checkpoint.py -p "try another way"

A checkpoint is a commit that no branch names (`git stash create`): nothing of your index or branch changes.
Which commit belongs to which run stands in the session's state.
"""

import subprocess

from ostler.extensions import ExtensionContext, Ostler, RunPlan


def setup(ostler: Ostler) -> None:
    @ostler.before_run
    def checkpoint(plan: RunPlan, context: ExtensionContext) -> None:
        if _git(context, "rev-parse", "--is-inside-work-tree") != "true":
            return
        commit = _git(context, "stash", "create") or _git(context, "rev-parse", "HEAD")
        kept = context.state.get("checkpoints", [])
        context.state["checkpoints"] = [*kept[-19:], commit]

    @ostler.command("undo", description="Bring the files back as they were before the last run")
    def undo(arguments: str, context: ExtensionContext) -> str:
        *earlier, last = context.state.get("checkpoints", []) or [""]
        if not last:
            return "there is no checkpoint yet"
        _git(context, "restore", f"--source={last}", "--worktree", "--", ".")
        context.state["checkpoints"] = earlier
        return f"the files are as they were in {last[:9]}; new files stay where they are"


def _git(context: ExtensionContext, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=context.cwd, capture_output=True, text=True, timeout=20)
    return done.stdout.strip()
