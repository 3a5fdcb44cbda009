"""Whether a repository's own files could make a reading git command run a program.

A folder that came from somewhere else may bring a `.git` with it, whose settings name programs: a monitor of
files, filters, hooks. So only settings that are known to be about something else are accepted.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from ostler.permissions.plain_shell import word_set

_ANY_KEY = word_set(
    "advice alias branch color column commit fetch gc gui help init lfs merge pull push rebase stash "
    "tag user worktree"
)
"""Sections that commands which only read do not use, or that cannot name a program."""

_KEYS = {
    "core": word_set(
        "abbrev autocrlf bare commitgraph compression eol excludesfile filemode ignorecase "
        "logallrefupdates longpaths precomposeunicode preloadindex protecthfs protectntfs quotepath "
        "repositoryformatversion safecrlf sharedrepository symlinks trustctime untrackedcache whitespace"
    ),
    "diff": word_set("algorithm colormoved context mnemonicprefix noprefix renamelimit renames"),
    "extensions": frozenset({"objectformat", "worktreeconfig"}),
    "index": frozenset({"version", "threads"}),
    "log": frozenset({"date", "decorate", "follow"}),
    "remote": word_set("fetch mirror prune prunetags pushurl tagopt url"),
    "status": frozenset({"showuntrackedfiles", "branch", "short"}),
    "submodule": frozenset({"active", "url", "branch"}),
}

_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)\s*(?:"(?:[^"\\]|\\.)*")?\s*\]')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=|$)")
_HEAD = re.compile(r"ref: refs/|[0-9a-f]{40}")
_MAX_CONFIG = 100_000
_MAX_INDEX = 64_000_000
_SUBMODULE = b"\x00\x00\xe0\x00"
"""The mode of an entry of the index that is a repository in itself, with settings of its own."""


def repository_of(folder: Path) -> Path | None:
    """The folder whose repository git uses; None if it is none, or if git may take it for a bare one."""
    for one in (folder, *folder.parents):
        if (one / ".git").exists():
            return one
        if (one / "HEAD").exists():  # git uses such a folder as a bare repository
            return None
    return None


def repository_problem(root: Path) -> str:
    """What in the repository might run a program; empty if nothing does."""
    try:
        private = _git_folder(root / ".git")
        common = private
        if (private / "commondir").exists():
            common = (private / (private / "commondir").read_text().strip()).resolve()
        is_repository = _HEAD.match((private / "HEAD").read_text())
        if not is_repository or not (common / "objects").is_dir() or not (common / "refs").is_dir():
            return ".git is no repository, and git would look for one above it"
        for config in (common / "config", private / "config.worktree"):
            if config.exists() and (problem := _config_problem(config, config.stat().st_mtime_ns)):
                return problem
        if (common / "hooks" / "post-index-change").exists():
            return "the repository has the hook post-index-change"
        if any(private.glob("sharedindex.*")):
            return "the repository has a split index"
        index = private / "index"
        if index.exists() and _has_submodules(index, index.stat().st_mtime_ns):
            return "the repository has submodules, with settings of their own"
    except (OSError, ValueError) as error:
        return f"the repository's settings cannot be read ({error})"
    return ""


def _git_folder(path: Path) -> Path:
    """The folder itself, or the one that a file `.git` names."""
    if path.is_dir():
        return path.resolve()
    line = path.read_text().strip()
    if not line.startswith("gitdir: ") or "\n" in line:
        raise ValueError(".git names no folder")
    return (path.parent / line.removeprefix("gitdir: ")).resolve(strict=True)


@lru_cache(64)
def _config_problem(path: Path, changed: int) -> str:
    """The first setting that is not known to be about something else. `changed` is for the cache."""
    data = path.read_bytes()
    if len(data) > _MAX_CONFIG:
        return "the repository's settings are too long"
    section = ""
    for line in data.decode(errors="replace").split("\n"):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if header := _SECTION.match(line):
            section = header[1].lower()
            line = line[header.end() :].strip()
            if not line or line[0] in "#;":
                continue
        key = _KEY.match(line)
        if key is None or line.endswith("\\"):
            return "the repository's settings have a line that is not understood"
        if section not in _ANY_KEY and key[1].lower() not in _KEYS.get(section, ()):
            return f"the repository sets {section}.{key[1].lower()}"
    return ""


@lru_cache(64)
def _has_submodules(index: Path, changed: int) -> bool:
    return index.stat().st_size > _MAX_INDEX or _SUBMODULE in index.read_bytes()
