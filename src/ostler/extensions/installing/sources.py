"""What `ostler ext install` is given: an address of a git repository, a path, or a name on PyPI."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from ostler.extensions.installing.manifest import Kind
from ostler.vocabulary.errors import UsageError

_REF = re.compile(r"[0-9A-Za-z_][\w.+-]*", re.ASCII)
_NAME = re.compile(r"[0-9A-Za-z][\w.-]*", re.ASCII)
_REQUIREMENT = re.compile(
    r"([0-9A-Za-z](?:[\w.-]*[0-9A-Za-z])?)(?:\s*==\s*([0-9A-Za-z][0-9A-Za-z.!+_-]*))?", re.ASCII
)
_SCHEME = re.compile(r"([A-Za-z][\w+.-]*)://", re.ASCII)
_SCP = re.compile(r"([0-9A-Za-z_][\w.-]*@[^/:@]+):([^:].*)", re.ASCII)
_HOST = re.compile(r"[0-9A-Za-z_](?:[\w.-]*[0-9A-Za-z_])?", re.ASCII)
_REACHED = ("https", "ssh", "file")
"""Nobody on the way can change what these bring."""

EXAMPLES = "github.com/owner/repository, git:host/path, https://…, ./folder, or a name on PyPI"


class Source(msgspec.Struct, frozen=True):
    kind: Kind
    address: str
    """The URL that git is given, an absolute path, or the name on PyPI."""
    identity: str
    """The same for every spelling of one source."""
    name: str
    """What the package is called unless the user says otherwise."""
    ref: str = ""
    """The tag, branch or commit, or the version: what the package is pinned to."""


def parse_source(text: str, cwd: Path) -> Source:
    """Raises `UsageError` for what is none, and for addresses that hold a password or an option."""
    text = text.strip()
    if not text or text.startswith("-") or not text.isprintable():
        raise UsageError(f"that is no source of an extension: say {EXAMPLES}")
    if text.startswith("git:") and not text.startswith("git://"):
        return _git(text.removeprefix("git:"), cwd)
    if _SCHEME.match(text) or _SCP.fullmatch(text):
        return _git(text, cwd)
    if text.startswith((".", "/", "~")) or text.endswith(".py"):
        return _path(text, cwd)
    if "/" in text:
        return _git(text, cwd) if "." in text.partition("/")[0] else _path(text, cwd)
    return _pypi(text)


def package_name(text: str) -> str:
    """The name if it can be that of a folder, and of an extension."""
    if not _NAME.fullmatch(text):
        raise UsageError(f"{text!r} is no name of a package: choose one of letters, digits, '.', '-' and '_'")
    return text


def _git(text: str, cwd: Path) -> Source:
    address, ref = _split_ref(text)
    if match := _SCHEME.match(address):
        url, host, path = _url(address, match[1].lower())
    elif match := _SCP.fullmatch(address):
        url, host, path = address, match[1].partition("@")[2], match[2]
    elif address.startswith((".", "/", "~")):
        path = _absolute(address, cwd)
        url, host = Path(path).as_uri(), ""
    else:
        host, _, path = address.partition("/")
        url = f"https://{address}"
    path = path.strip("/").removesuffix(".git").rstrip("/")
    if (host and not _HOST.fullmatch(host.partition(":")[0])) or not path or ".." in path.split("/"):
        raise UsageError(f"that is no address of a git repository: say {EXAMPLES}")
    identity = f"{host.lower()}/{path}"
    return Source("git", url, identity, path.rpartition("/")[2], ref)


def _split_ref(text: str) -> tuple[str, str]:
    """At the last `@` whose tail has no `/` and no `:`; elsewhere it belongs to the address."""
    address, at, ref = text.rpartition("@")
    if not at or "/" in ref or ":" in ref:
        return text, ""
    if not _REF.fullmatch(ref) or ".." in ref:
        raise UsageError("what stands behind the last @ is no tag, branch or commit")
    return address, ref


def _url(address: str, scheme: str) -> tuple[str, str, str]:
    """The address itself, its host and its path. What is wrong is not repeated: it may hold a password."""
    if scheme not in _REACHED:
        raise UsageError(
            f"git over {scheme} is not used, for others could change what arrives: use https or ssh"
        )
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise UsageError("that is no valid URL of a git repository") from None
    if parts.password is not None or (scheme == "https" and parts.username is not None):
        raise UsageError(
            "leave name and password out of the address: git asks its credential helper for them"
        )
    if parts.query or parts.fragment:
        raise UsageError("an address of a git repository has no '?' and no '#'")
    if (scheme == "file") == bool(host) or (parts.username or "").startswith("-"):
        raise UsageError(f"that is no address of a git repository: say {EXAMPLES}")
    path = (
        unquote(parts.path) if scheme == "file" else parts.path
    )  # as the same folder is named without a URL
    return address, f"{host}:{port}" if port else host, path


def _path(text: str, cwd: Path) -> Source:
    path = Path(_absolute(text, cwd))
    if not path.exists():
        before, at, ref = text.rpartition("@")
        hint = f"; to clone it at {ref}, say git:{before}@{ref}" if at and Path(cwd, before).is_dir() else ""
        raise UsageError(f"there is no {path}{hint}")
    return Source("path", str(path), str(path), path.stem if path.is_file() else path.name)


def _absolute(text: str, cwd: Path) -> str:
    return os.path.realpath(cwd / os.path.expanduser(text))  # noqa: PTH111  # which raises for an unknown user


def _pypi(text: str) -> Source:
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        raise UsageError(f"that is no source of an extension: say {EXAMPLES} (NAME or NAME==VERSION)")
    identity = re.sub(r"[-_.]+", "-", match[1]).lower()
    return Source("pypi", match[1], identity, identity, match[2] or "")
