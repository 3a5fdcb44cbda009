"""Copies of git repositories that are not trusted: nothing of theirs is run, and nobody is asked anything."""

from __future__ import annotations

import os
import re
from pathlib import Path
from shutil import rmtree

from ostler.extensions.installing.bounded_program import Finished, run_program
from ostler.tools.programs import find_program
from ostler.vocabulary.errors import OstlerError, UsageError

FETCH_SECONDS = 300.0
LOOK_SECONDS = 60.0

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.ssh.allow=always",
    "protocol.file.allow=always",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
    "advice.detachedHead=false",
)

_PLACE = re.compile(
    r"GIT_(ALTERNATE_OBJECT_DIRECTORIES|COMMON_DIR|DIR|GRAFT_FILE|INDEX_FILE|NAMESPACE|OBJECT_DIRECTORY"
    r"|PREFIX|REPLACE_REF_BASE|SHALLOW_FILE|TEMPLATE_DIR|WORK_TREE|ALLOW_PROTOCOL|EXTERNAL_DIFF)"
)
"""Variables that would lead git elsewhere: a hook of git that calls us has them set."""


def copy_of(url: str, ref: str, into: Path) -> str:
    """The files of a repository as they are at a ref, or at the remote's HEAD; returns the commit."""
    into.mkdir(parents=True)
    _run_git(into, "init", "--quiet", "--template=")
    _run_git(into, "remote", "add", "--", "origin", url)
    _check_out(into, url, ref)
    commit = _run_git(into, "rev-parse", "HEAD").out.strip()
    # Nobody needs it any more, and inside of another repository it would hide the files from that one.
    rmtree(into / ".git")
    return commit


def newest_commit(url: str, cwd: Path) -> str:
    """What the remote's HEAD is now."""
    found = _run_git(cwd, "ls-remote", "--", url, "HEAD", about=url, seconds=LOOK_SECONDS).out
    return found.partition("\t")[0]


def _check_out(tree: Path, url: str, ref: str) -> None:
    shallow = ("fetch", "--quiet", "--depth=1", "--no-tags", "--", "origin", ref or "HEAD")
    if not ref:
        _run_git(tree, *shallow, about=url)
        _run_git(tree, "checkout", "--quiet", "--detach", "FETCH_HEAD")
        return
    if _try(tree, *shallow).code == 0:
        _run_git(tree, "checkout", "--quiet", "--detach", "FETCH_HEAD")
        return
    # A server need not hand a commit out by its number, and a short number is known only to who has them all.
    everything = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
    _run_git(tree, "fetch", "--quiet", "--", "origin", *everything, about=url)
    commit = _try(tree, "rev-parse", "--quiet", "--verify", "--end-of-options", f"{ref}^{{commit}}")
    if commit.code != 0:
        raise UsageError(f"there is no tag, branch or commit {ref} in {url}")
    _run_git(tree, "checkout", "--quiet", "--detach", commit.out.strip())


def _run_git(cwd: Path, *arguments: str, about: str = "", seconds: float = FETCH_SECONDS) -> Finished:
    finished = _try(cwd, *arguments, seconds=seconds)
    if finished.code == 0:
        return finished
    said = [line for line in finished.err.splitlines() if line.startswith(("fatal: ", "error: "))]
    reason = (said or finished.err.splitlines() or [f"exit code {finished.code}"])[0]
    what = f"git cannot get {about}" if about else f"git {arguments[0]} failed"
    raise OstlerError(f"{what}: {reason}")


def _try(cwd: Path, *arguments: str, seconds: float = FETCH_SECONDS) -> Finished:
    program = find_program("git")
    if program is None:
        raise UsageError("git is not installed, and is needed for this source")
    settings = [word for one in _SETTINGS for word in ("-c", one)]
    return run_program([program, *settings, *arguments], cwd=cwd, seconds=seconds, environment=_environment())


def _environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not _PLACE.fullmatch(name)}
    # `true` answers nothing; a credential helper is asked before it. ssh finds no terminal to ask at, because
    # the program is started in a session of its own.
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "SSH_ASKPASS": "true", "LC_ALL": "C"}
    return {**inherited, **quiet, "GIT_LFS_SKIP_SMUDGE": "1"}
