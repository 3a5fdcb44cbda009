"""`context.templates`: templates, arguments and conditions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.extensions.context_api.templates import ArgumentPattern, ModelCondition, Templates
from ostler.schema.errors import UsageError

context: Any = SimpleNamespace(model="anthropic/claude-9.5")
templates = Templates(context)

PATTERN = ArgumentPattern(
    positional=("command", "target"), rest="notes", flags={"--base": "base", "-v": "verbose"}
)
texts = st.text(st.sampled_from("ab{} -=/\"'\\\t\n<>`$.1") | st.characters(), max_size=40)


def test_a_template_lists_its_names_once_and_in_order() -> None:
    template = templates.parse("review", "{{ file }} and {{base}}, {{file}} {{\n base }} {{}} {{a b}}")
    assert template.names == ("file", "base")
    assert (template.name, template.text.count("{{")) == ("review", 6)


def test_a_name_without_a_value_stays_as_it_is() -> None:
    template = templates.parse("x", "{{ a }} {{b}} `{{a}}`")
    assert templates.render(template, {"a": "{{b}}"}) == "{{b}} {{b}} `{{b}}`"
    assert templates.render("{{a}}", {"a": "1", "z": "2"}) == "1"


def test_the_first_word_is_an_argument_and_a_command_is_none() -> None:
    typed = templates.arguments("deploy prod now or never", PATTERN)
    assert typed.values == {"command": "deploy", "target": "prod", "notes": "now or never"}
    behind = templates.arguments("/go deploy prod", PATTERN)
    assert behind.values == {"command": "deploy", "target": "prod"}
    assert templates.arguments("/etc/hosts", PATTERN).values == {"command": "/etc/hosts"}
    assert templates.arguments('"/go" x', PATTERN).values == {"command": "/go", "target": "x"}


def test_flags_take_the_next_word_unless_that_is_a_flag() -> None:
    typed = templates.arguments("deploy --base main -v prod", PATTERN)
    assert typed.flags == {"base": "main", "verbose": "prod"}
    assert typed.values == {"command": "deploy", "base": "main", "verbose": "prod"}
    assert templates.arguments("-v --base=a=b x", PATTERN).flags == {"verbose": "true", "base": "a=b"}
    assert templates.arguments("--base -1 x", PATTERN).flags == {"base": "-1"}
    assert templates.arguments("--base '--x' y", PATTERN).flags == {"base": "--x"}


def test_a_word_that_equals_the_value_of_a_flag_is_still_a_word() -> None:
    typed = templates.arguments("main --base main main", PATTERN)
    assert typed.values == {"command": "main", "target": "main", "base": "main"}


def test_an_unknown_flag_is_reported_and_the_other_words_are_read() -> None:
    typed = templates.arguments("deploy --force prod -- --base x", PATTERN)
    assert typed.problem == "unknown flags: --force; the flags are: --base, -v"
    assert typed.values == {"command": "deploy", "target": "prod", "notes": "--base x"}
    assert typed.words == ("deploy", "--force", "prod", "--", "--base", "x")
    assert templates.arguments("a b", ArgumentPattern()).rest == "a b"


def test_quotes_and_backslashes_make_words() -> None:
    typed = templates.arguments(r"""'a b' "c \"d" e\ f '' g""", ArgumentPattern())
    assert typed.words == ("a b", 'c "d', "e f", "", "g")


def test_words_are_padded_and_the_remaining_text_is_last() -> None:
    assert templates.words("a 'b c'  d   e", 2) == ["a 'b c'  d   e", "a", "b c", "d   e"]
    assert templates.words("a", 3) == ["a", "a", "", "", ""]
    assert templates.words("", 0) == ["", ""]


def test_patterns_fit_the_whole_name_or_the_id_and_other_signs_mean_themselves() -> None:
    assert templates.matches("anthropic/*")
    assert templates.matches("claude-9.5")
    assert templates.matches("gpt-*, claude-?.5")
    assert not templates.matches("claude-9x5")
    assert not templates.matches("claude")
    assert not templates.matches("claude-9[.]5")
    assert not templates.matches("")
    assert not templates.matches(",")
    assert templates.matches("a(b", model="x/a(b")
    assert not templates.matches("anthropic/*", model="openai/gpt")


def test_a_condition_chooses_one_of_two_texts() -> None:
    condition = ModelCondition("claude-*", "think", "just do")
    assert templates.choose(condition) == "think"
    assert templates.choose(condition, "openai/gpt") == "just do"


def test_conditions_in_a_text_are_decided_and_all_else_stays() -> None:
    text = 'A {{x}} \\$1 $1 <if-model is="claude-*">B<else>C</if-model> D `<if-model is="x">`'
    assert templates.for_model(text) == 'A {{x}} \\$1 $1 B D `<if-model is="x">`'
    assert templates.for_model(text, "openai/gpt") == 'A {{x}} \\$1 $1 C D `<if-model is="x">`'
    nested = '<if-model is="*">1<if-model is="gpt">2<else>3</if-model></if-model>'
    assert templates.for_model(nested) == "13"


def test_a_condition_that_is_not_whole_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match="line 2: the condition that begins here has no </if-model>"):
        templates.for_model('x\n<if-model is="a">')


@given(texts, texts)
def test_reading_arguments_never_fails_and_loses_no_word(text: str, name: str) -> None:
    pattern = ArgumentPattern(("a", "b"), "rest", {"--f": "f", name: "odd"})
    typed = templates.arguments(text, pattern)
    assert len(templates.words(text, 3)) == 5
    assert set(typed.flags.items()) <= set(typed.values.items())
    plain = templates.arguments(text, ArgumentPattern())
    assert plain.words == typed.words
    assert plain.values == {}


@given(
    texts, st.dictionaries(st.sampled_from(["a", "ab", "b"]), st.text(st.sampled_from("ab 1"), max_size=5))
)
def test_rendering_never_fails_and_is_done_once(text: str, values: dict[str, str]) -> None:
    template = templates.parse("x", text)
    rendered = templates.render(template, values)
    assert set(templates.parse("x", templates.render(text, {})).names) == set(template.names)
    if not any(sign in rendered for sign in "{}"):
        assert templates.render(rendered, values) == rendered


@given(texts, texts)
def test_matching_never_fails_and_a_plain_name_fits_itself(pattern: str, model: str) -> None:
    templates.matches(pattern, model)
    if model.strip() == model and model and not set(model) & set("*?,"):
        assert templates.matches(model, model)


@given(texts)
def test_deciding_conditions_fails_only_where_one_is_not_whole(text: str) -> None:
    try:
        decided = templates.for_model(text)
    except UsageError:
        return
    if "if-model" not in text:
        assert decided == text
