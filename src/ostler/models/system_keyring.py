"""Keys in the system's keyring: an extra, asked in a thread that nobody waits for beyond a bound."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib.util import find_spec

from ostler.vocabulary.errors import ConfigurationError
from ostler.vocabulary.extras import how_to_install

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
