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
"""Variables that would lead git elsewhere: a hook of git that calls us has them set."""


def copy_of(url: str, ref: str, into: Path) -> str:
    """The files of a repository as they are at a ref, or at the remote's HEAD; returns the commit."""
    into.mkdir(parents=True)
    _run_git(into, "init", "--quiet", "--template=")
    _run_git(into, "remote", "add", "--", "origin", url)
    _check_out(into, url, ref)
    commit = _run_git(into, "rev-parse", "HEAD").out.strip()
    # Nobody needs it any more, and inside of another repository it would hide the files from that one.
    rmtree(into / ".git")
    return commit


def newest_commit(url: str, cwd: Path) -> str:
    """What the remote's HEAD is now."""
    found = _run_git(cwd, "ls-remote", "--", url, "HEAD", about=url, seconds=LOOK_SECONDS).out
    return found.partition("\t")[0]


def _check_out(tree: Path, url: str, ref: str) -> None:
    shallow = ("fetch", "--quiet", "--depth=1", "--no-tags", "--", "origin", ref or "HEAD")
    if not ref:
        _run_git(tree, *shallow, about=url)
        _run_git(tree, "checkout", "--quiet", "--detach", "FETCH_HEAD")
        return
    if _try(tree, *shallow).code == 0:
        _run_git(tree, "checkout", "--quiet", "--detach", "FETCH_HEAD")
        return
    # A server need not hand a commit out by its number, and a short number is known only to who has them all.
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
    said = [line for line in finished.err.splitlines() if line.startswith(("fatal: ", "error: "))]
    reason = (said or finished.err.splitlines() or [f"exit code {finished.code}"])[0]
    what = f"git cannot get {about}" if about else f"git {arguments[0]} failed"
    raise OstlerError(f"{what}: {reason}")


def _try(cwd: Path, *arguments: str, seconds: float = FETCH_SECONDS) -> Finished:
    program = find_program("git")
    if program is None:
        raise UsageError("git is not installed, and is needed for this source")
    settings = [word for one in _SETTINGS for word in ("-c", one)]
    return run_program([program, *settings, *arguments], cwd=cwd, seconds=seconds, environment=_environment())


def _environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not _PLACE.fullmatch(name)}
    # `true` answers nothing; a credential helper is asked before it. ssh finds no terminal to ask at, because
    # the program is started in a session of its own.
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "SSH_ASKPASS": "true", "LC_ALL": "C"}
    return {**inherited, **quiet, "GIT_LFS_SKIP_SMUDGE": "1"}


GROUP = "ostler.extensions"
SECONDS = 600.0


def install_wheel(name: str, version: str, into: Path, *, may_build: bool = False) -> Distribution:
    """Puts a package and what it needs into a folder. Building one would run its code: it must be allowed."""
    requirement = f"{name}=={version}" if version else name
    options = ["--target", str(into), *(() if may_build else ("--only-binary", ":all:"))]
    # What pip is told to do for a user's own packages must not reach a folder that is only ours.
    environment = {**os.environ, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    command = [*_installer(), *options, "--", requirement]
    finished = run_program(command, cwd=into.parent, seconds=SECONDS, environment=environment)
    if finished.code != 0:
        raise OstlerError(f"{requirement} cannot be installed: {_reason(finished.err)}")
    wanted = _normalised(name)
    for one in distributions(path=[str(into)]):
        if _normalised(one.name) == wanted:
            return one
    raise OstlerError(f"{requirement} was installed, but brought no package of that name")


def entry_points_of(distribution: Distribution) -> dict[str, str]:
    """The extensions that a package announces: `module:function` by name."""
    return {one.name: one.value for one in distribution.entry_points if one.group == GROUP}


def _installer() -> list[str]:
    if find_spec("pip"):
        # -P: a file pip.py in the present directory is not meant.
        quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-warn-conflicts"]
        return [sys.executable, "-P", "-m", "pip", "install", *quiet]
    if uv := find_program("uv"):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    python = quoted_path(Path(sys.executable))
    raise UsageError(f"neither pip nor uv is here: say `{python} -m ensurepip`, or install uv")


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["the installer does not say why"])[-1]


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
