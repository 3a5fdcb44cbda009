"""A user's installation: pip, uv and uvx install the package from a wheel and from git, without network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.needed import missing
from tests.support.paths import ROOT
from tests.system.test_packages import build, extract

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

WHEELHOUSE = Path(sys.prefix) / "wheelhouse"
UV = Path(sys.prefix) / "bin" / "uv"
SECONDS = 300


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The addresses of the package: a wheel, and a git repository with the files of this checkout.

    With OSTLER_DIST the packages in that folder are installed, as a release does with those it signs.
    """
    if not WHEELHOUSE.is_dir():
        missing("a folder of wheels", "make wheelhouse")
    folder = tmp_path_factory.mktemp("packages")
    if built := os.environ.get("OSTLER_DIST"):
        (wheel,) = (ROOT / built).glob("*.whl")
        (sdist,) = (ROOT / built).glob("*.tar.gz")
    else:
        wheel = build(ROOT, "wheel", folder / "wheel")
        sdist = build(ROOT, "sdist", folder / "sdist")
    repository = extract(sdist, folder / "repository")
    identity = ("-c", "user.name=A user", "-c", "user.email=user@example.org", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-q", "-m", "All of it")):
        run("git", "-C", repository, *command)
    return {"wheel": wheel.as_uri(), "git": f"git+{repository.as_uri()}"}


def run(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs uv with folders of its own, offline."""
    variables = {
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_FIND_LINKS": WHEELHOUSE.as_uri(),
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "UV_TOOL_DIR": str(tmp_path / "tools"),
    }
    for name in list(os.environ):
        if name.startswith("UV_"):
            monkeypatch.delenv(name)
    return lambda *arguments: run(UV, "--no-config", "--offline", *arguments, **variables)


def check(ostler: Callable[..., str]) -> None:
    """The installed command works, and so does what the README shows first: the demo and the server."""
    assert ostler("--version").startswith("ostler ")
    assert "kill -9" in ostler("demo")
    assert '"openapi"' in ostler("serve", "--openapi")


@pytest.fixture
def served_repository(packages: dict[str, str]) -> Iterator[str]:
    """The same repository over HTTP: not every pip takes `git+file://` with a name before it."""
    repository = unquote(urlsplit(packages["git"]).path)
    run("git", "-C", repository, "update-server-info")
    handler = partial(QuietHandler, directory=repository)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"git+http://127.0.0.1:{server.server_port}/.git"
        server.shutdown()
        thread.join()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def pip_install(folder: Path, requirement: str) -> None:
    """A clean environment in `folder`, with what pip installs into it."""
    venv.create(folder, with_pip=True)
    pip = (folder / "bin" / "python", "-m", "pip", "--isolated", "--disable-pip-version-check")
    run(*pip, "install", "--no-index", "--find-links", WHEELHOUSE, requirement)
    run(*pip, "check")


def test_pip_installs_everything_from_a_wheel(packages: dict[str, str], tmp_path: Path) -> None:
    pip_install(tmp_path / "environment", f"ostler[all] @ {packages['wheel']}")
    check(lambda *arguments: run(tmp_path / "environment" / "bin" / "ostler", *arguments))


def test_pip_installs_everything_from_git(served_repository: str, tmp_path: Path) -> None:
    pip_install(tmp_path / "environment", f"ostler[all] @ {served_repository}")
    check(lambda *arguments: run(tmp_path / "environment" / "bin" / "ostler", *arguments))


def test_pip_installs_from_a_repository_on_this_disk(packages: dict[str, str], tmp_path: Path) -> None:
    pip_install(tmp_path / "environment", packages["git"])
    assert run(tmp_path / "environment" / "bin" / "ostler", "--version").startswith("ostler ")


@pytest.mark.parametrize("origin", ["wheel", "git"])
def test_uv_installs_everything_as_a_tool(
    origin: str, packages: dict[str, str], uv: Callable[..., str], tmp_path: Path
) -> None:
    uv("tool", "install", "--no-index", f"ostler[all] @ {packages[origin]}")
    check(lambda *arguments: run(tmp_path / "bin" / "ostler", *arguments))
    uv("tool", "uninstall", "ostler")
    assert list((tmp_path / "bin").iterdir()) == []


@pytest.mark.parametrize("origin", ["wheel", "git"])
def test_uvx_runs_it_without_an_installation(
    origin: str, packages: dict[str, str], uv: Callable[..., str], tmp_path: Path
) -> None:
    source = f"ostler[all] @ {packages[origin]}"
    check(lambda *arguments: uv("tool", "run", "--no-index", "--from", source, "ostler", *arguments))
    assert not (tmp_path / "bin").exists()


def test_without_extras_it_runs_and_names_the_extra_that_a_feature_needs(
    packages: dict[str, str], uv: Callable[..., str], tmp_path: Path
) -> None:
    uv("tool", "install", "--no-index", f"ostler @ {packages['wheel']}")
    ostler = tmp_path / "bin" / "ostler"
    assert "kill -9" in run(ostler, "demo")
    served = subprocess.run(
        [ostler, "serve"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert served.returncode == 2
    assert "[server]" in served.stderr
    assert "Traceback" not in served.stderr


def test_a_wheel_is_installed_without_git(
    packages: dict[str, str], uv: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "sh"):
        path = shutil.which(name)
        assert path is not None
        (programs / name).symlink_to(path)
    monkeypatch.setenv("PATH", str(programs))
    uv("tool", "install", "--no-index", f"ostler[all] @ {packages['wheel']}")
    assert run(tmp_path / "bin" / "ostler", "--version").startswith("ostler ")
