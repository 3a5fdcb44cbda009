"""Where API keys come from (option, environment, command, file, keyring), checking one, and redacting them.

A key is never part of an error, an event or an output.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

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

HIDDEN = "[hidden]"

SHORTEST_SECRET = 8
"""No vendor's key is shorter; to hide less would tear words apart."""


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, the longest first: one may be a part of another."""
    for secret in sorted({secret.strip() for secret in secrets}, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, HIDDEN)
    return text


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

    stored = read_key_file(search.file)
    if provider.name in stored:
        key = stored[provider.name]
        yield Key("", "keyring", "the keyring") if key is None else Key(key, "file", str(search.file))


def find_key(provider: Provider, search: KeySearch) -> Key | None:
    """The provider's key. The command is run and the keyring asked only when nothing before had one."""
    for place in places_of_key(provider, search):
        value = (place.value or _asked_for(place, provider, search)).strip()
        if value:
            return _noted(Key(value, place.source, place.where))
    # A person may have put it into the keyring without telling us; a local server needs none.
    is_searched = search.file is not None and provider.key_variables
    if is_searched and (value := key_in_keyring(provider.name).strip()):
        return _noted(Key(value, "keyring", "the keyring"))
    return None


def is_sendable(key: str) -> bool:
    """Whether it may be a key: no vendor's has a blank in it, or anything that a header does not carry."""
    return key.isascii() and key.isprintable() and " " not in key


def fingerprint(value: str) -> str:
    """Tells keys apart without showing any part of them."""
    from hashlib import sha256

    return sha256(value.encode()).hexdigest()[:8]


def redact_keys(text: str, known: Iterable[str] = ()) -> str:
    """The text without these keys, those that were found, and those that a variable holds by its name."""
    named = {value for name, value in os.environ.items() if name.endswith("_API_KEY")}
    return redact(text, (*known, *named, *_handed_out))


def _noted(key: Key) -> Key:
    _handed_out.add(key.value)
    return key


def _asked_for(place: Key, provider: Provider, search: KeySearch) -> str:
    if place.source == "command":
        return _key_from_command(search.command)

    return key_in_keyring(provider.name)


def _key_from_command(command: str) -> str:
    import subprocess

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


Keys = dict[str, str | None]
"""By provider. `None`: the key itself is in the keyring."""


def read_key_file(path: Path) -> Keys:
    """What is stored; nothing when there is no file. One that others can read is refused."""
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
            f"{path} holds keys and is open to others: say `chmod 600 {quote(str(path))}`"
        )
    try:
        return msgspec.json.decode(content, type=Keys)
    except msgspec.DecodeError:
        raise ConfigurationError(f"{path} is damaged: remove it, and set your keys again") from None


def store_key(path: Path, provider: str, key: str | None) -> None:
    """Keeps the key; `None` says that the keyring has it."""
    write_privately(path, msgspec.json.encode(read_key_file(path) | {provider: key}))


def forget_key(path: Path, provider: str) -> None:
    stored = read_key_file(path)
    if stored.pop(provider, "") != "":
        write_privately(path, msgspec.json.encode(stored))


def write_privately(path: Path, content: bytes) -> None:
    """Replaces a file that only its owner can read. Raises `ConfigurationError`."""
    try:
        files.write_atomically(path, content, private=True)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None


SERVICE = "ostler"
"""Under this name, with the provider as the user, a keyring has our keys."""

KEYRING_SECONDS = 10.0
"""A keyring may ask its owner to be unlocked, on a screen that nobody looks at."""


def has_keyring() -> bool:
    return find_spec("keyring") is not None


def key_in_keyring(provider: str) -> str:
    """The key, or nothing: a keyring that is missing, locked or broken has none for us."""
    if not has_keyring():
        return ""
    from keyring import get_password

    try:
        return _bounded(lambda: get_password(SERVICE, provider)) or ""
    except _Failed:
        return ""


def put_into_keyring(provider: str, key: str) -> None:
    if not has_keyring():
        raise ConfigurationError(
            f"there is no keyring here: {how_to_install('keyring')}, or leave out --keyring"
        )
    from keyring import set_password

    try:
        _bounded(lambda: set_password(SERVICE, provider, key))
    except _Failed as failed:
        raise ConfigurationError(
            f"the keyring did not take the key ({failed}): mend that, or leave out --keyring"
        ) from None


def remove_from_keyring(provider: str) -> None:
    """Without a word when it had none."""
    if not has_keyring():
        return
    from keyring import delete_password
    from keyring.errors import PasswordDeleteError

    def delete() -> None:
        try:
            delete_password(SERVICE, provider)
        except PasswordDeleteError:
            return

    try:
        _bounded(delete)
    except _Failed as failed:
        raise ConfigurationError(f"the keyring did not remove the key ({failed})") from None


class _Failed(Exception):
    """In words without anything that the keyring said: it was told a key."""


def _bounded(work: Callable[[], str | None]) -> str | None:
    outcome: list[str | Exception | None] = []

    def run() -> None:
        try:
            outcome.append(work())
        except Exception as error:  # every system's keyring has errors of its own
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(KEYRING_SECONDS)
    if not outcome:
        raise _Failed(f"no answer within {KEYRING_SECONDS:g} s")
    if isinstance(outcome[0], Exception):
        raise _Failed(type(outcome[0]).__name__)
    return outcome[0]


CHECK_SECONDS = 30.0

_FEWEST_TOKENS = 16
"""Less is refused by some vendors."""


async def check_key(model: Model) -> Failure | None:
    """Why the vendor does not answer with this key; `None` when it does."""
    request = ModelRequest(
        id=new_id("msg"),
        model=model.name,
        transcript=Transcript([user("Say OK.")]),
        max_output_tokens=_FEWEST_TOKENS,
    )
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
