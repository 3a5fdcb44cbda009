"""The file of keys that `ostler key set` writes: only its owner can read it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ostler.vocabulary.errors import ConfigurationError
from ostler.vocabulary.ids import new_id

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
    """Replaces the file in one step. Nobody else can read it, at no moment."""
    beside = path.with_name(f".{new_id('tmp')}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
