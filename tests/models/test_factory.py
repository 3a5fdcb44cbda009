from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ostler.models.factory import make_model
from ostler.models.providers import PROVIDERS, Provider, Wire
from ostler.schema.errors import NoModel, UsageError
from ostler.schema.events import Warned
from ostler.schema.messages import Message, Text, user
from ostler.testkit.vendors import FakeVendor, turn
from tests.models.wires.wire_cases import KEY, WIRES, answer_of, every_wire, load_model, request_of


@pytest.mark.parametrize("name", [name for name in PROVIDERS if name != "gguf"])
def test_every_provider_makes_a_model_of_its_name(name: str) -> None:
    environment = dict.fromkeys(PROVIDERS[name].key_variables, KEY)
    model = make_model(
        f"{name}/some/model",
        base_url=PROVIDERS[name].base_url or "https://x.example",
        environment=environment,
    )
    assert model.name == f"{name}/some/model"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sonet", "sonnet"),
        ("Sonnet", "sonnet"),
        ("antropic/claude-sonnet-5-5", "anthropic/claude-sonnet-5-5"),
        ("antropic/brand-new-model", "the provider anthropic"),
        ("gogle/new", "google"),
        ("claude-sonnet-5-5", "anthropic/claude-sonnet-5-5"),
    ],
)
def test_a_misspelled_model_suggests_the_right_name(name: str, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"did you mean {meant}\?"):
        make_model(name, environment={})


@pytest.mark.parametrize("name", ["xyzzy", "nobody/x", "nope/none", "", "/x"])
def test_an_unknown_provider_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError, match="anthropic, openai"):
        make_model(name, environment={})


@pytest.mark.parametrize("name", ["anthropic", "openai", "groq", "mistral"])
def test_a_missing_key_is_answered_with_its_variable(name: str) -> None:
    with pytest.raises(NoModel, match=PROVIDERS[name].key_variables[0]):
        make_model(f"{name}/x", environment={})


def test_a_provider_alone_means_its_default_model_where_there_is_one() -> None:
    model = make_model("anthropic", environment={"ANTHROPIC_API_KEY": KEY})
    assert model.name == f"anthropic/{PROVIDERS['anthropic'].default_model}"
    with pytest.raises(UsageError, match="ollama/ID"):
        make_model("ollama", environment={})


@pytest.mark.parametrize(
    "address",
    [
        "localhost:8080",
        "ftp://x",
        "https://",
        "nonsense",
        "http://[::1/v1",
        "http://h:99999/v1",
        "http://h:0",
        "http://h:x",
    ],
)
def test_a_base_url_that_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="base URL"):
        make_model("openai/x", base_url=address, environment={})


@pytest.mark.parametrize("added", ["…", " two", "\ttwo", "\nlogin: ada"])
def test_what_cannot_be_a_key_is_refused_without_showing_it(added: str) -> None:
    for key, environment in ((f"{KEY}{added}", {}), ("", {"OPENAI_API_KEY": f"{KEY}{added}"})):
        with pytest.raises(UsageError, match="the key for openai contains invalid characters") as caught:
            make_model("openai/x", api_key=key, environment=environment)
        assert KEY not in str(caught.value)


async def test_the_environments_key_is_sent_to_the_configured_address() -> None:
    async with FakeVendor([turn("ok")]) as vendor:
        environment = {"OPENAI_API_KEY": f" {KEY}\n", "OPENAI_BASE_URL": vendor.chat_url}
        model = make_model("openai/x", environment=environment)
        assert (await answer_of(model, request_of())).done.stop_reason == "end"
        await model.aclose()  # type: ignore[attr-defined]
        assert vendor.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_an_endpoint_of_the_vendors_own_needs_its_key_and_another_server_may_not() -> None:
    endpoint = {"AZURE_OPENAI_ENDPOINT": "https://mine.example"}
    with pytest.raises(NoModel, match="AZURE_OPENAI_API_KEY"):
        make_model("azure/x", environment=endpoint)
    assert make_model("azure/x", environment=endpoint | {"AZURE_OPENAI_API_KEY": KEY}).name == "azure/x"
    assert make_model("azure/x", base_url="http://127.0.0.1:1", environment={}).name == "azure/x"
    assert make_model("openai/x", environment={"OPENAI_BASE_URL": "http://127.0.0.1:1"}).name == "openai/x"


@every_wire
async def test_without_a_key_none_is_sent(wire: Wire) -> None:
    provider = "ollama" if wire == "chat" else WIRES[wire].partition("/")[0]
    async with FakeVendor([turn("ok")]) as vendor:
        model = make_model(f"{provider}/x", base_url=vendor.base_url(wire), wire=wire, environment={})
        usage = (await answer_of(model, request_of())).done.usage
        await model.aclose()  # type: ignore[attr-defined]
        headers = vendor.requests[0].headers.keys()
    assert not {"authorization", "x-api-key", "x-goog-api-key"} & headers
    assert usage.cost == (0.0 if wire == "chat" else None)


def test_what_is_peculiar_to_a_provider_is_in_its_requests() -> None:
    def body(name: str, wire: Wire | None = None, **fields: object) -> dict[str, object]:
        model = load_model(name, api_key=KEY, environment={}, wire=wire)
        return json.loads(model.body(request_of(user("Hi"), **fields)))  # type: ignore[no-any-return]

    assert "stream_options" not in body("mistral/x") and "stream_options" in body("groq/x")
    assert body("ollama/x", reasoning="off")["reasoning_effort"] == "none"
    assert "reasoning_effort" not in body("groq/x", reasoning="off")
    assert body("openai/gpt-5.1", reasoning="off", wire="chat")["reasoning_effort"] == "none"
    assert body("openai/x", reasoning="high", wire="chat")["reasoning_effort"] == "high"


def test_naming_a_model_loads_no_wire_and_no_transport() -> None:
    program = (
        "import sys; from ostler.models.factory import make_model; make_model('openai/x', api_key='k');"
        "print([name for name in sys.modules if name.startswith(('ostler.models.wires', "
        "'ostler.models.endpoint', 'ostler.models.transport', 'ostler.models.http_client'))])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_naming_a_model_loads_no_http_library() -> None:
    program = (
        "import sys; from ostler.models.factory import make_model;"
        "make_model('ollama/x'); make_model('anthropic/x', api_key='k');"
        "print(sorted({'httpx2', 'httptools', 'anyio', 'h11', 'email.utils'} & sys.modules.keys()))"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert out.stdout.strip() == "[]"


async def test_a_plain_address_reads_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    import ssl

    def refuse(*_: object) -> None:
        raise AssertionError("certificates were read")

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", refuse)
    async with FakeVendor([turn("ok")]) as vendor:
        model = make_model("ollama/x", base_url=vendor.chat_url, environment={})
        assert (await answer_of(model, request_of())).done.content == (Text("ok"),)
        await model.aclose()  # type: ignore[attr-defined]


@every_wire
async def test_a_fake_vendor_runs_in_a_process_of_its_own(wire: Wire, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"type": "turn", "parts": ["Hello ", {"type": "say", "pieces": ["wor", "ld"]}]}]')
    command = [sys.executable, "-m", "ostler.testkit.vendors", "--wire", wire, "--script", str(script)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            url = (await process.stdout.readline()).decode().strip()
        model = make_model(WIRES[wire], wire=wire, base_url=url, environment={})
        done = (await answer_of(model, request_of())).done
        await model.aclose()  # type: ignore[attr-defined]
        assert "".join(block.text for block in done.content if isinstance(block, Text)) == "Hello world"
    finally:
        process.terminate()
        async with asyncio.timeout(30):
            await process.communicate()


def test_a_script_that_cannot_be_read_is_a_line_on_stderr(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "ostler.testkit.vendors",
        "--wire",
        "chat",
        "--script",
        str(tmp_path / "no"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1


async def test_an_unknown_model_works_and_its_assumptions_are_reported_once() -> None:
    async with FakeVendor([turn("ok"), turn("ok")]) as vendor:
        acme = Provider(name="acme", base_url=vendor.chat_url, key_variables=("ACME_API_KEY",))
        model = make_model("acme/new", api_key=KEY, environment={}, providers={"acme": acme})
        first = await answer_of(model, request_of())
        later = await answer_of(
            model, request_of(user("Hi"), Message("assistant", (Text("Ho"),)), user("Hi"))
        )
        await model.aclose()
    warned = [event.text for event in first.events if isinstance(event, Warned)]
    assert len(warned) == 1
    assert warned[0].startswith(
        "the catalogue does not have acme/new: a context of 128,000 tokens is assumed"
    )
    assert not [event for event in later.events if isinstance(event, Warned)]
    assert first.done.usage.cost is None
