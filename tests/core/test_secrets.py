"""Keys: masked in streams and texts, and kept from processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.core import secrets
from ostler.core.secrets import MASK, MaskedStream

KEY = "sk-canary-0123456789"
LONGER = KEY + "-with-more"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(secrets, "_known", ())
    monkeypatch.setattr(secrets, "_variables", set())
    monkeypatch.setattr(secrets, "_passed", frozenset())
    yield


def test_known_keys_are_masked_and_the_longest_first() -> None:
    secrets.add(KEY, LONGER)
    assert secrets.mask(f"a {LONGER} b {KEY}") == f"a {MASK} b {MASK}"
    assert secrets.mask_bytes(f'{{"a":"{LONGER}"}}'.encode()) == f'{{"a":"{MASK}"}}'.encode()


def test_a_short_value_is_a_word_and_no_key() -> None:
    secrets.add("k", "test", "lm-studio", "not-needed")
    assert (
        secrets.mask("a test of lm-studio, a key is not-needed") == "a test of lm-studio, a key is not-needed"
    )


@given(st.lists(st.sampled_from([KEY, KEY[:9], KEY[5:], "sk-", "s", "x\n", LONGER]), max_size=8), st.data())
def test_a_key_split_over_pieces_is_masked(words: list[str], data: st.DataObject) -> None:
    secrets._known = ()
    secrets.add(KEY, LONGER)
    whole = "".join(words).encode()
    stream, out, at = MaskedStream(), b"", 0
    while at < len(whole):
        size = data.draw(st.integers(1, 30))
        out += stream.feed(whole[at : at + size])
        at += size
    out += stream.end()
    assert KEY.encode() not in out
    assert out.replace(MASK.encode(), b"").count(b"x\n") == whole.count(b"x\n")


def test_what_cannot_become_a_key_is_not_held_back() -> None:
    secrets.add(KEY)
    stream = MaskedStream()
    assert stream.feed(b"done.\n") == b"done.\n"
    assert stream.feed(b"yes") == b"ye"
    assert stream.feed(b"!") == b"s!"


def test_variables_with_keys_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONE_API_KEY", "TWO_API_KEY", "OTHER"):
        monkeypatch.setenv(name, KEY + name)
    secrets.hide_variables(["ONE_API_KEY", "TWO_API_KEY"])
    secrets.pass_variables(["TWO_API_KEY"])
    environment = secrets.tool_environment()
    assert "ONE_API_KEY" not in environment
    assert environment["TWO_API_KEY"] == KEY + "TWO_API_KEY"
    assert environment["OTHER"] == KEY + "OTHER"
    assert secrets.mask(KEY + "ONE_API_KEY") == MASK


PROGRAM = """
import os, subprocess, sys
from ostler.core import secrets
secrets.hide_variables(["SOME_API_KEY", "SHORT_API_KEY", "ABSENT_API_KEY"])
secrets.wipe_own_block([sys.argv[2]])
shown = subprocess.run(["cat", f"/proc/{os.getpid()}/environ", f"/proc/{os.getpid()}/cmdline"],
    capture_output=True, check=True, env={}).stdout
sys.stdout.buffer.write(shown)
assert os.environ["SOME_API_KEY"] == sys.argv[3][::-1] and os.environ["SHORT_API_KEY"] == "k"
assert sys.argv[2].startswith("sk-")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the environment of a process")
def test_the_environment_and_arguments_that_others_can_see_have_no_keys() -> None:
    argument = "sk-argument-0123456789"
    environment = {**os.environ, "SOME_API_KEY": KEY, "SHORT_API_KEY": "k", "OTHER": "stays"}
    command = [sys.executable, "-c", PROGRAM, "--api-key", argument, KEY[::-1]]
    shown = subprocess.run(command, capture_output=True, check=True, env=environment).stdout
    variables = shown.split(b"\0")
    assert KEY.encode() not in shown and argument.encode() not in shown
    assert b"SHORT_API_KEY=" in variables and b"OTHER=stays" in variables
