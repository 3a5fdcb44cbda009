"""Saves a checkpoint of the working tree before each run; `/undo` restores the last one.

    ostler -e examples/extensions/git_checkpoint.py --permissions edit -p "try another way"
    ostler -e examples/extensions/git_checkpoint.py -p --continue /undo

The terminal has an `/undo` of its own: there it is `/git_checkpoint:undo`.

A checkpoint is a commit without a branch (`git stash create`); your index and branches do not change. The
session's state has the commit of each run.
"""

import subprocess

from ostler.extensions import ExtensionAPI, ExtensionContext, RunPlan


def setup(ostler: ExtensionAPI) -> None:
    @ostler.before_run
    def checkpoint(plan: RunPlan, context: ExtensionContext) -> None:
        commit = _git(context, "stash", "create") or _git(context, "rev-parse", "--verify", "HEAD")
        if commit:  # there is none outside a repository, or before its first commit
            context.state["checkpoints"] = [*context.state.get("checkpoints", [])[-19:], commit]

    @ostler.command("undo", description="Bring the files back as they were before the last run")
    def undo(arguments: str, context: ExtensionContext) -> str:
        kept = context.state.get("checkpoints", [])
        if not kept:
            return "there is no checkpoint"
        *earlier, last = kept
        _git(context, "restore", f"--source={last}", "--worktree", "--", ":/", check=True)
        context.state["checkpoints"] = earlier
        return f"the files are as they were in {last[:9]}; new files stay where they are"


def _git(context: ExtensionContext, *arguments: str, check: bool = False) -> str:
    done = subprocess.run(["git", *arguments], cwd=context.cwd, capture_output=True, text=True, timeout=20)
    if check and done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout.strip()
