"""Repositories whose own files could make a reading git command run a program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ostler.permissions.git_repository import repository_of, repository_problem


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    (root / "a").write_text("a")
    git(root, "add", "a")
    git(root, "commit", "-qm", "first")
    return root


def test_an_ordinary_repository_is_no_problem(repository: Path) -> None:
    git(repository, "remote", "add", "origin", "https://example.com/a.git")
    git(repository, "branch", "--track", "b", "HEAD")
    git(repository, "config", "user.name", "Ada")
    git(repository, "config", "alias.st", "status")
    assert repository_problem(repository) == ""
    assert repository_of(repository / "src") == repository


@pytest.mark.parametrize(
    "setting",
    [
        *(
            "core.fsmonitor",
            "core.pager",
            "core.sshCommand",
            "core.hooksPath",
            "core.editor",
            "core.worktree",
        ),
        *(
            "diff.external",
            "diff.x.command",
            "diff.x.textconv",
            "filter.x.clean",
            "filter.x.process",
            "gpg.program",
        ),
        *(
            "log.showSignature",
            "pager.log",
            "include.path",
            "includeIf.gitdir:/.path",
            "extensions.partialClone",
        ),
        *(
            "remote.origin.uploadpack",
            "remote.origin.promisor",
            "remote.origin.vcs",
            "core.alternateRefsCommand",
        ),
        *(
            "interactive.diffFilter",
            "uploadpack.packObjectsHook",
            "status.submoduleSummary",
            "credential.helper",
        ),
    ],
)
def test_a_setting_that_may_name_a_program_is_a_problem(repository: Path, setting: str) -> None:
    git(repository, "config", setting, "./evil")
    problem = repository_problem(repository)
    section, _, key = setting.lower().partition(".")
    assert problem.startswith(f"the repository sets {section}.{key.rpartition('.')[2]}")


@pytest.mark.parametrize(
    "text",
    [
        "[core]fsmonitor=./evil\n",
        "[CORE]\n\tFsMonitor = ./evil\n",
        "[ core ]\n fsmonitor\n",
        "[alias]\n\ta = b \\\n[core]\n",
        "[alias]\na = b\n[core] # x\n\tfsmonitor = ./evil\n",
        '[diff "a]b"]\n\ttextconv = ./evil\n',
        "[diff.x]\n\ttextconv = ./evil\n",
        "\ufeff[core]\n\tfsmonitor = ./evil\n",
        "[alias\n]\n",
        "x" * 200_000,
    ],
)
def test_settings_in_unusual_forms_are_a_problem(repository: Path, text: str) -> None:
    (repository / ".git" / "config").write_text(text)
    assert repository_problem(repository)


def test_changed_settings_are_read_again(repository: Path) -> None:
    assert repository_problem(repository) == ""
    config = repository / ".git" / "config"
    config.write_text("[core]\n\tfsmonitor = ./evil\n")
    os.utime(config, ns=(1, 1))
    assert repository_problem(repository)


def test_a_hook_that_reading_commands_run_is_a_problem(repository: Path) -> None:
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").touch()
    assert repository_problem(repository) == ""
    (hooks / "post-index-change").touch()
    assert "post-index-change" in repository_problem(repository)


def test_submodules_have_settings_of_their_own(repository: Path, tmp_path: Path) -> None:
    git(repository, "submodule", "add", "-q", str(repository), "sub")
    git(repository, "config", "--remove-section", "submodule.sub")
    assert "submodules" in repository_problem(repository)


def test_a_worktree_has_the_settings_of_its_repository(repository: Path) -> None:
    other = repository.parent / "other"
    git(repository, "worktree", "add", "-q", str(other))
    assert repository_problem(other) == ""
    git(repository, "config", "core.fsmonitor", "./evil")
    assert repository_problem(other)


def test_what_is_no_repository_is_a_problem(repository: Path, tmp_path: Path) -> None:
    false = tmp_path / "false"
    (false / ".git").mkdir(parents=True)
    assert repository_problem(false)
    (false / ".git").rmdir()
    (false / ".git").write_text("gitdir: ../nowhere\n")
    assert repository_problem(false)
    (false / ".git").unlink()
    (false / "HEAD").touch()
    assert repository_of(false) is None, "git may take it for a bare repository"
