"""`ostler key`: keys are kept, listed, removed and tried, and never shown."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest

from ostler.models.credentials import fingerprint
from ostler.testkit.vendors import Refusal, turn
from tests.support.command import KEY, PATIENCE, Ostler, read_terminal
from tests.support.fixtures import Configure, Serve
from tests.support.paths import ROOT


@pytest.fixture
def keyring(tmp_path: Path) -> dict[str, str]:
    """The variables that give a command a keyring of its own."""
    return {
        "PYTHON_KEYRING_BACKEND": "tests.support.keyring_in_a_file.Keyring",
        "PYTHONPATH": str(ROOT),
        "KEYRING_FILE": str(tmp_path / "keyring.json"),
    }


def test_a_key_that_is_piped_in_is_kept_and_used(ostler: Ostler, serve: Serve, configure: Configure) -> None:
    kept = ostler("key", "set", "openai", piped=f" {KEY}\n".encode())
    file = ostler.home / "keys.json"
    assert (kept.code, kept.err) == (0, "")
    assert kept.out == f"stored the key for openai in {file}; `ostler key test openai` tests it\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    vendor = serve(turn("ok"), api_key=KEY)
    ran = ostler("-p", "--model", "openai/fake", "--base-url", vendor.chat_url, "hello")
    assert (ran.code, ran.out) == (0, "ok\n")
    file.chmod(0o644)
    refused = ostler("-p", "--model", "openai/fake", "--base-url", vendor.chat_url, "hello")
    assert (refused.code, refused.out) == (2, "")
    assert (
        refused.err == f"ostler: {file} has keys and others can read it: run `chmod 600 {quote(str(file))}`\n"
    )


def test_a_key_that_is_typed_is_not_echoed(ostler: Ostler) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "ostler", "key", "set", "anthropic"],
        env=ostler.environment({}),
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        start_new_session=True,  # the terminal of whoever runs the tests is not to be asked
    )
    os.close(theirs)
    try:
        assert process.stderr is not None
        asked = b""
        while not asked.endswith(b"(not echoed): "):
            piece = process.stderr.read(1)
            assert piece, asked
            asked += piece
        os.write(ours, f"{KEY}\n".encode())
        shown = read_terminal(ours).decode()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.stderr.close()
        os.close(ours)
    assert "stored the key" in shown and KEY not in shown
    assert json.loads((ostler.home / "keys.json").read_text()) == {"anthropic": KEY}


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", "openai", KEY),
        ("set", "openai", f"--key={KEY}"),
        ("set", "openai", "--key", KEY),
        ("set", KEY),
        (KEY,),
        ("test", KEY),
        ("remove", KEY),
        ("remove", "openai", KEY),
    ],
)
def test_a_key_as_an_argument_is_refused_and_not_repeated(ostler: Ostler, arguments: tuple[str, ...]) -> None:
    ran = ostler("key", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1 and KEY not in ran.err
    assert not (ostler.home / "keys.json").exists()


def test_an_argument_says_why_it_is_refused(ostler: Ostler) -> None:
    ran = ostler("key", "set", "openai", KEY)
    assert "other users and the shell's history can see" in ran.err and "pipe it in" in ran.err


@pytest.mark.parametrize("piped", [b"", b" \n", b"two words", b"a\x07b", "schlüssel".encode(), b"a\nb"])
def test_what_is_no_key_is_not_kept(ostler: Ostler, piped: bytes) -> None:
    ran = ostler("key", "set", "openai", piped=piped)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert not (ostler.home / "keys.json").exists()


def test_listing_shows_every_place_and_no_key(ostler: Ostler, configure: Configure) -> None:
    configure("[providers.groq]\nkey_command = 'exit 1'\n[providers.mistral]\napi_key = 'a-configured-key'")
    ostler("key", "set", "openai", piped=KEY.encode())
    listed = ostler("key", "list", "--json", OPENAI_API_KEY="another-key", GEMINI_API_KEY=KEY)
    rows = [(line["provider"], line["source"], line["fingerprint"], line["used"]) for line in listed.lines]
    assert rows == [
        ("openai", "environment", fingerprint("another-key"), True),
        ("openai", "file", fingerprint(KEY), False),
        ("google", "environment", fingerprint(KEY), True),
        ("groq", "command", "", True),
        ("mistral", "configuration", fingerprint("a-configured-key"), True),
    ]
    shown = ostler("key", OPENAI_API_KEY="another-key", GEMINI_API_KEY=KEY)
    assert len(shown.out.splitlines()) == 5 and "OPENAI_API_KEY" in shown.out
    for secret in (KEY, KEY[-4:], "another-key", "a-configured-key"):
        assert secret not in listed.out + shown.out + listed.err + shown.err


def test_a_key_that_is_meant_for_one_model_is_not_listed_for_all(
    ostler: Ostler, configure: Configure
) -> None:
    assert ostler("key", "list", "--json", OSTLER_API_KEY=KEY).lines == []
    (row,) = ostler("key", "list", "--json", OSTLER_API_KEY=KEY, OSTLER_MODEL="xai/x").lines
    assert (row["provider"], row["source"]) == ("xai", "named")


def test_without_keys_the_list_says_what_to_do(ostler: Ostler) -> None:
    ran = ostler("key", "list")
    assert (ran.code, ran.out) == (0, "") and "`ostler key set PROVIDER`" in ran.err


def test_removing_says_what_is_left(ostler: Ostler) -> None:
    ostler("key", "set", "openai", piped=KEY.encode())
    removed = ostler("key", "remove", "openai", OPENAI_API_KEY="other")
    assert (removed.code, removed.out) == (0, "deleted the key for openai\n")
    assert removed.err == "ostler: there is still a key from OPENAI_API_KEY\n"
    again = ostler("key", "remove", "openai")
    assert (again.code, again.out) == (2, "") and "no key is stored for openai" in again.err


def test_a_key_in_the_keyring_is_used_and_removed(
    ostler: Ostler, serve: Serve, keyring: dict[str, str]
) -> None:
    ostler("key", "set", "openai", piped=b"an-older-key")
    kept = ostler("key", "set", "openai", "--keyring", piped=KEY.encode(), **keyring)
    assert (kept.code, kept.err) == (0, "") and "in the keyring" in kept.out
    assert json.loads((ostler.home / "keys.json").read_text()) == {"openai": None}
    vendor = serve(turn("ok"), api_key=KEY)
    arguments = ("-p", "--model", "openai/fake", "--base-url", vendor.chat_url, "hello")
    assert ostler(*arguments, **keyring).out == "ok\n"
    (row,) = ostler("key", "list", "--json", **keyring).lines
    assert (row["source"], row["fingerprint"]) == ("keyring", "")
    assert ostler("key", "remove", "openai", **keyring).code == 0
    assert json.loads(Path(keyring["KEYRING_FILE"]).read_text()) == {}
    assert ostler("key", "list", "--json", **keyring).lines == []


def test_setting_a_key_in_the_file_takes_it_out_of_the_keyring(
    ostler: Ostler, keyring: dict[str, str]
) -> None:
    ostler("key", "set", "openai", "--keyring", piped=b"an-older-key", **keyring)
    assert ostler("key", "set", "openai", piped=KEY.encode(), **keyring).code == 0
    assert json.loads(Path(keyring["KEYRING_FILE"]).read_text()) == {}
    (row,) = ostler("key", "list", "--json", **keyring).lines
    assert row["source"] == "file"


def test_a_machine_without_a_keyring_says_so(ostler: Ostler) -> None:
    ran = ostler(
        "key",
        "set",
        "openai",
        "--keyring",
        piped=KEY.encode(),
        PYTHON_KEYRING_BACKEND="keyring.backends.fail.Keyring",
    )
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "ostler: the keyring did not take the key (NoKeyringError): fix that, or leave out --keyring\n"
    )


def test_trying_a_key_asks_the_vendor(ostler: Ostler, serve: Serve, configure: Configure) -> None:
    vendor = serve(turn("OK"), turn("OK"), Refusal(401, f"Incorrect API key provided: {KEY}"), api_key=KEY)
    arguments = ("key", "test", "openai", "--model", "fake", "--base-url", vendor.chat_url)
    good = ostler(*arguments, OPENAI_API_KEY=KEY)
    assert (good.code, good.out, good.err) == (0, "openai/fake answers: the key works\n", "")
    configure("model = 'openai/mine'\n" + f"base_url = '{vendor.chat_url}'")
    assert ostler("key", "test", OPENAI_API_KEY=KEY).out == "openai/mine answers: the key works\n"
    bad = ostler(*arguments, OPENAI_API_KEY=KEY)
    assert (bad.code, bad.out) == (1, "")
    assert bad.err.count("\n") == 1 and "401" in bad.err and "check the API key" in bad.err
    assert KEY not in bad.err
    wrong = ostler(*arguments, OPENAI_API_KEY="a-wrong-key")
    assert wrong.code == 1 and "check the API key" in wrong.err and "a-wrong-key" not in wrong.err


def test_trying_a_key_of_an_anthropic_like_server(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("OK"), api_key=KEY)
    ran = ostler("key", "test", "anthropic", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=vendor.anthropic_url)
    assert (ran.code, ran.err) == (0, "")
    assert vendor.requests[0].json["max_tokens"] == 16


def test_a_key_is_not_tried_at_the_address_of_another_provider(
    ostler: Ostler, serve: Serve, configure: Configure
) -> None:
    vendor = serve(turn("OK"))
    other = serve(turn("OK"))
    configure(f"model = 'openai/mine'\nbase_url = '{other.chat_url}'", groq=vendor.chat_url)
    ran = ostler("key", "test", GROQ_API_KEY=KEY)
    assert ran.code == 0 and ran.out.startswith("groq/")
    assert other.requests == [] and len(vendor.requests) == 1


def test_trying_without_a_key_says_what_to_do(ostler: Ostler, configure: Configure) -> None:
    ran = ostler("key", "test")
    assert (ran.code, ran.out) == (3, "") and "`ostler key set PROVIDER`" in ran.err
    ran = ostler("key", "test", "openai")
    assert (ran.code, ran.out) == (3, "") and "openai needs a key" in ran.err
    ran = ostler("key", "test", "--model", "x", OPENAI_API_KEY=KEY)
    assert ran.code == 2 and "need a PROVIDER" in ran.err
    ran = ostler("key", "test", "ollama")
    assert ran.code == 2 and "--model ID" in ran.err


def test_a_server_that_is_not_there_is_no_verdict_on_the_key(ostler: Ostler, configure: Configure) -> None:
    ran = ostler("key", "test", "ollama", "--model", "m")
    assert (ran.code, ran.out) == (1, "") and "is the server running?" in ran.err
