from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ostler.core
from ostler.context import tokenizers
from ostler.context.tokenizers import (
    EstimatingTokenizer,
    RoutedTokenizer,
    SplintrTokenizer,
    estimated_tokens,
    tokenizer_for,
    vocabulary_of,
)
from ostler.core.context import Count
from ostler.schema.messages import Image, Message, Text, user

pytest.importorskip("splintr", reason="splintr is not installed; `make .venv/.dev` installs it")

OPENAI = "openai/gpt-5.4"


@pytest.fixture
def anew() -> Iterator[None]:
    """Tokenizers are chosen again, before and after."""
    caches = (tokenizer_for, tokenizers._encoder)
    for one in caches:
        one.cache_clear()
    yield
    for one in caches:
        one.cache_clear()


@pytest.mark.parametrize(
    ("model", "vocabulary"),
    [
        (OPENAI, "o200k_base"),
        ("openrouter/openai/gpt-4o-mini", "o200k_base"),
        ("azure/o3", "o200k_base"),
        ("openai/gpt-4-turbo", "cl100k_base"),
        ("openai/gpt-3.5-turbo-0613", "cl100k_base"),
        ("fireworks/accounts/fireworks/models/gpt-oss-120b", "gpt-oss"),
        ("google/gemini-3.5-flash", "gemma3"),
        ("groq/deepseek-r1-distill-llama-70b", None),
        ("google/gemini-4-argon", None),
        ("ollama/phi4:14b", "phi4"),
        ("ollama/phi4-mini", None),
        ("openrouter/deepseek/deepseek-v3.2", "deepseek_v3"),
        ("together/Qwen/Qwen3-32B", "qwen3"),
        ("openrouter/qwen/qwen-2.5-72b-instruct", "qwen3"),
        ("moonshot/kimi-k3", "kimi_k3"),
        ("ollama/llama3.2:3b", "llama3"),
        ("mistral/open-mistral-nemo", "mistral_v3"),
        ("together/Qwen/Qwen3.5-9B", None),
        ("openai/gpt-6.1-sol", None),
        ("anthropic/claude-sonnet-5-5", None),
        ("openrouter/meta-llama/llama-4-scout", None),
        ("openrouter/openrouter/auto", None),
        ("", None),
    ],
)
def test_a_model_is_counted_by_its_own_vocabulary(model: str, vocabulary: str | None) -> None:
    assert vocabulary_of(model) == vocabulary
    counter = RoutedTokenizer().text("Hello, world!", model)
    assert counter.source == ("tokenizer" if vocabulary else "estimated")


def test_every_vocabulary_in_the_table_is_on_board() -> None:
    for _, vocabulary in tokenizers._VOCABULARIES:
        assert SplintrTokenizer(vocabulary).text("Hello, world!", "").tokens >= 3


def test_texts_have_their_expected_counts() -> None:
    o200k, cl100k = SplintrTokenizer("o200k_base"), SplintrTokenizer("cl100k_base")
    assert o200k.text("hello world", OPENAI) == Count(2, "tokenizer", "high")
    assert cl100k.text("antidisestablishmentarianism", "openai/gpt-4").tokens == 6
    assert o200k.text("", OPENAI).tokens == 0


def test_text_that_spells_a_special_token_counts_as_text() -> None:
    assert SplintrTokenizer("o200k_base").text("<|endoftext|>", OPENAI).tokens > 1


def test_half_a_surrogate_pair_can_be_counted() -> None:
    assert SplintrTokenizer("o200k_base").text("a\ud800b", OPENAI).tokens >= 2


@given(st.lists(st.text(max_size=80), max_size=4))
def test_a_message_counts_more_than_its_texts(parts: list[str]) -> None:
    tokenizer = SplintrTokenizer("o200k_base")
    message = Message("user", tuple(map(Text, parts)))
    count = tokenizer.message(message, OPENAI)
    assert count.tokens > sum(tokenizer.text(part, OPENAI).tokens for part in parts)
    assert (count.source, count.confidence) == ("tokenizer", "high")


def test_a_picture_makes_a_count_uncertain() -> None:
    message = user("Look:", Image("image/png", url="https://example.org/a.png"))
    assert SplintrTokenizer("o200k_base").message(message, OPENAI).confidence == "low"


@pytest.mark.parametrize("vocabulary", ["o200k_base", "gemma3", "deepseek_v3", "kimi_k3", "qwen3"])
def test_the_estimate_of_code_and_prose_is_within_a_quarter(vocabulary: str) -> None:
    root = Path(ostler.core.__file__).parent
    tokenizer = SplintrTokenizer(vocabulary)
    for text in (root.joinpath("loop.py").read_text(), _PROSE):
        exact = tokenizer.text(text, "").tokens
        assert 0.75 * exact <= estimated_tokens(text) <= 1.25 * exact


def test_without_the_extra_everything_is_estimated(anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "splintr", None)
    assert isinstance(tokenizer_for(OPENAI), EstimatingTokenizer)


def test_a_vocabulary_that_the_installed_version_lacks_is_no_failure(
    anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizers, "vocabulary_of", lambda model: "of-tomorrow")
    assert isinstance(tokenizer_for(OPENAI), EstimatingTokenizer)


def test_nothing_is_loaded_before_the_first_count() -> None:
    code = "import sys, ostler.context.tokenizers; sys.exit('splintr' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


_PROSE = """\
A session is one durable conversation. It owns a log, and the entries in the log form a tree with a current
leaf. What a person sees, what the model is told, and what survives a crash all follow from it. When a run is
cut short, the facts that were committed say how far it came, and whoever opens the session next goes on from
there. Nobody has to remember what happened: it was written down before anybody acted on it.
"""
