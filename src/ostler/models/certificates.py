"""Whose certificates are trusted."""

from __future__ import annotations

import os
import re
import ssl
import sys
from pathlib import Path

from ostler.vocabulary.errors import ConnectionFailed

# Where distributions keep their bundle; a Python that was built elsewhere does not look there.
_BUNDLES = (
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
)
_HASHED = re.compile(r"[0-9a-f]{8}\.\d+")


def trusting_context() -> ssl.SSLContext:
    """Trusts what SSL_CERT_FILE and SSL_CERT_DIR name, or else what the system trusts."""
    file, directory = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if not file and not directory:
        return _trusting_as_the_system()
    try:
        return ssl.create_default_context(cafile=file or None, capath=directory or None)
    except OSError as error:
        reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConnectionFailed(
            f"SSL_CERT_FILE={file} cannot be used: {reason}; correct or unset it"
        ) from error


def _trusting_as_the_system() -> ssl.SSLContext:
    if sys.platform == "darwin":
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    paths = ssl.get_default_verify_paths()
    file = paths.openssl_cafile if Path(paths.openssl_cafile).is_file() else None
    directory = paths.openssl_capath if _is_hashed(Path(paths.openssl_capath)) else None
    if file is None and directory is None:
        file = next((path for path in _BUNDLES if Path(path).is_file()), None)
    if file is not None or directory is not None:
        context.load_verify_locations(file, directory)
    return context


def _is_hashed(directory: Path) -> bool:
    """Whether OpenSSL finds authorities in it, one file for each, when it needs them."""
    return directory.is_dir() and any(_HASHED.fullmatch(path.name) for path in directory.iterdir())
