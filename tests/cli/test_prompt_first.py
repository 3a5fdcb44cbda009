"""A prompt without a named model: a terminal asks, otherwise a line names the model."""

from __future__ import annotations

from ostler.models.scripted import LABEL, WAYS
from ostler.testkit.vendors import turn
from tests.support.command import KEY, Ostler
from tests.support.fixtures import Configure, Serve


def test_a_discovered_server_answers_and_is_named(ostler: Ostler, serve: Serve, configure: Configure) -> None:
    vendor = serve(turn("From this machine."), models=["nomic-embed-text", "qwen3:8b"])
    configure(ollama=vendor.chat_url)
    ran = ostler("-p", "hello")
    assert (ran.code, ran.out) == (0, "From this machine.\n")
    address = vendor.chat_url.removeprefix("http://").removesuffix("/v1")
    assert ran.err == f"ostler: no model is named: using ollama/qwen3:8b, running at {address}\n"
    assert [one.path for one in vendor.requests] == ["/v1/models", "/v1/chat/completions"]
    assert not any("authorization" in one.headers for one in vendor.requests)


def test_with_a_key_no_server_is_probed(ostler: Ostler, serve: Serve, configure: Configure) -> None:
    found, vendor = serve(models=["m"]), serve(turn("From the vendor."), api_key=KEY)
    configure(ollama=found.chat_url)
    ran = ostler("-p", "hello", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=vendor.anthropic_url)
    assert (ran.code, ran.out, ran.err) == (0, "From the vendor.\n", "")
    assert found.requests == []


def test_consent_to_a_server_is_remembered(ostler: Ostler, serve: Serve, configure: Configure) -> None:
    vendor = serve(turn("One."), turn("Two."), models=["m"])
    configure(jan=vendor.chat_url)
    first = ostler.on_terminal("-p", "hello", typed=b"what?\nyes\n")
    assert first.code == 0 and first.out.endswith("One.\n")
    assert first.err.count("jan/m is running at ") == 2 and first.err.count("[yes/no]") == 2
    second = ostler.on_terminal("-p", "hello")
    assert (second.code, second.out, second.err) == (0, "Two.\n", "")


def test_a_declined_server_leads_to_the_demo(ostler: Ostler, serve: Serve, configure: Configure) -> None:
    vendor = serve(models=["m"])
    configure(jan=vendor.chat_url)
    ran = ostler.on_terminal("-p", "hello", typed=b"no\n")
    assert ran.code == 0 and LABEL in ran.out and LABEL in ran.err
    for way in WAYS:
        assert way[1:] in ran.out
    refused = ostler("-p", "hello")
    assert refused.code == 3 and "no model can answer" in refused.err


def test_end_of_input_is_not_an_answer(ostler: Ostler, serve: Serve, configure: Configure) -> None:
    configure(jan=serve(models=["m"]).chat_url)
    ran = ostler.on_terminal("-p", "hello", typed=b"\x04")
    assert ran.code == 2 and "there was no answer, so nothing was done" in ran.err
    assert not (ostler.home / "servers.json").exists()


def test_the_demo_is_labelled_everywhere(ostler: Ostler) -> None:
    from ostler.models.scripted import JOB

    ran = ostler("-p", "--json", "--model", "demo", "--yes", JOB)
    messages = [
        block["text"] for one in ran.all("assistant_message") for block in one["content"] if "text" in block
    ]
    assert len(messages) == 3 and all(text.startswith(LABEL) for text in messages)
    refused = ostler("-p", "--model", "demo", JOB)
    assert refused.code == 4 and refused.out.startswith(LABEL)
