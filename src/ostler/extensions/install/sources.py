"""The sources of `ostler ext install`: a git repository, a path, or a package on PyPI.

A git clone runs none of the repository's code and never prompts. A package from PyPI gets a folder of its
own, with its dependencies, and is built from source only on request.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from urllib.parse import unquote, urlsplit

import msgspec

from ostler.context.files import quoted_path
from ostler.core.processes import Finished, find_program, run_program
from ostler.core.secrets import tool_environment
from ostler.extensions.loader.manifest import Kind
from ostler.schema.errors import OstlerError, UsageError

_REF = re.compile(r"[0-9A-Za-z_][\w.+-]*", re.ASCII)
_NAME = re.compile(r"[0-9A-Za-z][\w.-]*", re.ASCII)

_REQUIREMENT = re.compile(
    r"([0-9A-Za-z](?:[\w.-]*[0-9A-Za-z])?)(?:\s*==\s*([0-9A-Za-z][0-9A-Za-z.!+_-]*))?", re.ASCII
)

_SCHEME = re.compile(r"([A-Za-z][\w+.-]*)://", re.ASCII)
_SCP = re.compile(r"([0-9A-Za-z_][\w.-]*@[^/:@]+):([^:].*)", re.ASCII)
_HOST = re.compile(r"[0-9A-Za-z_](?:[\w.-]*[0-9A-Za-z_])?", re.ASCII)
_SECURE = ("https", "ssh", "file")
"""Transports whose content nobody can change on the way."""
EXAMPLES = "github.com/owner/repository, git:host/path, https://…, ./folder, or a name on PyPI"


class Source(msgspec.Struct, frozen=True):
    kind: Kind
    address: str
    """The URL for git, an absolute path, or the name on PyPI."""
    identity: str
    """The same for every spelling of one source."""
    name: str
    """The default name of the package."""
    ref: str = ""
    """The tag, branch, commit or version that the package is pinned to."""


def parse_source(text: str, cwd: Path) -> Source:
    """Raises `UsageError` for an invalid source, and for addresses with a password or an option in them."""
    text = text.strip()
    if not text or text.startswith("-") or not text.isprintable():
        raise UsageError(f"not a source of an extension: use {EXAMPLES}")
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
    """The name, if it is valid for a folder and an extension. Raises `UsageError`."""
    if not _NAME.fullmatch(text):
        raise UsageError(f"{text!r} is not a valid name: use letters, digits, '.', '-' and '_'")
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
        raise UsageError(f"not the address of a git repository: use {EXAMPLES}")
    return Source("git", url, f"{host.lower()}/{path}", path.rpartition("/")[2], ref)


def _split_ref(text: str) -> tuple[str, str]:
    """At the last `@` whose tail has no `/` and no `:`; elsewhere it belongs to the address."""
    address, at, ref = text.rpartition("@")
    if not at or "/" in ref or ":" in ref:
        return text, ""
    if not _REF.fullmatch(ref) or ".." in ref:
        raise UsageError("the part after the last @ is not a tag, branch or commit")
    return address, ref


def _url(address: str, scheme: str) -> tuple[str, str, str]:
    """The address, its host and its path. Errors do not repeat it, since it may contain a password."""
    if scheme not in _SECURE:
        raise UsageError(f"git over {scheme} is not secure: use https or ssh")
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise UsageError("not a valid URL of a git repository") from None
    if parts.password is not None or (scheme == "https" and parts.username is not None):
        raise UsageError("leave name and password out of the address: git uses its credential helper")
    if parts.query or parts.fragment:
        raise UsageError("the address of a git repository has no '?' and no '#'")
    if (scheme == "file") == bool(host) or (parts.username or "").startswith("-"):
        raise UsageError(f"not the address of a git repository: use {EXAMPLES}")
    path = unquote(parts.path) if scheme == "file" else parts.path  # the same identity as without a URL
    return address, f"{host}:{port}" if port else host, path


def _path(text: str, cwd: Path) -> Source:
    path = Path(_absolute(text, cwd))
    if not path.exists():
        before, at, ref = text.rpartition("@")
        hint = f"; to clone it at {ref}, use git:{before}@{ref}" if at and Path(cwd, before).is_dir() else ""
        raise UsageError(f"{path} does not exist{hint}")
    return Source("path", str(path), str(path), path.stem if path.is_file() else path.name)


def _absolute(text: str, cwd: Path) -> str:
    return os.path.realpath(cwd / os.path.expanduser(text))  # noqa: PTH111  # which raises for an unknown user


def _pypi(text: str) -> Source:
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        raise UsageError(f"not a source of an extension: use {EXAMPLES} (NAME or NAME==VERSION)")
    identity = _normalised(match[1])
    return Source("pypi", match[1], identity, identity, match[2] or "")


FETCH_SECONDS = 300.0
LOOK_SECONDS = 60.0

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.ssh.allow=always",
    "protocol.file.allow=always",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
    "advice.detachedHead=false",
)

_PLACE = re.compile(
    r"GIT_(ALTERNATE_OBJECT_DIRECTORIES|COMMON_DIR|DIR|GRAFT_FILE|INDEX_FILE|NAMESPACE|OBJECT_DIRECTORY"
    r"|PREFIX|REPLACE_REF_BASE|SHALLOW_FILE|TEMPLATE_DIR|WORK_TREE|ALLOW_PROTOCOL|EXTERNAL_DIFF)"
)
"""Variables that would lead git to another repository; they are set inside of git hooks."""


def copy_of(url: str, ref: str, into: Path) -> str:
    """Copies the files of a repository at a ref, or at the remote's HEAD; returns the commit."""
    into.mkdir(parents=True)
    _run_git(into, "init", "--quiet", "--template=")
    _run_git(into, "remote", "add", "--", "origin", url)
    _check_out(into, url, ref)
    commit = _run_git(into, "rev-parse", "HEAD").out.strip()
    rmtree(into / ".git")  # inside of another repository it would hide the files from that one
    return commit


def newest_commit(url: str, cwd: Path) -> str:
    """The commit of the remote's HEAD."""
    refs = _run_git(cwd, "ls-remote", "--", url, "HEAD", about=url, seconds=LOOK_SECONDS).out
    return refs.partition("\t")[0]


def _check_out(tree: Path, url: str, ref: str) -> None:
    shallow = ("fetch", "--quiet", "--depth=1", "--no-tags", "--", "origin", ref or "HEAD")
    if not ref:
        _run_git(tree, *shallow, about=url)
    if not ref or _try(tree, *shallow).code == 0:
        _run_git(tree, "checkout", "--quiet", "--detach", "FETCH_HEAD")
        return
    # A server may refuse to send a commit by its hash, and a short hash needs the whole history.
    everything = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
    _run_git(tree, "fetch", "--quiet", "--", "origin", *everything, about=url)
    commit = _try(tree, "rev-parse", "--quiet", "--verify", "--end-of-options", f"{ref}^{{commit}}")
    if commit.code != 0:
        raise UsageError(f"there is no tag, branch or commit {ref} in {url}")
    _run_git(tree, "checkout", "--quiet", "--detach", commit.out.strip())


def _run_git(cwd: Path, *arguments: str, about: str = "", seconds: float = FETCH_SECONDS) -> Finished:
    finished = _try(cwd, *arguments, seconds=seconds)
    if finished.code == 0:
        return finished
    lines = finished.err.splitlines()
    errors = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    reason = (errors or lines or [f"exit code {finished.code}"])[0]
    what = f"git cannot fetch {about}" if about else f"git {arguments[0]} failed"
    raise OstlerError(f"{what}: {reason}")


def _try(cwd: Path, *arguments: str, seconds: float = FETCH_SECONDS) -> Finished:
    program = find_program("git")
    if program is None:
        raise UsageError("this source needs git, which is not installed")
    settings = [word for one in _SETTINGS for word in ("-c", one)]
    return run_program([program, *settings, *arguments], cwd=cwd, seconds=seconds, environment=_environment())


def _environment() -> dict[str, str]:
    inherited = {name: value for name, value in tool_environment().items() if not _PLACE.fullmatch(name)}
    # `true` answers a prompt with nothing, after the credential helper. ssh finds no terminal to prompt at,
    # because the program is started in a session of its own.
    no_prompts = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "SSH_ASKPASS": "true", "LC_ALL": "C"}
    return {**inherited, **no_prompts, "GIT_LFS_SKIP_SMUDGE": "1"}


SECONDS = 600.0


def install_wheel(name: str, version: str, into: Path, *, may_build: bool = False) -> Distribution:
    """Installs a package and its dependencies into a folder; from source only if allowed, as that runs its
    code."""
    requirement = f"{name}=={version}" if version else name
    options = ["--target", str(into), *(() if may_build else ("--only-binary", ":all:"))]
    # The user's settings of pip must not apply to this folder.
    environment = {**tool_environment(), "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    command = [*_installer(), *options, "--", requirement]
    finished = run_program(command, cwd=into.parent, seconds=SECONDS, environment=environment)
    if finished.code != 0:
        raise OstlerError(f"{requirement} cannot be installed: {_reason(finished.err)}")
    for one in distributions(path=[str(into)]):
        if _normalised(one.name) == _normalised(name):
            return one
    raise OstlerError(f"{requirement} was installed, but has no package of that name")


def entry_points_of(distribution: Distribution) -> dict[str, str]:
    """The extensions of a package: `module:function` by name."""
    return {one.name: one.value for one in distribution.entry_points if one.group == "ostler.extensions"}


def _installer() -> list[str]:
    if find_spec("pip"):
        options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-warn-conflicts"]
        return [sys.executable, "-P", "-m", "pip", "install", *options]  # -P: no pip.py of this directory
    if uv := find_program("uv"):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    python = quoted_path(Path(sys.executable))
    raise UsageError(f"neither pip nor uv is installed: run `{python} -m ensurepip`, or install uv")


def _reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["the installer gives no reason"])[-1]


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
