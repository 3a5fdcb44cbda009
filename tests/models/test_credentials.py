"""Where keys are searched, in which order, and how they are redacted."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from shlex import quote

import pytest

from ostler.core import secrets
from ostler.core.processes import SESSION_VARIABLE
from ostler.core.secrets import MASK
from ostler.models import credentials
from ostler.models.credentials import (
    Key,
    KeySearch,
    find_key,
    fingerprint,
    forget_key,
    places_of_key,
    read_key_file,
    redact_keys,
    store_key,
    write_privately,
)
from ostler.models.providers import PROVIDERS
from ostler.schema.errors import ConfigurationError
from tests.support.command import wait_until

OPENAI = PROVIDERS["openai"]
GOOGLE = PROVIDERS["google"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "keys.json"


@pytest.fixture(autouse=True)
def keyring_of_test(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A keyring of our own, so that the machine's is not used."""
    kept: dict[str, str] = {}
    monkeypatch.setattr("keyring.get_password", lambda service, name: kept.get(f"{service} {name}"))
    return kept


def value_of(search: KeySearch) -> tuple[str, str]:
    key = find_key(OPENAI, search)
    assert key is not None
    return key.value, key.source


def test_each_place_of_a_key_precedes_the_next(file: Path, keyring_of_test: dict[str, str]) -> None:
    keyring_of_test["ostler openai"] = "in-keyring"
    assert value_of(KeySearch(file=file)) == ("in-keyring", "keyring")
    store_key(file, "openai", "in-file")
    assert value_of(KeySearch(file=file)) == ("in-file", "file")
    assert value_of(KeySearch(file=file, command="echo printed")) == ("printed", "command")
    both = KeySearch(file=file, command="exit 1", configured="in-config")
    assert value_of(both) == ("in-config", "configuration")
    variables = {"OPENAI_API_KEY": " in-variable\n", "ANTHROPIC_API_KEY": "other"}
    environment = KeySearch(file=file, command="exit 1", configured="c", environment=variables)
    assert value_of(environment) == ("in-variable", "environment")
    everything = KeySearch(file=file, command="exit 1", environment=variables, named="named")
    assert value_of(everything) == ("named", "named")
    assert [key.source for key in places_of_key(OPENAI, everything)] == [
        "named",
        "environment",
        "command",
        "file",
    ]


def test_the_second_variable_counts_when_the_first_is_empty() -> None:
    search = KeySearch(environment={"GEMINI_API_KEY": " ", "GOOGLE_API_KEY": "second"})
    key = find_key(GOOGLE, search)
    assert key is not None and (key.value, key.where) == ("second", "GOOGLE_API_KEY")


def test_without_any_there_is_none(file: Path) -> None:
    assert find_key(OPENAI, KeySearch(file=file, environment={"ANTHROPIC_API_KEY": "other"})) is None
    assert find_key(OPENAI, KeySearch()) is None


def test_a_server_without_keys_does_not_query_the_keyring(
    file: Path, monkeypatch: pytest.MonkeyPatch, keyring_of_test: dict[str, str]
) -> None:
    keyring_of_test["ostler ollama"] = "asked"
    assert find_key(PROVIDERS["ollama"], KeySearch(file=file)) is None
    store_key(file, "ollama", None)
    key = find_key(PROVIDERS["ollama"], KeySearch(file=file))
    assert key is not None and key.value == "asked"


def test_a_key_does_not_show_itself() -> None:
    key = Key("sk-canary-1234", "file", "keys.json")
    search = KeySearch(named="sk-canary-1234", configured="sk-canary-1234")
    assert "canary" not in f"{key!r} {key} {search!r} {search}"


def test_a_fingerprint_identifies_a_key_without_revealing_it() -> None:
    one, other = fingerprint("sk-canary-1234"), fingerprint("sk-canary-1235")
    assert one != other and len(one) == 8
    assert one == fingerprint("sk-canary-1234")


def test_used_keys_are_redacted_from_any_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_known", ())
    monkeypatch.setenv("GROQ_API_KEY", "gsk-canary-01")
    find_key(OPENAI, KeySearch(configured="sk-canary-01"))
    text = "sk-canary-01-long, sk-canary-01, gsk-canary-01"
    assert redact_keys(text, ["sk-canary-01-long", ""]) == f"{MASK}, {MASK}, {MASK}"


def test_the_file_is_private_from_its_first_moment(file: Path) -> None:
    previous = os.umask(0)
    try:
        store_key(file, "openai", "one")
        store_key(file, "groq", "two")
    finally:
        os.umask(previous)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert read_key_file(file) == {"openai": "one", "groq": "two"}
    assert [one.name for one in file.parent.iterdir()] == ["keys.json"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_file_that_is_open_to_others_is_refused_with_what_to_do(file: Path, mode: int) -> None:
    store_key(file, "openai", "sk-canary")
    file.chmod(mode)
    with pytest.raises(ConfigurationError) as refused:
        find_key(OPENAI, KeySearch(file=file))
    assert f"chmod 600 {quote(str(file))}" in refused.value.message and "canary" not in refused.value.message
    with pytest.raises(ConfigurationError, match="chmod 600"):
        store_key(file, "groq", "two")


def test_a_file_that_is_not_needed_is_not_read(file: Path) -> None:
    store_key(file, "openai", "in-file")
    file.chmod(0o644)
    assert value_of(KeySearch(file=file, environment={"OPENAI_API_KEY": "here"})) == ("here", "environment")


def test_a_damaged_key_file_is_reported_without_its_content(file: Path) -> None:
    write_privately(file, b'{"openai": 7, "sk-canary')
    with pytest.raises(ConfigurationError, match="is damaged: remove it") as damaged:
        read_key_file(file)
    assert "canary" not in damaged.value.message
    file.unlink()
    file.mkdir()
    with pytest.raises(ConfigurationError, match="cannot be read: "):
        read_key_file(file)


def test_a_failed_write_leaves_no_temporary_file(file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="cannot be written"):
        write_privately(file, b"sk-canary")
    assert [one.name for one in file.parent.iterdir()] == ["keys.json"]


def test_forgetting_a_key_keeps_the_others(file: Path) -> None:
    store_key(file, "openai", "one")
    store_key(file, "groq", None)
    forget_key(file, "openai")
    forget_key(file, "openai")
    assert read_key_file(file) == {"groq": None}
    forget_key(file, "groq")
    assert read_key_file(file) == {}


def test_a_key_command_that_times_out_is_killed_with_its_children(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(credentials, "KEY_COMMAND_SECONDS", 1.0)
    note = tmp_path / "pid"
    with pytest.raises(ConfigurationError, match="no key within 1 s"):
        find_key(OPENAI, KeySearch(command=f"sleep 300 & echo $! > {quote(str(note))}; wait"))
    wait_until(lambda: not has_mark(int(note.read_text())))


def has_mark(pid: int) -> bool:
    try:
        return f"{SESSION_VARIABLE}=key_".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize("command", ["echo sk-canary; exit 3", "echo sk-canary >&2", "true"])
def test_a_failed_key_command_is_reported_without_its_output(command: str) -> None:
    with pytest.raises(ConfigurationError) as failed:
        find_key(OPENAI, KeySearch(command=command))
    assert "run it by hand" in failed.value.message and "canary" not in failed.value.message


def test_a_keyring_that_never_answers_is_not_waited_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    over = threading.Event()
    monkeypatch.setattr(credentials, "KEYRING_SECONDS", 0.05)
    monkeypatch.setattr("keyring.get_password", lambda *_: over.wait(30))
    begun = time.monotonic()
    assert find_key(OPENAI, KeySearch(file=file)) is None
    assert time.monotonic() - begun < 10
    over.set()


def test_a_failing_keyring_returns_no_key_and_stores_none(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*told: str) -> None:
        raise RuntimeError(f"no bus for {told}")

    monkeypatch.setattr("keyring.get_password", fail)
    monkeypatch.setattr("keyring.set_password", fail)
    assert find_key(OPENAI, KeySearch(file=file)) is None
    with pytest.raises(ConfigurationError) as failed:
        credentials.put_into_keyring("openai", "sk-canary")
    assert "leave out --keyring" in failed.value.message and "canary" not in failed.value.message


def test_without_the_extra_there_is_no_keyring(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "has_keyring", lambda: False)
    assert find_key(OPENAI, KeySearch(file=file)) is None
    with pytest.raises(ConfigurationError, match=r"install `ostler\[keyring\]`"):
        credentials.put_into_keyring("openai", "k")


def test_a_key_in_the_environment_loads_nothing_to_look_for_others() -> None:
    program = (
        "import sys; from ostler.models.credentials import *; from ostler.models.providers import PROVIDERS;"
        "from pathlib import Path;"
        "find_key(PROVIDERS['openai'], KeySearch(environment={'OPENAI_API_KEY': 'k'}, file=Path('x')));"
        "print(sorted({'keyring', 'tomllib', 'ostler.models.endpoint'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
