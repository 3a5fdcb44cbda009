"""`ostler prompts`, and the expansion of `/name` and `@path` by `ostler -p`."""

from __future__ import annotations

import json

import pytest

from ostler.testkit.vendors import FakeVendor, call, turn
from tests.support.command import Ostler, use
from tests.support.fixtures import InProcess, Serve

A = "--- a.py, as read shows it ---\n1\tone"
OWN = "--- own.txt, as read shows it ---\n1\town"
EDIT = call("edit", {"path": "a.py", "edits": [{"old_text": "one", "new_text": "two"}]})
REVIEW = """---
description: Reviews a file
arguments: [file]
flags:
  deep: false
---
Review {{file}}.${deep:+ Look deep.} @own.txt
"""


@pytest.fixture
def prompts(ostler: Ostler) -> Ostler:
    folder = ostler.work / ".ostler/prompts"
    folder.mkdir(parents=True)
    (folder / "review.md").write_text(REVIEW)
    own = ostler.home / "prompts"
    own.mkdir(parents=True)
    (own / "mine.md").write_text("Mine: $@ @own.txt")
    (ostler.work / "own.txt").write_text("own\n")
    (ostler.work / "a.py").write_text("one\n")
    return ostler


def sent_prompt(vendor: FakeVendor) -> str:
    """The newest message of a person."""
    content: str = vendor.requests[-1].json["messages"][-1]["content"]
    return content


def test_templates_are_listed(prompts: Ostler, in_process: InProcess) -> None:
    code, out, err = in_process("prompts")
    assert (code, err) == (0, "")
    assert [line.split("  ")[0] for line in out.splitlines()] == ["/mine [WORD…]", "/review FILE [--deep]"]
    assert ".ostler/prompts/review.md" in out


def test_templates_are_listed_as_json(prompts: Ostler, in_process: InProcess) -> None:
    _, out, _ = in_process("prompts", "--json")
    mine, review = map(json.loads, out.splitlines())
    assert (mine["name"], mine["scope"]) == ("mine", "user")
    assert review["usage"] == "/review FILE [--deep]"


def test_a_template_is_shown(prompts: Ostler, in_process: InProcess) -> None:
    code, out, err = in_process("prompts", "show", "/mine")
    assert (code, out) == (0, "Mine: $@ @own.txt\n")
    assert "usage: /mine [WORD…]" in err
    _, out, _ = in_process("prompts", "show", "mine", "--json")
    assert json.loads(out)["body"] == "Mine: $@ @own.txt"


def test_a_missing_template_is_reported(prompts: Ostler, in_process: InProcess) -> None:
    code, _, err = in_process("prompts", "show", "other")
    assert (code, err) == (2, "ostler: there is no template 'other'; the templates are: mine, review\n")


def test_an_empty_list_says_where_to_put_templates(in_process: InProcess) -> None:
    code, out, err = in_process("prompts")
    assert (code, out) == (0, "")
    assert "there are no templates; create .ostler/prompts/NAME.md here" in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["/reviw", "a.py"], "there is no /reviw: did you mean /review? Type //reviw to send it as text"),
        (["/review"], "/review needs FILE; usage: /review FILE [--deep]"),
        (["--", "/review", "--fast", "a"], "/review has no flag --fast; it has: --file, --deep"),
    ],
)
def test_a_command_with_invalid_arguments_is_refused(
    prompts: Ostler, in_process: InProcess, words: list[str], complaint: str
) -> None:
    code, _, err = in_process("-p", "--model", "demo", *words)
    assert code == 2
    assert err.startswith(f"ostler: {complaint}")
    assert err.count("\n") == 1


def test_a_projects_template_attaches_only_typed_mentions(prompts: Ostler, serve: Serve) -> None:
    vendor = serve(turn("done"))
    ran = prompts("-p", *use(vendor), "/review", "@a.py", "deep=true")
    assert (ran.code, ran.err) == (0, "")
    assert sent_prompt(vendor) == f"Review @a.py. Look deep. @own.txt\n{A}"


def test_a_users_template_may_mention_files(prompts: Ostler, serve: Serve) -> None:
    vendor = serve(turn("done"))
    prompts("-p", *use(vendor), "/mine", "two  words", "and more")
    assert sent_prompt(vendor) == f"Mine: two  words and more @own.txt\n{OWN}"


def test_piped_input_is_not_expanded(prompts: Ostler, serve: Serve) -> None:
    vendor = serve(turn("done"), turn("done"))
    prompts("-p", *use(vendor), piped=b"/review @a.py")
    assert sent_prompt(vendor) == "/review @a.py"
    prompts("-p", *use(vendor), "/mine @a.py", piped=b"@own.txt $1")
    assert sent_prompt(vendor) == f"Mine: @a.py @own.txt\n\n@own.txt $1\n{A}\n{OWN}"


def test_a_prompt_can_be_sent_verbatim(prompts: Ostler, serve: Serve) -> None:
    vendor = serve(turn("done"))
    ran = prompts("-p", *use(vendor), "--no-expand", "/nothing", "@a.py", "@no/such.py")
    assert (ran.code, ran.err) == (0, "")
    assert sent_prompt(vendor) == "/nothing @a.py @no/such.py"


def test_a_missing_path_is_reported(prompts: Ostler, serve: Serve) -> None:
    vendor = serve(turn("done"))
    ran = prompts("-p", *use(vendor), "see @src/b.py")
    assert ran.code == 0
    assert ran.err == "ostler: @src/b.py: no such file or directory; it is sent as plain text\n"
    assert sent_prompt(vendor) == "see @src/b.py"


def test_a_mentioned_file_counts_as_read(prompts: Ostler, serve: Serve) -> None:
    vendor = serve(turn(EDIT), turn("done"))
    ran = prompts("-p", "--yes", *use(vendor), "change @a.py")
    assert ran.code == 0
    assert (prompts.work / "a.py").read_text() == "two\n"
