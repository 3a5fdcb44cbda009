"""A keyring in the file $KEYRING_FILE, selected by PYTHON_KEYRING_BACKEND."""

from __future__ import annotations

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError


class Keyring(KeyringBackend):
    priority = 1  # type: ignore[assignment]

    def get_password(self, service: str, username: str) -> str | None:
        return self._read().get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._write(self._read() | {f"{service} {username}": password})

    def delete_password(self, service: str, username: str) -> None:
        keys = self._read()
        if keys.pop(f"{service} {username}", None) is None:
            raise PasswordDeleteError("no such password")
        self._write(keys)

    def _read(self) -> dict[str, str]:
        file = Path(os.environ["KEYRING_FILE"])
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def _write(self, keys: dict[str, str]) -> None:
        Path(os.environ["KEYRING_FILE"]).write_text(json.dumps(keys), encoding="utf-8")
