"""Where a provider's key comes from. A key is never part of an error, an event or an output."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Literal

import msgspec

from ostler.models.provider_table import Provider
from ostler.models.providers import key_in
from ostler.vocabulary.errors import ConfigurationError

KEY_COMMAND_SECONDS = 30.0

Source = Literal["configuration", "environment", "command"]


class Key(msgspec.Struct, frozen=True):
    value: str
    source: Source

    def __repr__(self) -> str:
        return f"Key(from the {self.source})"


def find_key(
    provider: Provider, *, api_key: str, key_command: str, environment: Mapping[str, str]
) -> Key | None:
    """The provider's key: what was named, else the environment's, else what the command prints."""
    if api_key:
        return Key(api_key, "configuration")
    if value := key_in(environment, provider):
        return Key(value, "environment")
    if key_command:
        return Key(_key_from_command(key_command), "command")
    return None


def _key_from_command(command: str) -> str:
    try:
        done = subprocess.run(
            command, shell=True, capture_output=True, text=True, timeout=KEY_COMMAND_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"key_command gave no key within {KEY_COMMAND_SECONDS:g} s") from None
    if done.returncode != 0 or not done.stdout.strip():
        raise ConfigurationError(
            f"key_command failed (exit code {done.returncode}): run it by hand to see why"
        )
    return done.stdout.strip()
