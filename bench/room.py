"""What all measures share: the server, the temporary directories, the certificate, the commands."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Sequence
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

from bench.processes import BenchError, Finished, measure

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
OSTLER = str(Path(PYTHON).with_name("ostler"))
Side = Literal["ours", "floor"]


class Times(NamedTuple):
    """One request as the server saw it, in milliseconds of the monotonic clock."""

    first_byte: float
    last_byte: float


class Room:
    """Open it with `with`: its server and its files are gone afterwards."""

    def __init__(self, directory: Path, rounds: int) -> None:
        self.rounds = rounds
        self.work = directory / "work"
        self.work.mkdir()
        self._directory = directory
        self._numbers = count(1)
        self.bundle = _certificate(directory)
        command = [PYTHON, "-m", "bench.server", str(directory / "server.pem") if self.bundle else ""]
        self._server = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._server.stdout is not None
        self._ports = json.loads(self._server.stdout.readline() or "[0, 0]")

    def __enter__(self) -> Room:
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.kill()
        self._server.communicate()

    def home(self, name: str) -> Path:
        path = self._directory / "homes" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def new_run(self) -> str:
        return f"run{next(self._numbers)}"

    def url(self, scenario: str, run: str, *, secure: bool = False) -> str:
        scheme = "https" if secure else "http"
        return f"{scheme}://127.0.0.1:{self._ports[secure]}/{scenario}/{run}/v1"

    def records(self, run: str) -> list[Times]:
        connection = HTTPConnection("127.0.0.1", self._ports[0], timeout=10)
        try:
            connection.request("GET", f"/records/{run}")
            records = json.load(connection.getresponse())
        finally:
            connection.close()
        if not records or None in records:
            raise BenchError("the server saw no request, or one that it could not answer to the end")
        return [Times(record["first_byte"] / 1e6, record["answer_last"] / 1e6) for record in records]

    def one_shot(
        self,
        side: Side,
        scenario: str,
        run: str,
        home: str,
        *,
        secure: bool = False,
        options: Sequence[str] = (),
        cwd: str = "",
    ) -> Finished:
        """One prompt on the command line, ours or the floor's, in an empty directory unless one is named."""
        url = self.url(scenario, run, secure=secure)
        ours = [
            OSTLER,
            "-p",
            "--json",
            "--model",
            "openai/bench",
            "--base-url",
            url,
            "--api-key",
            "k",
            "--yes",
        ]
        command = (
            [*ours, *options, "begin"] if side == "ours" else [*call_module("bench.floor"), url, "begin"]
        )
        work = self.work / (cwd or run)
        work.mkdir(exist_ok=True)
        return measure(command, self._env(home, secure), work)

    def in_process(self, side: Side, scenario: str, runs: Sequence[str], home: str) -> float:
        """Agents in one process through the library, one for each run; the seconds they took together."""
        urls = [self.url("text-1", self.new_run()), *(self.url(scenario, run) for run in runs)]
        command = [*call_module("bench.in_process"), side, str(self.home(home) / "library.db"), *urls]
        finished = measure(command, self._env(home, secure=False), self.work, keep_output=True)
        return float(json.loads(finished.output)["seconds"])

    def env(self, home: str) -> dict[str, str]:
        return self._env(home, secure=False)

    def _env(self, home: str, secure: bool) -> dict[str, str]:
        place = str(self.home(home))
        env = {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", "HOME": place, "OSTLER_HOME": place}
        return env | {"SSL_CERT_FILE": str(self.bundle)} if secure else env


def call_module(module: str) -> list[str]:
    """Starts a module from its compiled form, as an installed command does."""
    return [PYTHON, "-c", f"import sys; sys.path.append({str(ROOT)!r}); from {module} import main; main()"]


def _certificate(directory: Path) -> Path | None:
    """A certificate of 127.0.0.1 beside the system's own, so that the bundle costs what it costs users."""
    if shutil.which("openssl") is None:
        return None
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=127.0.0.1",
    ]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    (directory / "server.pem").write_bytes(certificate.read_bytes() + key.read_bytes())
    system = ssl.get_default_verify_paths().cafile
    bundle = directory / "bundle.pem"
    bundle.write_bytes(certificate.read_bytes() + (Path(system).read_bytes() if system else b""))
    return bundle
