"""The model that is chosen if none is named: the sources, and their order."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ostler.agent import Agent
from ostler.app.default_model import ModelChoice, ModelProbe, choose_model, resolve_model
from ostler.app.settings import Settings
from ostler.models.credentials import store_key
from ostler.models.factory import ModelFactory
from ostler.models.local_servers import find_local_servers
from ostler.models.providers import PROVIDERS, Provider, ProviderSettings
from ostler.schema.errors import ConfigurationError, NoModel
from ostler.store.paths import key_file, server_consent_file
from ostler.testkit.vendors import FakeVendor, turn

LOCAL = [provider.name for provider in PROVIDERS.values() if provider.is_local]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("OSTLER_HOME", str(folder))
    return folder


@pytest.fixture
def closed_address() -> Iterator[str]:
    """An address where nobody listens, for as long as the test runs."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"


@pytest.fixture
def silent_address() -> Iterator[str]:
    """An address that accepts, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


@pytest.fixture
def serving() -> Iterator[ExitStack]:
    with ExitStack() as running:
        yield running


def at(closed_address: str, **addresses: str) -> dict[str, ProviderSettings]:
    """The local providers at these addresses, and nobody at the usual ones."""
    return {name: ProviderSettings(base_url=addresses.get(name, closed_address)) for name in LOCAL}


def choice_for(
    settings: Settings, environment: dict[str, str] | None = None, **options: object
) -> ModelChoice:
    return choose_model(ModelProbe(settings, environment or {}), **options)  # type: ignore[arg-type]


def fail_if_asked(question: str) -> bool:
    raise AssertionError(f"nobody should be asked: {question}")


def test_a_named_model_comes_first(serving: ExitStack, closed_address: str) -> None:
    settings = Settings(model="groq/x", providers=at(closed_address))
    choice = choice_for(settings, {"ANTHROPIC_API_KEY": "k"}, ask=fail_if_asked)
    assert (choice.model, choice.why) == ("groq/x", "named")


@pytest.mark.parametrize("name", [one.name for one in PROVIDERS.values() if one.default_model])
def test_a_key_in_the_environment_selects_its_vendors_default_model(name: str) -> None:
    provider = PROVIDERS[name]
    choice = choice_for(Settings(), {provider.key_variables[-1]: "k"}, ask=fail_if_asked)
    assert (choice.model, choice.why) == (f"{name}/{provider.default_model}", "key")
    assert provider.key_variables[-1] in choice.because and not choice.notice


def test_environment_keys_precede_stored_keys_and_those_precede_servers(
    serving: ExitStack, closed_address: str
) -> None:
    vendor = serving.enter_context(FakeVendor([], models=["m"]))
    settings = Settings(providers=at(closed_address, ollama=vendor.chat_url))
    store_key(key_file(), "anthropic", "stored")
    assert choice_for(settings).model.startswith("anthropic/")
    assert choice_for(settings, {"OPENAI_API_KEY": "k"}).model.startswith("openai/")
    assert vendor.requests == []
    configured = settings.providers | {
        "google": ProviderSettings(key_command="exit 1"),
        "anthropic": ProviderSettings(default_model="mine"),
    }
    assert choice_for(Settings(providers=configured)).model == "anthropic/mine"
    key_file().unlink()
    assert choice_for(Settings(providers=configured)).model.startswith("google/")


def test_a_configured_provider_with_a_default_model_is_used(closed_address: str) -> None:
    mine = ProviderSettings(base_url="https://m.example/v1", key_variable="MINE", default_model="big")
    settings = Settings(providers=at(closed_address) | {"mine": mine})
    assert choice_for(settings, {"MINE": "k"}).model == "mine/big"
    assert choice_for(settings).why == "nothing"


def test_a_key_without_a_default_model_needs_a_model_name(closed_address: str) -> None:
    choice = choice_for(
        Settings(providers=at(closed_address)), {"AZURE_OPENAI_API_KEY": "k"}, ask=fail_if_asked
    )
    assert choice.why == "nothing" and "--model azure/ID" in choice.notice


@pytest.mark.parametrize("name", ["base_url", "api_key", "key_command"])
def test_a_base_url_without_a_model_is_not_used(serving: ExitStack, closed_address: str, name: str) -> None:
    vendor = serving.enter_context(FakeVendor([], models=["m"]))
    values = {name: "http://127.0.0.1:1/v1", "providers": at(closed_address, ollama=vendor.chat_url)}
    with pytest.raises(NoModel, match=f"{name} is set, but no model"):
        resolve_model(Settings(**values))  # type: ignore[arg-type]
    assert vendor.requests == []


# --- servers ----------------------------------------------------------------------------------------


def provider_at(base_url: str, name: str = "ollama", default_model: str = "") -> Provider:
    return Provider(name=name, base_url=base_url, default_model=default_model, headers={"x-mine": "secret"})


def test_a_server_lists_its_models_without_a_key(serving: ExitStack) -> None:
    vendor = serving.enter_context(FakeVendor([], models=["qwen3:8b", "llama3.3:70b"]))
    (server,) = find_local_servers([provider_at(vendor.chat_url)], seconds=20)
    assert (server.models, server.problem) == (("qwen3:8b", "llama3.3:70b"), "")
    (request,) = vendor.requests
    assert request.path == "/v1/models" and set(request.headers) == {"host", "connection"}


@pytest.mark.parametrize(
    "name",
    [
        "nomic-embed-text:latest",
        "text-embedding-nomic-embed-text-v1.5",
        "mxbai-embed-large",
        "bge-m3:latest",
        "BAAI/bge-reranker-v2-m3",
        "all-minilm:l6-v2",
        "whisper-large-v3",
        "intfloat/e5-mistral",
        "kokoro-tts",
    ],
)
def test_models_that_cannot_chat_are_skipped(serving: ExitStack, name: str) -> None:
    vendor = serving.enter_context(FakeVendor([], models=[name, "qwen3:8b"]))
    (server,) = find_local_servers([provider_at(vendor.chat_url)], seconds=20)
    assert server.models == ("qwen3:8b",)


def test_the_configured_model_precedes_the_first_of_the_list(serving: ExitStack) -> None:
    vendor = serving.enter_context(FakeVendor([], models=["a", "b", "c"]))
    (server,) = find_local_servers([provider_at(vendor.chat_url, default_model="b")], seconds=20)
    assert server.models == ("b", "a", "c")


def test_absent_servers_take_no_time(closed_address: str) -> None:
    begun = time.monotonic()
    servers = find_local_servers([provider_at(closed_address, name) for name in LOCAL], seconds=60)
    assert time.monotonic() - begun < 30
    problems = [(one.provider, one.problem) for one in servers]
    assert problems == [(name, "no server is running") for name in LOCAL]


def test_silent_servers_time_out_together(silent_address: str) -> None:
    begun = time.monotonic()
    servers = find_local_servers(
        [provider_at(silent_address, str(number)) for number in range(60)], seconds=0.2
    )
    assert time.monotonic() - begun < 0.2 * 60
    assert all("answer" in one.problem and not one.models for one in servers)


def server_with_raw_answer(raw: bytes) -> Iterator[str]:
    """The address of a server that answers once, with these bytes."""
    import threading

    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(raw)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        thread.join(60)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "another program is running"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n<html></html>", "another program is running"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "another program is running"),
        (
            b"HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n",
            "another program is running",
        ),
        (b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"data": []', "another program is running"),
        (b'HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{"data": null}', "it runs, but has no model"),
        (b'HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{"data": []}', "it runs, but has no model"),
        (b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n", "it needs a key"),
        (b"", "another program is running"),
        (b'HTTP/1.0 200 OK\r\n\r\n{"data": [{"id": "m"}]}', ""),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
            b'8\r\n{"data":\r\nf\r\n [{"id": "m"}]}\r\n0\r\n\r\n',
            "",
        ),
    ],
)
def test_other_programs_at_a_port_are_recognised(raw: bytes, problem: str) -> None:
    for base_url in server_with_raw_answer(raw):
        (server,) = find_local_servers([provider_at(base_url)], seconds=10)
        assert server.problem.startswith(problem) and server.models == (() if problem else ("m",))


@pytest.mark.parametrize(
    "base_url", ["https://api.example/v1", "http://10.0.0.1:11434/v1", "http://[::2]:1/v1"]
)
def test_only_local_servers_are_probed(base_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_: pytest.fail("a connection was made"))
    assert find_local_servers([provider_at(base_url)]) == []


async def test_a_local_server_is_used_and_announced(
    serving: ExitStack, closed_address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    vendor = serving.enter_context(FakeVendor([turn("From here.")], models=["bge-m3", "m"]))
    settings = Settings(providers=at(closed_address, jan=vendor.chat_url))
    for variable in [one for provider in PROVIDERS.values() for one in provider.key_variables]:
        monkeypatch.delenv(variable, raising=False)
    loaded = type("Loaded", (), {"settings": settings})
    monkeypatch.setattr("ostler.app.agent_setup.load_settings", lambda *_: loaded)
    with caplog.at_level(logging.WARNING, "ostler"):
        agent = Agent()
    assert caplog.messages == [f"no model is named: using jan/m, running at {vendor.chat_url[7:-3]}"]
    assert agent.model.name == "jan/m"
    assert (await agent.run("hi")).text == "From here."
    await agent.close()
    assert not {"authorization", "x-api-key"} & vendor.requests[-1].headers.keys()


def test_the_person_at_a_terminal_is_asked_once(serving: ExitStack, closed_address: str) -> None:
    vendor = serving.enter_context(FakeVendor([], models=["m"]))
    settings = Settings(providers=at(closed_address, ollama=vendor.chat_url))
    asked: list[str] = []

    def agree(question: str) -> bool:
        asked.append(question)
        return True

    assert resolve_model(settings, ask=agree).model == "ollama/m"
    assert resolve_model(settings, ask=fail_if_asked).model == "ollama/m"
    assert resolve_model(settings, say=fail_if_asked).model == "ollama/m"  # nothing is left to say
    assert len(asked) == 1 and "ollama/m" in asked[0]


def test_a_declined_server_is_remembered_and_the_next_source_used(
    serving: ExitStack, closed_address: str
) -> None:
    first = serving.enter_context(FakeVendor([], models=["m"]))
    second = serving.enter_context(FakeVendor([], models=["n"]))
    settings = Settings(providers=at(closed_address, ollama=first.chat_url, vllm=second.chat_url))
    choice = choice_for(settings, ask=lambda question: "vllm" in question)
    assert choice.model == "vllm/n"
    assert choice_for(settings).model == "vllm/n"
    only_first = Settings(providers=at(closed_address, ollama=first.chat_url))
    assert choice_for(only_first).why == "nothing"
    assert choice_for(only_first, ask=fail_if_asked).why == "demo"
    (finding,) = [one for one in ModelProbe(only_first, {}).findings() if one.models]
    assert "you declined" in finding.to_do
    server_consent_file().write_text("no JSON")
    with pytest.raises(ConfigurationError, match="remove it"):
        choice_for(only_first)


def test_no_key_is_sent_to_a_discovered_server(
    serving: ExitStack, closed_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor = serving.enter_context(FakeVendor([], models=["m"]))
    monkeypatch.setattr("os.environ", {"OSTLER_HOME": "/nonexistent"})
    chosen = resolve_model(Settings(wire="anthropic", providers=at(closed_address, ollama=vendor.chat_url)))
    assert (chosen.model, chosen.wire) == ("ollama/m", None)
    assert ModelFactory(chosen, {})("ollama/m").name == "ollama/m"


# --- the rest ---------------------------------------------------------------------------------------


def test_a_model_file_is_reported_and_chosen_only_where_it_can_run(
    home: Path, closed_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(providers=at(closed_address))
    (home / "models").mkdir(parents=True)
    (home / "models" / "b.gguf").touch()
    (home / "models" / "a.gguf").touch()
    monkeypatch.setattr(ModelProbe, "can_run_gguf", False)
    around = ModelProbe(settings, {})
    *_, finding = around.findings()
    assert (finding.kind, finding.found, finding.detail) == ("gguf", True, str(home / "models" / "a.gguf"))
    assert finding.to_do and choose_model(around).why == "nothing"
    monkeypatch.setattr(ModelProbe, "can_run_gguf", True)
    assert choice_for(settings).model == f"gguf/{home / 'models' / 'a.gguf'}"
    named = Settings(providers=at(closed_address), gguf=str(home / "models" / "b.gguf"))
    assert choice_for(named).model == f"gguf/{home / 'models' / 'b.gguf'}"
    gone = Settings(providers=at(closed_address), gguf=str(home / "none.gguf"))
    assert choice_for(gone).why == "nothing"
    *_, finding = ModelProbe(gone, {}).findings()
    assert not finding.found and "none.gguf" in finding.detail


def test_without_a_model_a_person_gets_the_demo_and_a_program_an_error(closed_address: str) -> None:
    settings = Settings(providers=at(closed_address))
    choice = choice_for(settings, ask=fail_if_asked)
    assert (choice.model, choice.why) == ("demo", "demo") and "DEMO (scripted, not a model)" in choice.notice
    assert choice_for(settings).model == ""


def test_every_source_is_reported_with_what_to_do(closed_address: str) -> None:
    settings = Settings(
        providers=at(closed_address) | {"mine": ProviderSettings(base_url="https://m.example/v1")}
    )
    findings = list(
        ModelProbe(settings, {"OPENAI_API_KEY": "sk-canary", "AZURE_OPENAI_API_KEY": "g"}).findings()
    )
    by_name = {(one.kind, one.name): one for one in findings}
    assert {name for kind, name in by_name if kind == "server"} == set(LOCAL)
    assert by_name["key", "openai"].found and by_name["key", "openai"].detail == "OPENAI_API_KEY"
    assert by_name["key", "azure"].to_do == "name a model: --model azure/ID"
    assert "ostler key set anthropic" in by_name["key", "anthropic"].to_do
    assert by_name["key", "mine"].detail == "needs none at m.example"
    assert by_name["gguf", "GGUF file"].to_do
    assert "canary" not in repr(findings)


def test_a_key_or_a_name_needs_no_other_probe() -> None:
    program = (
        "import sys; from ostler.app.default_model import *; from ostler.app.settings import Settings;"
        "choose_model(ModelProbe(Settings(model='a/b'), {}));"
        "print(choose_model(ModelProbe(Settings(), {'ANTHROPIC_API_KEY': 'k'})).why);"
        "print(sorted({'keyring', 'httptools', 'ostler.models.local_servers',"
        "'ostler.models.scripted', 'ostler.models.gguf'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split("\n") == ["key", "[]", ""]
