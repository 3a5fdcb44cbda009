"""Which programs run other programs."""

from __future__ import annotations

import pytest

from ostler.permissions.wrappers import is_wrapper, runs_what_it_is_given


@pytest.mark.parametrize(
    "command",
    [
        *(
            "flock a b",
            "strace a",
            "unshare a",
            "script -c a",
            "su -c a",
            "busybox a",
            "ssh h a",
            "git -c a=b log",
            "sudo a",
        ),
        *(
            "git -ca=b log",
            "git --exec-path=x log",
            "git fetch --upload-pack=x",
            "/usr/bin/env a",
            "bash -c a",
            "sh a",
        ),
        *(
            "python3 -c 1",
            "python3.12 -Ic 1",
            "perl -ne 1",
            "ruby -e 1",
            "node --eval 1",
            "awk 1",
            "find . -exec a ;",
        ),
        *("xargs a", "parallel a", "npx a", "tmux a", "watch a", "exec a", "eval a", ". a"),
    ],
)
def test_wrappers_run_what_their_words_name(command: str) -> None:
    assert is_wrapper(command.split())
    assert runs_what_it_is_given(command.split())


@pytest.mark.parametrize(
    "command",
    ["python3 a.py", "npm run a", "npm i a", "pip install a", "uv run a", "docker run a", "go run ."],
)
def test_interpreters_and_package_managers_run_what_they_are_given(command: str) -> None:
    assert runs_what_it_is_given(command.split())


@pytest.mark.parametrize(
    "command",
    ["ls -c", "make test", "git commit -m a", "git log", "npm test", "pip list", "touch a", "find . -name a"],
)
def test_other_programs_do_their_own_work(command: str) -> None:
    assert not is_wrapper(command.split())
    assert not runs_what_it_is_given(command.split())


def test_a_program_that_is_not_known_may_be_anything() -> None:
    assert is_wrapper((None, "a")) and is_wrapper(())
