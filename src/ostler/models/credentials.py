"""Finds API keys (option, environment, command, file, keyring), and checks them.

No error, event or output contains a key.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from ostler.core import secrets
from ostler.core.lazy import lazy_module
from ostler.core.model import Model, ModelDone, ModelFailure, ModelRequest
from ostler.core.processes import kill_processes_of, process_environment
from ostler.core.transcript import Transcript
from ostler.models.providers import Provider
from ostler.schema.errors import ConfigurationError, Failure, how_to_install
from ostler.schema.ids import new_id
from ostler.schema.messages import user

if TYPE_CHECKING:
    from ostler.core import files
else:
    files = lazy_module("ostler.core.files")

KEY_COMMAND_SECONDS = 30.0
Source = Literal["named", "environment", "configuration", "command", "file", "keyring"]


class Key(msgspec.Struct, frozen=True):
    """A key, or a place that has one: the value is empty if a command or the keyring has it."""

    value: str
    source: Source
    where: str

    def __repr__(self) -> str:
        return f"Key(from {self.where})"


class KeySearch(msgspec.Struct, frozen=True):
    """Where to look for a provider's key: in the order of the fields, then in the keyring."""

    named: str = ""
    """`--api-key`, `OSTLER_API_KEY` or `api_key`: a key for the model that is set with it."""
    environment: Mapping[str, str] = {}
    """Only the provider's variables are read."""
    configured: str = ""
    """`api_key` of `[providers.NAME]`."""
    command: str = ""
    file: Path | None = None

    def __repr__(self) -> str:
        return "KeySearch(…)"


def places_of_key(provider: Provider, search: KeySearch) -> Iterator[Key]:
    """Every place that has a key for the provider, in order of precedence, without running any command."""
    if search.named:
        yield Key(search.named, "named", "--api-key, OSTLER_API_KEY or api_key")
    for variable in provider.key_variables:
        if value := search.environment.get(variable, "").strip():
            yield Key(value, "environment", variable)
    if search.configured:
        yield Key(search.configured, "configuration", f"providers.{provider.name}.api_key")
    if search.command:
        yield Key("", "command", "key_command")
    if search.file is None:
        return

    stored = read_key_file(search.file)
    if provider.name in stored:
        key = stored[provider.name]
        yield Key("", "keyring", "the keyring") if key is None else Key(key, "file", str(search.file))


def find_key(provider: Provider, search: KeySearch) -> Key | None:
    """The provider's key. The command and the keyring are used only if no place before them has one."""
    key = _find_key(provider, search)
    if key is not None:
        secrets.add(key.value)
    return key


def _find_key(provider: Provider, search: KeySearch) -> Key | None:
    for place in places_of_key(provider, search):
        value = place.value
        if place.source == "command":
            value = _key_from_command(search.command)
        elif not value:
            value = key_in_keyring(provider.name)
        if value.strip():
            return Key(value.strip(), place.source, place.where)
    # A person may have put it into the keyring without `ostler key`; a local server needs none.
    is_searched = search.file is not None and provider.key_variables
    if is_searched and (value := key_in_keyring(provider.name).strip()):
        return Key(value, "keyring", "the keyring")
    return None


def is_sendable(key: str) -> bool:
    """Whether a header can carry the key; no vendor's key contains a blank."""
    return key.isascii() and key.isprintable() and " " not in key


def fingerprint(value: str) -> str:
    """Identifies a key without showing any part of it."""
    from hashlib import sha256

    return sha256(value.encode()).hexdigest()[:8]


def redact_keys(text: str, known: Iterable[str] = ()) -> str:
    """The text without these keys, all keys that were used, and those in variables `…_API_KEY`."""
    named = {value for name, value in os.environ.items() if name.endswith("_API_KEY")}
    return secrets.redact(text, (*known, *named, *secrets.known()))


def learn_keys(search: KeySearch, variables: Iterable[str], configured: Iterable[str]) -> None:
    """Makes all keys known that can be found without running anything, so that they are masked, and hides
    their variables from the processes of tools."""
    secrets.hide_variables(variables, search.environment)
    secrets.add(search.named, *configured)
    if search.file is not None:
        with suppress(ConfigurationError):  # whoever needs a key from there reports it
            secrets.add(*filter(None, read_key_file(search.file).values()))


def _key_from_command(command: str) -> str:
    import subprocess

    mark = new_id("key")
    try:
        result = subprocess.run(
            command,
            shell=True,
            env={**os.environ, **process_environment(mark, "key_command")},
            capture_output=True,
            timeout=KEY_COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        # It has no process group of its own, because that could not prompt for a password on the terminal.
        kill_processes_of(mark)
        raise ConfigurationError(f"key_command printed no key within {KEY_COMMAND_SECONDS:g} s") from None
    key = result.stdout.decode(errors="replace").strip()
    if result.returncode != 0 or not key:
        problem = f"key_command failed (exit code {result.returncode}): run it by hand to see why"
        raise ConfigurationError(problem)
    return key


Keys = dict[str, str | None]
"""By provider. `None`: the key itself is in the keyring."""


def read_key_file(path: Path) -> Keys:
    """The stored keys; empty without a file. Raises for a file that others can read."""
    try:
        with path.open("rb") as file:
            is_open_to_others = os.fstat(file.fileno()).st_mode & 0o077
            content = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    if is_open_to_others:
        from shlex import quote

        raise ConfigurationError(
            f"{path} has keys and others can read it: run `chmod 600 {quote(str(path))}`"
        )
    try:
        return msgspec.json.decode(content, type=Keys)
    except msgspec.DecodeError:
        raise ConfigurationError(f"{path} is damaged: remove it, and set your keys again") from None


def store_key(path: Path, provider: str, key: str | None) -> None:
    """Stores the key; `None` if the keyring has it."""
    write_privately(path, msgspec.json.encode(read_key_file(path) | {provider: key}))


def forget_key(path: Path, provider: str) -> None:
    stored = read_key_file(path)
    if stored.pop(provider, "") != "":
        write_privately(path, msgspec.json.encode(stored))


def write_privately(path: Path, content: bytes) -> None:
    """Writes a file that only its owner can read. Raises `ConfigurationError`."""
    try:
        files.write_atomically(path, content, private=True)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None


SERVICE = "ostler"
"""The service name of our keys in a keyring; the user name is the provider."""

KEYRING_SECONDS = 10.0
"""A keyring may wait to be unlocked on a screen that nobody sees."""


def has_keyring() -> bool:
    from importlib.util import find_spec

    return find_spec("keyring") is not None


def key_in_keyring(provider: str) -> str:
    """The key; empty if the keyring is missing, locked or broken."""
    if not has_keyring():
        return ""
    from keyring import get_password

    try:
        return _with_timeout(lambda: get_password(SERVICE, provider)) or ""
    except _KeyringFailed:
        return ""


def put_into_keyring(provider: str, key: str) -> None:
    if not has_keyring():
        raise ConfigurationError(f"there is no keyring: {how_to_install('keyring')}, or leave out --keyring")
    from keyring import set_password

    try:
        _with_timeout(lambda: set_password(SERVICE, provider, key))
    except _KeyringFailed as error:
        problem = f"the keyring did not take the key ({error}): fix that, or leave out --keyring"
        raise ConfigurationError(problem) from None


def remove_from_keyring(provider: str) -> None:
    """Removes the key, if there is one."""
    if not has_keyring():
        return
    from keyring import delete_password
    from keyring.errors import PasswordDeleteError

    def delete() -> None:
        with suppress(PasswordDeleteError):
            delete_password(SERVICE, provider)

    try:
        _with_timeout(delete)
    except _KeyringFailed as error:
        raise ConfigurationError(f"the keyring did not remove the key ({error})") from None


class _KeyringFailed(Exception):
    """Contains no text of the keyring, which could include the key."""


def _with_timeout(work: Callable[[], str | None]) -> str | None:
    outcome: list[str | Exception | None] = []

    def run() -> None:
        try:
            outcome.append(work())
        except Exception as error:  # each system's keyring has its own errors
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(KEYRING_SECONDS)
    if not outcome:
        raise _KeyringFailed(f"no answer within {KEYRING_SECONDS:g} s")
    if isinstance(outcome[0], Exception):
        raise _KeyringFailed(type(outcome[0]).__name__)
    return outcome[0]


CHECK_SECONDS = 30.0

_FEWEST_TOKENS = 16
"""Some vendors refuse a smaller limit."""


async def check_key(model: Model) -> Failure | None:
    """Why the vendor does not answer with this key; None if it does."""
    transcript = Transcript([user("Say OK.")])
    request = ModelRequest(new_id("msg"), model.name, transcript, max_output_tokens=_FEWEST_TOKENS)
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            async for batch in model.stream(request):
                for event in batch:
                    if isinstance(event, ModelFailure):
                        return event.failure
                    if isinstance(event, ModelDone):
                        return None
    except TimeoutError:
        pass
    finally:
        await model.aclose()
    return Failure("stream_silent", f"no answer from {model.name} within {CHECK_SECONDS:g} s; try again")
