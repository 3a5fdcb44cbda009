"""Trusted certificates that are loaded ahead, in a thread."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ostler.models.transport import preload_ssl_context, ssl_context
from ostler.schema.errors import ConnectionFailed


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)


def test_a_preloaded_context_is_used_once() -> None:
    preload_ssl_context()
    first, second = ssl_context(), ssl_context()
    assert first is not second, "each client configures its own"
    assert first.verify_mode == second.verify_mode
    assert first.cert_store_stats() == second.cert_store_stats()


def test_an_unusable_file_is_reported_when_the_context_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    preload_ssl_context()
    with pytest.raises(ConnectionFailed, match=r"missing\.pem cannot be used"):
        ssl_context()


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has its own store of certificates")
def test_any_error_in_the_thread_is_raised_where_the_context_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\ndamaged\n-----END CERTIFICATE-----\n")
    paths = SimpleNamespace(openssl_cafile=str(bundle), openssl_capath=str(tmp_path / "none"))
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    preload_ssl_context()
    with pytest.raises(ssl.SSLError):
        ssl_context()


def test_a_context_that_was_preloaded_for_other_variables_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    preload_ssl_context()
    monkeypatch.delenv("SSL_CERT_FILE")
    assert ssl_context().check_hostname
