"""Prompt templates: placeholders, conditions, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.context.markdown import outside_code
from ostler.context.slash_commands import (
    ExpandedPrompt,
    Kind,
    PromptFiles,
    expand_command,
    find_prompts,
    prompt_commands,
)
from ostler.context.templates import InvalidTemplate, Parameter, Template, fill, how_to_use, parse
from ostler.schema.errors import UsageError
from ostler.schema.text import joined, split_words

MODEL = "anthropic/claude-sonnet-5-5"
FILE = Parameter(name="file")
FOCUS = Parameter(name="focus", default="correctness")
BASE = Parameter(name="base", default="main", has_position=False)
DEEP = Parameter(name="deep", default=False, has_position=False)


def filled(text: str, words: str = "", *parameters: Parameter, model: str = MODEL) -> str:
    return fill(template(text, *parameters), split_words(words), model).text


def template(text: str, *parameters: Parameter) -> Template:
    return Template(name="t", pieces=parse(text), parameters=parameters)


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("see $1 $2", "a b.c", "see a b.c"),
        ("$1, ${2}", "a 'b c'", "a, b c"),
        ("$10 $@", "1 2 3 4 5 6 7 8 9 ten", "ten 1 2 3 4 5 6 7 8 9 ten"),
        ("<$@>", "a  b\nc", "<a  b\nc>"),
        ("<$ARGUMENTS ${@} ${ARGUMENTS}>", "a b", "<a b a b a b>"),
        ("<$ARGUMENTSX>", "", "<$ARGUMENTSX>"),
        ("<$@>", "", "<>"),
        ("<$+>", "a b", "<a b>"),
        ("<${@:2}> <${@:2:2}> <${@:0}>", "a b c d", "<b c d> <b c> <a b c d>"),
        ("<${@:9}> <${ARGUMENTS:1:0}>", "a", "<> <>"),
        ("<${1:-main}>", "", "<main>"),
        ("<${1:-main}>", "dev", "<dev>"),
        ("<${1:-main}>", "''", "<main>"),
        ("<${1:-{a\\}}>", "", "<{a}>"),
        ("<${@:-all of it}>", "", "<all of it>"),
        ("x${1:+ with }$@", "", "x"),
        ("x${1:+ with }$@", "y", "x with y"),
        ("$1|$2|", "'' b", "|b|"),
        (r"\$1 costs \${2} \{{x}}", "", "$1 costs ${2} {{x}}"),
        ("$1", "$2", "$2"),
        ("$0 ${x} {{x}} ${} $ {{ }} $x ${1:2} $12345", "", "$0 ${x} {{x}} ${} $ {{ }} $x ${1:2} $12345"),
    ],
)
def test_placeholders_are_replaced(text: str, words: str, expected: str) -> None:
    assert filled(text, words) == expected


@pytest.mark.parametrize(
    "code",
    [
        "`$1`",
        "`` $1 ` $@ ``",
        "```sh\necho $1\n```",
        "~~~\n$@ {{file}}\n~~~",
        "```\n$1 is never closed",
        "  ```\n  $1\n  ```",
    ],
)
def test_code_stays_as_it_is(code: str) -> None:
    assert filled(f"$1:\n{code}", "a", FILE) == f"a:\n{code}"


def test_backticks_that_nothing_closes_are_no_code() -> None:
    assert filled("it`s $1\n\nit`s ``` $1", "a") == "it`s a\n\nit`s ``` a"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a.py", "a.py correctness main false a.py"),
        ("a.py speed", "a.py speed main false a.py"),
        ("a.py focus='all of it'", "a.py all of it main false a.py"),
        ("speed file=a.py", "a.py speed main false a.py"),
        ("--file a.py --focus=speed", "a.py speed main false a.py"),
        ('a.py --base "my branch" --deep', "a.py correctness my branch true a.py"),
        ("--deep --no-deep a.py", "a.py correctness main false a.py"),
        ("deep=TRUE a.py", "a.py correctness main true a.py"),
        ('a.py "--deep"', "a.py --deep main false a.py"),
        ("a.py -- --deep", "a.py --deep main false a.py"),
        ("x=1", "x=1 correctness main false x=1"),
        ("a.py focus=", "a.py  main false a.py"),
    ],
)
def test_declared_names_are_filled(words: str, expected: str) -> None:
    assert filled("{{file}} ${focus} {{ base }} {{deep}} $1", words, FILE, FOCUS, BASE, DEEP) == expected


def test_a_flag_switches_a_text_on() -> None:
    text = "Review.${deep:+ Look at the callers, too.}${base:-x}"
    assert filled(text, "", DEEP, BASE) == "Review.main"
    assert filled(text, "--deep", DEEP, BASE) == "Review. Look at the callers, too.main"


def test_without_placeholders_words_are_appended() -> None:
    assert filled("Be brief.\n", "why is\nthis?") == "Be brief.\n\nwhy is\nthis?"
    assert filled("${base}", "--base dev why", BASE) == "dev\n\nwhy"


@pytest.mark.parametrize(
    ("text", "words", "parameters", "complaint"),
    [
        ("$1 $2", "a", (), "/t needs 2 words after it, not 1; usage: /t WORD1 WORD2"),
        ("$+", "", (), "/t needs a word after it, not 0; usage: /t WORD…"),
        ("$1 $+", "", (), "/t needs a word after it, not 0; usage: /t WORD1 WORD…"),
        ("{{file}}", "", (FILE, BASE), "/t needs FILE; usage: /t FILE [--base TEXT]"),
        ("$1", "a b", (), "/t has no place for 'b' (quotes make several words one); usage: /t WORD1"),
        (
            "{{file}}",
            "file=a b",
            (FILE,),
            "/t has no place for 'b' (quotes make several words one); usage: /t FILE",
        ),
        (
            "{{file}}",
            "--fiel a",
            (FILE, DEEP),
            "/t has no flag --fiel; it has: --file, --deep (quotes make it a word)",
        ),
        ("{{file}}", "--file", (FILE,), "/t: --file needs a value"),
        ("{{file}}", "--file --deep", (FILE, DEEP), "/t: --file needs a value"),
        ("{{deep}}", "deep=maybe", (DEEP,), "deep is true or false, not 'maybe'"),
    ],
)
def test_words_without_a_placeholder_are_refused(
    text: str, words: str, parameters: tuple[Parameter, ...], complaint: str
) -> None:
    with pytest.raises(UsageError) as refused:
        filled(text, words, *parameters)
    assert refused.value.message == complaint


def test_without_declared_parameters_dashes_are_words() -> None:
    assert filled("$@", "git log --all -- x=1") == "git log --all -- x=1"


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        (MODEL, True),
        ("anthropic/*", True),
        ("claude-*", True),
        ("claude-sonnet-5-?", True),
        ("openai/*, claude*", True),
        ("*", True),
        ("claude", False),
        ("claude-sonnet.5*", False),
        ("claude-sonnet-5-[5]", False),
        ("(claude*", False),
        ("", False),
    ],
)
def test_a_condition_matches_the_models_it_names(pattern: str, holds: bool) -> None:
    text = f'<if-model is="{pattern}">yes<else>no</if-model>'
    assert filled(text) == ("yes" if holds else "no")


def test_the_id_of_a_model_may_have_slashes() -> None:
    text = '<if-model is="anthropic/*">yes</if-model>'
    assert filled(text, model="openrouter/anthropic/claude") == "yes"


def test_conditions_nest_and_take_their_lines_along() -> None:
    text = (
        'a\n<if-model is="anthropic/*">\nb\n  <if-model is="*haiku*">\nc\n  <else>\nd\n  </if-model>\n'
        "<else>\ne\n</if-model>\nf <else>"
    )
    assert filled(text) == "a\nb\nd\nf <else>"
    assert filled(text, model="anthropic/haiku") == "a\nb\nc\nf <else>"
    assert filled(text, model="openai/gpt") == "a\ne\nf <else>"


def test_only_the_models_part_of_a_template_needs_words() -> None:
    text = '<if-model is="openai/*">$1<else>nothing</if-model>'
    assert filled(text) == "nothing"
    with pytest.raises(UsageError):
        filled(text, model="openai/gpt")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('a\n<if-model is="x">', 2),
        ("a\n\n</if-model>", 3),
        ('<if-model is="x">\n<else>\n<else>\n</if-model>', 3),
        ("<if-model x>", 1),
        ("<if-model is='x'></if-model>", 1),
    ],
)
def test_a_condition_that_is_not_whole_is_named_with_its_line(text: str, line: int) -> None:
    with pytest.raises(InvalidTemplate) as refused:
        parse(text)
    assert refused.value.line == line


def test_what_was_used_is_named_once() -> None:
    one = template("$@ {{file}} ${file} $3 {{other}}", FILE)
    assert fill(one, split_words("a b c"), MODEL).used == ("@", "file", "3")
    assert how_to_use(one) == "/t FILE WORD3 [WORD…]"


MARKS = """
$1 ${1:- } $@ ${@: $+ {{ }} file ${file:+ ` ``` ~~~ \\ <if-model is=" *"> <else> </if-model> -- = ' " 9 é
"""
PIECES = st.sampled_from([*MARKS.split(), '<if-model is="', "\n", " ", "\0"])
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=30).map("".join)


@given(TEXTS, TEXTS)
def test_nothing_but_its_own_errors_is_ever_raised(text: str, words: str) -> None:
    try:
        fill(template(text, FILE, DEEP), split_words(words), MODEL)
    except (InvalidTemplate, UsageError) as error:
        assert str(error)


@given(st.text(alphabet=st.characters(exclude_characters="$\\{<")))
def test_a_text_without_places_is_unchanged(text: str) -> None:
    assert filled(text) == text


@given(TEXTS)
def test_parts_outside_of_code_are_in_order_and_apart(text: str) -> None:
    at = 0
    for begin, end in outside_code(text):
        assert at <= begin <= end <= len(text)
        at = end


@given(TEXTS)
def test_words_are_split_at_blanks(text: str) -> None:
    plain = text.replace("'", "").replace('"', "").replace("\\", "")
    assert [word.text for word in split_words(plain)] == plain.split()
    assert joined(split_words(plain)) == plain.strip()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("""a "b c" 'd e' f\\ g""", ["a", "b c", "d e", "f g"]),
        ("""'' "" x""", ["", "", "x"]),
        ("""don't say 'x\\y' "\\"" \\"a""", ["don't", "say", "x\\y", '"', '"a']),
        ("""k="a b" --k='c d' e\\n""", ["k=a b", "--k=c d", "e\\n"]),
        (""" "open ended""", ['"open', "ended"]),
        ("\\", ["\\"]),
    ],
)
def test_quotes_and_escapes(text: str, words: list[str]) -> None:
    assert [word.text for word in split_words(text)] == words


# --- slash commands ---------------------------------------------------------------------------------

ECHO = Kind(
    ["review", "commit", "etc"], lambda name, words: ExpandedPrompt(f"{name}:{[w.text for w in words]}")
)
KINDS = {"": ECHO, "skill": Kind(["pdf"], lambda name, words: ExpandedPrompt(f"skill {name}"))}


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("/review", "review:[]"),
        (" /review a 'b c'", "review:['a', 'b c']"),
        (["/review", "b c", "don't"], """review:['b c', "don't"]"""),
        (["/review a", "b c"], "review:['a', 'b c']"),
        ("/skill:pdf x", "skill pdf"),
        ("//review a", "/review a"),
        ("// a comment", "// a comment"),
        ("/tmp is full", "/tmp is full"),
        ("/no/such/file is gone", "/no/such/file is gone"),
        ("/ or not", "/ or not"),
        ("review /commit", "review /commit"),
        ("/etc x", "etc:['x']"),
    ],
)
def test_a_prompt_is_expanded(typed: str | list[str], text: str) -> None:
    assert expand_command(typed, KINDS).text == text


def test_an_unknown_command_suggests_skills_with_that_prefix() -> None:
    for typed in ("/rel", "/release", "/relase now"):
        with pytest.raises(UsageError, match="did you mean /skill:release"):
            expand_command(typed, KINDS, ["/skill:release", "/skill:deploy"])


def test_an_unknown_command_suggests_similar_ones() -> None:
    with pytest.raises(UsageError, match="there is no /bogus: the commands are /"):
        expand_command("/bogus", KINDS, ["/logout"])
    with pytest.raises(
        UsageError, match=r"there is no /reviwe: did you mean /review\? Type //reviwe to send it"
    ):
        expand_command("/reviwe a", KINDS)
    with pytest.raises(UsageError, match="the commands are /commit, /etc, /review, /skill:pdf"):
        expand_command("/zzz", KINDS)
    with pytest.raises(UsageError, match=r"\.ostler/prompts/NAME\.md would be one"):
        expand_command("/zzz", {})


# --- files ------------------------------------------------------------------------------------------


def find(tmp_path: Path) -> PromptFiles:
    (tmp_path / "p" / "sub").mkdir(parents=True, exist_ok=True)
    return find_prompts(tmp_path / "p" / "sub", tmp_path / "p", tmp_path / "own")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_nearest_file_wins(tmp_path: Path) -> None:
    write(tmp_path / "own" / "a.md", "own a")
    write(tmp_path / "own" / "b.md", "own b")
    write(tmp_path / "p/.agents/prompts/a.md", "agents a")
    write(tmp_path / "p/.ostler/prompts/a.md", "root a")
    write(tmp_path / "p/sub/.agents/prompts/c.md", "near c")
    write(tmp_path / "p/.ostler/prompts/c.md", "root c")
    write(tmp_path / ".ostler/prompts/d.md", "above the project")
    files_found = find(tmp_path).by_name
    assert {name: one.body for name, one in files_found.items()} == {
        "a": "root a",
        "b": "own b",
        "c": "near c",
    }
    assert (files_found["a"].scope, files_found["b"].scope) == ("project", "user")


def test_front_matter_declares_a_templates_parameters(tmp_path: Path) -> None:
    declared = "arguments:\n  file:\n  lines: 3\nflags:\n  deep: true\n  base:\n"
    write(tmp_path / "own/r.md", f"---\ndescription: D\n{declared}---\n\n{{{{file}}}} $2\n")
    write(tmp_path / "own/s.md", "---\narguments: [a, b]\nmodel: x/y\n---\n# Say {{a}} {{c}}")
    files = find(tmp_path)
    assert files.by_name["r"].usage == "/r FILE [LINES] [--no-deep] [--base TEXT]"
    assert files.by_name["s"].description == "Say {{a}} {{c}}"
    assert [one.rpartition(": ")[2] for one in files.problems] == [
        "its `model` is not supported",
        "{{c}} is not among its arguments and flags, and stays as it is",
    ]
    expanded = expand_command("/r x", {"": prompt_commands(files, MODEL)})
    assert expanded == ExpandedPrompt("x 3", files.by_name["r"].source, True, ("file", "lines"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\nx: 1\n---\na\n<if-model>", "line 5: a condition is"),
        ("---\ndescription: [a]\n---\n", "`description` is a text"),
        ("---\narguments: x\n---\n", "`arguments` is a table"),
        ("---\narguments: [a b]\n---\n", "'a b' cannot be the name"),
        ("---\narguments: [a]\nflags:\n  a: x\n---\n", "'a' is declared twice"),
        ("---\nflags:\n  a: [x]\n---\n", "the default of 'a' is"),
        ("---\n", "line 1: the front matter"),
    ],
)
def test_a_file_that_cannot_be_used_keeps_its_name(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path / "own/r.md", "own")
    write(tmp_path / "p/.ostler/prompts/r.md", text)
    files = find(tmp_path)
    assert problem in files.problems[0]
    with pytest.raises(UsageError, match=r"r\.md: "):
        expand_command("/r", {"": prompt_commands(files, MODEL)})


def test_an_empty_template_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "own/r.md", '<if-model is="openai/*">x</if-model>')
    with pytest.raises(UsageError, match="/r is empty for anthropic"):
        expand_command("/r", {"": prompt_commands(find(tmp_path), MODEL)})


def test_a_projects_link_may_not_lead_out_of_it(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret.md", "secret")
    place = tmp_path / "p/.ostler/prompts"
    place.mkdir(parents=True)
    (place / "r.md").symlink_to(secret)
    assert "a link to a file outside the project" in find(tmp_path).unusable["r"]
