"""`ostler doctor` reports a model as ready only if a run could use it."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from shlex import quote

import pytest

from ostler.app.default_model import ProbeResult
from ostler.app.doctor import DoctorReport, report_lines, run_doctor
from ostler.core.confinement import ConfinementStatus, confinement_status
from ostler.models.providers import PROVIDERS
from ostler.testkit.vendors import FakeVendor

needs_limits = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux has prlimit")
Diagnose = Callable[..., DoctorReport]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("OSTLER_HOME", str(folder))
    for provider in PROVIDERS.values():
        for variable in (*provider.key_variables, provider.base_url_variable):
            monkeypatch.delenv(variable or "OSTLER_MODEL", raising=False)
    return folder


@pytest.fixture
def closed_address() -> Iterator[str]:
    """An address where nobody listens, for as long as the test runs."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"


@pytest.fixture
def locked_server() -> Iterator[str]:
    """A server that wants a key."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(60)


@pytest.fixture
def serving() -> Iterator[ExitStack]:
    with ExitStack() as running:
        yield running


@pytest.fixture
def diagnose(home: Path, closed_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Diagnose:
    """With this configuration, these servers at their addresses, and nobody anywhere else."""

    def see(text: str = "", variables: dict[str, str] | None = None, **servers: str) -> DoctorReport:
        places = {one.name: closed_address for one in PROVIDERS.values() if one.is_local} | servers
        tables = "".join(f"[providers.{name}]\nbase_url = '{url}'\n" for name, url in places.items())
        (home / "config.toml").write_text(f"{text}\n{tables}")
        for name, value in (variables or {}).items():
            monkeypatch.setenv(name, value)
        return asyncio.run(run_doctor(tmp_path))

    return see


def fallbacks(report: DoctorReport) -> list[ProbeResult]:
    return [one for one in report.findings if one.kind == "fallback"]


def host(url: str) -> str:
    return url.split("/")[2]


def test_a_local_model_needs_a_running_server(diagnose: Diagnose, closed_address: str) -> None:
    report = diagnose("model = 'ollama/x'")
    assert not report.has_model
    assert (
        report.answering.because == f"ollama/x cannot answer at {host(closed_address)}: no server is running"
    )


@pytest.mark.parametrize(
    ("listed", "because"),
    [
        (["x", "y"], "it is named"),
        (["x:latest"], "it is named"),
        (["y"], "it is named, though HOST lists no such model"),
        (["bge-m3"], "it is named, though at HOST it runs, but has no model that can chat"),
        (None, "it is named, though at HOST another program is running"),
    ],
)
def test_a_model_that_its_server_does_not_list_is_only_doubted(
    diagnose: Diagnose, serving: ExitStack, listed: list[str] | None, because: str
) -> None:
    vendor = serving.enter_context(FakeVendor([], models=listed))
    answering = diagnose("model = 'ollama/x'", ollama=vendor.chat_url).answering
    assert answering.model == "ollama/x"
    assert answering.because == because.replace("HOST", host(vendor.chat_url))


def test_a_server_that_needs_a_key_is_usable_with_one(diagnose: Diagnose, locked_server: str) -> None:
    report = diagnose("model = 'lmstudio/x'", lmstudio=locked_server)
    assert not report.has_model and "it needs a key" in report.answering.because
    report = diagnose("model = 'lmstudio/x'\napi_key = 'k'", lmstudio=locked_server)
    assert (report.answering.model, report.answering.because) == ("lmstudio/x", "it is named")


def test_another_local_address_needs_a_running_server(diagnose: Diagnose, closed_address: str) -> None:
    for text, variables in (
        (f"model = 'openai/x'\nbase_url = '{closed_address}'", {}),
        ("model = 'openai/x'", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": closed_address}),
    ):
        report = diagnose(text, variables)
        assert not report.has_model and "no server is running" in report.answering.because


def test_another_local_server_is_not_doubted(diagnose: Diagnose, serving: ExitStack) -> None:
    vendor = serving.enter_context(FakeVendor([]))
    report = diagnose("model = 'anthropic/x'", {"ANTHROPIC_BASE_URL": vendor.anthropic_url})
    assert report.answering.because == "it is named"


def test_azure_needs_its_address_and_key(diagnose: Diagnose) -> None:
    text = "[providers.azure]\ndefault_model = 'd'"
    report = diagnose(text, {"AZURE_OPENAI_API_KEY": "k"})
    assert not report.has_model and "azure needs an address" in report.answering.because
    report = diagnose(text, {"AZURE_OPENAI_ENDPOINT": "https://x.example"})
    assert report.answering.model == "azure/d"
    report = diagnose("model = 'azure/d'", {"AZURE_OPENAI_API_KEY": ""})
    assert not report.has_model and "azure needs a key" in report.answering.because


@pytest.mark.parametrize("key", ["k\u00e4se", "a\\u0000b", "a\\tb"])
def test_an_unsendable_key_does_not_count(diagnose: Diagnose, key: str) -> None:
    report = diagnose(f'[providers.groq]\napi_key = "{key}"')
    assert not report.has_model
    assert report.answering.because == "the key for groq contains invalid characters: copy it again"


def test_a_key_command_counts_and_is_not_run(diagnose: Diagnose, tmp_path: Path) -> None:
    ran = tmp_path / "was-run"
    command = json.dumps(f"touch {quote(str(ran))}")
    report = diagnose(
        f"model = 'xai/x'\nkey_command = {command}\nfallback = ['groq/x']\n"
        f"[providers.groq]\nkey_command = {command}"
    )
    assert report.answering.model == "xai/x"
    assert [(one.name, one.found) for one in fallbacks(report)] == [("groq/x", True)]
    assert not ran.exists()


def test_fallbacks_are_listed_with_their_state(diagnose: Diagnose, closed_address: str) -> None:
    report = diagnose("model = 'anthropic/x'\nfallback = ['groq/x', 'jan/x', 'anthropic/y']\napi_key = 'k'")
    assert report.answering.model == "anthropic/x"
    assert [(one.name, one.found) for one in fallbacks(report)] == [
        ("groq/x", False),
        ("jan/x", False),
        ("anthropic/y", True),
    ]
    assert (
        "GROQ_API_KEY" in fallbacks(report)[0].detail and host(closed_address) in fallbacks(report)[1].detail
    )


def test_a_ready_fallback_answers_if_the_server_is_gone(diagnose: Diagnose) -> None:
    report = diagnose("model = 'jan/x'\nfallback = ['groq/x', 'xai/y']", {"XAI_API_KEY": "k"})
    assert report.answering.model == "xai/y" and "as a fallback" in report.answering.because
    report = diagnose("model = 'mistral/x'\nfallback = ['xai/y']")
    assert not report.has_model, "a run begins with its own model, or not at all"


def test_circular_aliases_are_reported(diagnose: Diagnose) -> None:
    report = diagnose("model = 'a'\n[aliases]\na = 'b'\nb = 'a'")
    assert not report.has_model and "a = b = a" in report.answering.because


def test_the_report_says_whether_harmless_commands_are_confined(diagnose: Diagnose) -> None:
    (found,) = [one for one in diagnose().safeguards if one.name == "confinement"]
    status = confinement_status()
    assert found.in_force == status.is_active
    assert status.text in found.about
    report = diagnose("confine_harmless = false")
    (found,) = [one for one in report.safeguards if one.name == "confinement"]
    assert (found.in_force, found.about) == (False, "switched off by the setting confine_harmless")


def test_the_report_says_why_harmless_commands_are_not_confined(
    diagnose: Diagnose, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = ConfinementStatus(False, "the kernel has no Landlock, or it is switched off")
    monkeypatch.setattr("ostler.app.doctor.confinement_status", lambda: absent)
    report = diagnose()
    text = "\n".join(report_lines(report))
    assert "commands that were judged harmless run freely: the kernel has no Landlock" in text


@needs_limits
def test_the_report_says_which_limits_of_tool_processes_are_in_force(diagnose: Diagnose) -> None:
    report = diagnose("[tool_limits]\nprocesses = 50\ncpu_seconds = 0\nfile_size_mb = 7")
    found = {one.name: one for one in report.safeguards}
    assert found["processes"].in_force and found["processes"].about.startswith("50, by ")
    assert (found["CPU time"].in_force, found["CPU time"].about) == (False, "no limit")
    assert (found["file size"].in_force, found["file size"].about) == (True, "7 MB, by RLIMIT_FSIZE")
    assert found["memory"].in_force
