"""Where a provider's key comes from. A key is never part of an error, an event or an output."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ostler.models.hiding import hide
from ostler.models.provider_table import Provider
from ostler.vocabulary.errors import ConfigurationError

KEY_COMMAND_SECONDS = 30.0

Source = Literal["named", "environment", "configuration", "command", "file", "keyring"]

_handed_out: set[str] = set()


class Key(msgspec.Struct, frozen=True):
    """A key, or a place that has one: the value is empty where somebody has to be asked for it."""

    value: str
    source: Source
    where: str

    def __repr__(self) -> str:
        return f"Key(from {self.where})"


class KeySearch(msgspec.Struct, frozen=True):
    """Where to look for a provider's key: in the order of the fields, and in the keyring last of all."""

    named: str = ""
    """`--api-key`, `OSTLER_API_KEY` or `api_key`: a key for the model that is named beside it."""
    environment: Mapping[str, str] = {}
    """Only the variables of the provider count."""
    configured: str = ""
    """`api_key` of `[providers.NAME]`."""
    command: str = ""
    file: Path | None = None

    def __repr__(self) -> str:
        return "KeySearch(…)"


def places_of_key(provider: Provider, search: KeySearch) -> Iterator[Key]:
    """Every place that has a key for the provider, the one that is used first. Nothing is run for it."""
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
    from ostler.models.key_file import read_key_file

    stored = read_key_file(search.file)
    if provider.name in stored:
        kept = stored[provider.name]
        yield Key("", "keyring", "the keyring") if kept is None else Key(kept, "file", str(search.file))


def find_key(provider: Provider, search: KeySearch) -> Key | None:
    """The provider's key. The command is run and the keyring asked only when nothing before had one."""
    for place in places_of_key(provider, search):
        value = (place.value or _asked_for(place, provider, search)).strip()
        if value:
            return _noted(Key(value, place.source, place.where))
    # A person may have put it into the keyring without telling us; a local server needs none.
    if search.file is not None and provider.key_variables:
        from ostler.models.system_keyring import key_in_keyring

        if value := key_in_keyring(provider.name).strip():
            return _noted(Key(value, "keyring", "the keyring"))
    return None


def is_sendable(key: str) -> bool:
    """Whether it may be a key: no vendor's has a blank in it, or anything that a header does not carry."""
    return key.isascii() and key.isprintable() and " " not in key


def fingerprint(value: str) -> str:
    """Tells keys apart without showing any part of them."""
    from hashlib import sha256

    return sha256(value.encode()).hexdigest()[:8]


def without_keys(text: str, known: Iterable[str] = ()) -> str:
    """The text without these keys, those that were found, and those that a variable holds by its name."""
    named = {value for name, value in os.environ.items() if name.endswith("_API_KEY")}
    return hide(text, (*known, *named, *_handed_out))


def _noted(key: Key) -> Key:
    _handed_out.add(key.value)
    return key


def _asked_for(place: Key, provider: Provider, search: KeySearch) -> str:
    if place.source == "command":
        return _key_from_command(search.command)
    from ostler.models.system_keyring import key_in_keyring

    return key_in_keyring(provider.name)


def _key_from_command(command: str) -> str:
    import subprocess

    from ostler.kernel.processes import kill_processes_of, process_environment
    from ostler.vocabulary.ids import new_id

    mark = new_id("key")
    try:
        done = subprocess.run(
            command,
            shell=True,
            env={**os.environ, **process_environment(mark, "key_command")},
            capture_output=True,
            timeout=KEY_COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        # By its mark, not as a group of its own: that could not ask for a password on the terminal.
        kill_processes_of(mark)
        raise ConfigurationError(f"key_command gave no key within {KEY_COMMAND_SECONDS:g} s") from None
    key = done.stdout.decode(errors="replace").strip()
    if done.returncode != 0 or not key:
        raise ConfigurationError(
            f"key_command failed (exit code {done.returncode}): run it by hand to see why"
        )
    return key
