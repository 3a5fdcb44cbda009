"""`ostler sessions`: everything that needs no run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ostler.schema.events import SessionStarted, UserMessage
from ostler.schema.facts import Fact
from ostler.schema.messages import Text
from ostler.store.sqlite import SqliteStore
from ostler.testkit.vendors import Refusal, call, turn
from tests.support.command import KEY, Ostler, use
from tests.support.fixtures import Serve
from tests.support.stored import facts_of


def ask(ostler: Ostler, prompt: str, **options: Path) -> str:
    """Runs a prompt and returns the id of its session."""
    ran = ostler("-p", "--json", "--model", "demo", prompt, **options)
    assert ran.code == 0
    session: str = ran.facts[0]["session"]
    return session


def ids(ostler: Ostler, *options: str) -> list[str]:
    return [one["id"] for one in ostler("sessions", "list", "--json", *options).lines]


def test_without_a_store_nothing_is_listed_and_none_is_created(ostler: Ostler) -> None:
    for arguments in (("sessions",), ("sessions", "list", "--json"), ("sessions", "search", "word")):
        ran = ostler(*arguments)
        assert (ran.code, ran.out) == (0, "")
        assert ran.err == "ostler: there are no sessions yet; `ostler -p PROMPT…` starts one\n"
    for arguments in (
        ("show", "x"),
        ("export", "x"),
        ("fork", "x"),
        ("rename", "x", "y"),
        ("delete", "--yes", "x"),
    ):
        ran = ostler("sessions", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("ostler: there are no sessions yet") and ran.err.count("\n") == 1
    assert not ostler.home.exists()


def test_sessions_are_listed_newest_first(ostler: Ostler) -> None:
    below = ostler.work / "below"
    below.mkdir()
    first = ask(ostler, "the first prompt,\nin two lines")
    second = ask(ostler, "the second", cwd=below)
    third = ask(ostler, "日本語のプロンプト \x1b[31mred")
    rows = [re.split(r" {2,}", line) for line in ostler("sessions").out.splitlines()]
    assert [(row[0], *row[2:]) for row in rows] == [
        (third, "completed", "日本語のプロンプト \ufffd[31mred", str(ostler.work)),
        (second, "completed", "the second", str(below)),
        (first, "completed", "the first prompt, in two lines", str(ostler.work)),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", row[1]) for row in rows)
    assert ids(ostler) == ids(ostler, "--all") == [third, second, first]
    assert ids(ostler, "--here") == [third, first]
    limited = ostler("sessions", "--limit", "1")
    assert limited.out.startswith(third) and limited.out.count("\n") == 1
    assert limited.err == "ostler: 2 more; use --limit or --all\n"
    (newest, *_) = ostler("sessions", "--json").lines
    assert newest["cwd"] == str(ostler.work) and newest["preview"].startswith("日本語")


def test_a_terminal_gets_rows_of_its_width_with_short_ids(ostler: Ostler) -> None:
    first, second = ask(ostler, "short"), ask(ostler, "a very long prompt " * 20)
    output = ostler.on_terminal("sessions", columns=70).out
    head, newer, older = output.splitlines()
    assert head.split() == ["ID", "AGE", "STATUS", "SESSION", "FOLDER"]
    assert max(map(len, (head, newer, older))) <= 70
    assert "…" in newer and "short" in older and " now " in older
    for line, session in ((newer, second), (older, first)):
        short = line.split()[0]
        assert len(short) < len(session)
        assert ostler("sessions", "show", short).out.startswith(f"session {session}")


def test_a_session_is_printed_as_text(ostler: Ostler, serve: Serve) -> None:
    (ostler.work / "a.txt").write_text("text\n")
    vendor = serve(
        turn("I look.", call("read", {"path": "a.txt"}), call("bash", {"command": "rm a.txt"})),
        turn("It says\n\n  text."),
    )
    ostler("-p", *use(vendor), "look at a.txt")
    (session,) = ids(ostler)
    ran = ostler("sessions", "show", session)
    assert ran.code == 0
    head, body = ran.out.split("\n\n", 1)
    assert head.startswith(f"session {session}\ncompleted, begun 20") and head.endswith(f"in {ostler.work}")
    body = re.sub(r"^#\d+ ", "# ", body, flags=re.MULTILINE)
    expected = [
        "# you:\n  look at a.txt\n",
        "# assistant:\n  I look.\n",
        "# read: a.txt\n",
        "# bash: rm a.txt",
        "# read ok: 1 line",
        "# bash failed (call_refused): permissions are read-only: ",
        "# assistant:\n  It says\n\n    text.",
    ]
    at = 0
    for part in expected:
        at = body.index(part, at) + len(part)
    assert KEY not in ran.out


def test_show_prints_waiting_and_failed_runs(ostler: Ostler, serve: Serve) -> None:
    waiting = serve(turn(call("bash", {"command": "make"})))
    ostler("-p", *use(waiting), "--permissions", "ask", "--on-question", "wait", "list")
    output = ostler("sessions", "show", *ids(ostler)).out
    assert "asked: Allow bash: make [" in output and "\n  the run waits: question\n" in output
    ostler("-p", *use(serve(Refusal(400, "not today"))), "try")
    output = ostler("sessions", "show", ids(ostler)[0]).out
    assert re.search(r"the model failed: .*not today.*\n  the run ended: failed: .*not today", output)


def test_messages_are_found_by_their_words(ostler: Ostler) -> None:
    first, second = ask(ostler, "where is the walrus"), ask(ostler, "a walrus and a carpenter")
    both = ostler("sessions", "search", "walrus")
    assert {line.split()[0] for line in both.out.splitlines()} == {first, second}
    (hit,) = ostler("sessions", "search", "carpenter", "walrus", "--json").lines
    assert hit["session"] == second and "carpenter" in hit["snippet"]
    assert ostler("sessions", "search", "carpenter").out == f"{second}  #4  a walrus and a carpenter\n"
    none = ostler("sessions", "search", '"oyster')
    assert (none.code, none.out, none.err) == (0, "", "ostler: no message contains all of these words\n")


def test_an_exported_session_is_imported_in_another_directory(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("The answer."), turn("Another."))
    ostler("-p", *use(vendor), "What is the question?")
    (session,) = ids(ostler)
    folder = ostler.work / "exports"
    folder.mkdir()

    (file,) = ostler("sessions", "export", session, str(folder)).out.splitlines()
    assert re.fullmatch(
        rf"{re.escape(str(folder))}/\d{{4}}-\d\d-\d\d-{session[:14]}-what-is-the-question\.jsonl", file
    )
    named = ostler("sessions", "export", session[:14], "exports/mine").out
    assert named == "exports/mine.jsonl\n"
    assert Path(file).read_bytes() == (folder / "mine.jsonl").read_bytes()
    assert Path(file).stat().st_mode & 0o777 == 0o600
    assert ostler("sessions", "export", session).out == Path(file).read_text()
    assert str(ostler.work) not in Path(file).read_text()
    again = ostler("sessions", "export", session, "exports/mine")
    assert (again.code, again.out) == (2, "") and "exists already" in again.err
    assert sorted(path.name for path in folder.iterdir()) == sorted(["mine.jsonl", Path(file).name])
    astray = ostler("sessions", "export", session, "no/such/folder/x")
    assert (astray.code, astray.err.count("\n")) == (2, 1)

    elsewhere = ostler.work / "elsewhere"
    elsewhere.mkdir()
    imported = ostler("sessions", "import", file, cwd=elsewhere).out.strip()
    piped = ostler("sessions", "import", "-", piped=Path(file).read_bytes(), cwd=elsewhere).out.strip()
    assert len({session, imported, piped}) == 3
    newest = {one["id"]: one for one in ostler("sessions", "--json").lines}
    assert newest[imported]["cwd"] == newest[piped]["cwd"] == str(elsewhere)
    for one in (imported, piped):
        lines = ostler("sessions", "show", one, "--json").lines
        source = ostler("sessions", "show", session, "--json").lines
        for line in (*lines, *source):
            del line["session"]
            line.pop("cwd", None)
        assert lines[0].pop("imported") == len(source), "what a file says gives no consent"
        assert lines == source
    ostler("-p", *use(vendor), "--session", imported, "And now?", cwd=elsewhere)
    messages = vendor.requests[-1].json["messages"]
    assert [one["content"] for one in messages[-3:]] == ["What is the question?", "The answer.", "And now?"]


def test_an_export_does_not_contain_the_directory(ostler: Ostler, serve: Serve) -> None:
    (ostler.work / "a.txt").write_text("text")
    edits = [{"old_text": "text", "new_text": "words"}]
    vendor = serve(
        turn(
            call("read", {"path": "a.txt"}),
            call("edit", {"path": "a.txt", "edits": edits}),
            call("write", {"path": "b.txt", "content": "new"}),
            call("grep", {"pattern": "words"}),
            call("find", {"pattern": "*.txt"}),
            call("ls", {}),
            call("bash", {"command": "ls"}),
        ),
        turn("done"),
    )
    ran = ostler("-p", "--json", "--yes", *use(vendor), "go")
    assert [result.get("failed") for result in ran.all("tool_result")] == [None] * 7
    assert str(ostler.work) not in ostler("sessions", "export", ran.lines[0]["session"]).out


def test_a_file_that_cannot_be_imported_adds_nothing(ostler: Ostler) -> None:
    session = ask(ostler, "hello")
    lines = ostler("sessions", "export", session).out.splitlines(keepends=True)
    for content, complaint in (
        ("".join(lines[:-1]), "the file is truncated at line"),
        ("".join([*lines[:3], "{broken\n"]), "line 4 cannot be imported"),
        ("", "the file is empty"),
    ):
        ran = ostler("sessions", "import", "-", piped=content.encode())
        assert (ran.code, ran.out) == (2, "")
        assert complaint in ran.err and ran.err.count("\n") == 1
    gone = ostler("sessions", "import", "no-such-file.jsonl")
    assert gone.err == "ostler: no-such-file.jsonl cannot be read: No such file or directory\n"
    assert ids(ostler) == [session]


def test_a_fork_continues_from_its_entry(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("one"), turn("two"), turn("three"), turn("another two"))
    ostler("-p", *use(vendor), "1")
    ostler("-p", *use(vendor), "--continue", "2")
    (session,) = ids(ostler)
    facts = ostler("sessions", "show", session, "--json").lines
    first_answer = next(fact["seq"] for fact in facts if fact["type"] == "assistant_message")
    whole = ostler("sessions", "fork", session).out.strip()
    cut = ostler("sessions", "fork", session, "--at", str(first_answer), "--title", "another way").out.strip()
    assert len({session, whole, cut}) == 3
    listed = {one["id"]: one for one in ostler("sessions", "--json").lines}
    assert listed[cut]["forked_from"] == listed[whole]["forked_from"] == session
    assert listed[cut]["title"] == "another way" and ids(ostler)[0] == cut
    started = ostler("sessions", "show", cut, "--json").lines[0]
    assert (started["forked_from"], started["forked_at"]) == (session, first_answer)
    assert f"forked from {session}" in ostler("sessions", "show", cut).out
    ostler("-p", *use(vendor), "--session", cut, "2, otherwise")
    contents = [one["content"] for one in vendor.requests[-1].json["messages"] if one["role"] != "system"]
    assert contents == ["1", "one", "2, otherwise"]
    ostler("sessions", "delete", "--yes", session)
    assert f"forked from {session}" in ostler("sessions", "show", cut).out
    for at in ("1", "999", "x"):
        refused = ostler("sessions", "fork", whole, "--at", at)
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "its entries are 2-5" in ostler("sessions", "fork", whole, "--at", "999").err


def test_a_session_gets_a_title(ostler: Ostler) -> None:
    session = ask(ostler, "hello")
    assert ostler("sessions", "rename", session, "My", "  best\nsession").code == 0
    (listed,) = ostler("sessions", "--json").lines
    assert listed["title"] == "My best session"
    assert ostler("sessions", "show", session).out.startswith(f"session {session}: My best session\n")
    assert ostler("-p", "--model", "demo", "--session", session, "go on").code == 0


def test_delete_asks_and_is_permanent(ostler: Ostler) -> None:
    first, second, third = ask(ostler, "one"), ask(ostler, "two"), ask(ostler, "three")
    unasked = ostler("sessions", "delete", first)
    assert (unasked.code, unasked.out) == (2, "") and "pass --yes" in unasked.err
    declined = ostler.on_terminal("sessions", "delete", first, typed=b"n\n")
    assert "delete permanently? [y/N]" in declined.err and "nothing was deleted" in declined.err
    assert len(ids(ostler)) == 3
    agreed = ostler.on_terminal("sessions", "delete", first, typed=b"y\n")
    assert f"deleted {first}" in agreed.out and f"{first}  one" in agreed.err
    mistaken = ostler("sessions", "delete", "--yes", second, "ses_nowhere")
    assert mistaken.code == 2
    assert ids(ostler) == [third, second]
    both = ostler("sessions", "delete", "--yes", second, third, second)
    assert both.out == f"deleted {second}\ndeleted {third}\n"
    assert ostler("sessions", "--all").out == ""
    assert ostler("sessions", "show", first).code == 2


@pytest.mark.parametrize("command", ["show", "export", "fork", "delete"])
def test_an_ambiguous_prefix_is_refused(ostler: Ostler, command: str) -> None:
    ask(ostler, "one")
    ask(ostler, "two")
    ran = ostler("sessions", command, "ses_")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "ostler: several sessions start with 'ses_'; give more of the id\n"


def test_a_large_message_survives_export_and_import(ostler: Ostler) -> None:
    ran = ostler("-p", "--json", "--model", "demo", piped=b"large " * 400_000)
    session = ran.facts[0]["session"]
    file = ostler.work / "large.jsonl"
    ostler("sessions", "export", session, str(file))
    copy = ostler("sessions", "import", str(file)).out.strip()
    message = next(
        line for line in ostler("sessions", "show", copy, "--json").lines if line["type"] == "user_message"
    )
    assert len(message["content"][0]["text"]) == 6 * 400_000 - 1
    assert json.loads(file.read_text().splitlines()[0])["version"] == 1


async def test_empty_sessions_and_children_are_listed_only_with_all(ostler: Ostler) -> None:
    session = ask(ostler, "hello")
    store = SqliteStore(ostler.store)
    child = facts_of(UserMessage((Text("do this part"),)), session="ses_child")
    started = SessionStarted("/project", "0.1.0", child_of=session, call="call_1")
    child[0] = Fact.of(started, seq=1, session="ses_child", run="", time_ms=1)
    await store.import_session(child)
    await store.import_session(facts_of(session="ses_empty"))
    await store.close()
    assert ids(ostler) == [session]
    assert sorted(ids(ostler, "--all")) == sorted([session, "ses_child", "ses_empty"])
    assert ostler("sessions", "delete", "--yes", session).code == 0
    assert ostler("sessions").err == "ostler: there are no sessions; --all lists empty ones, too\n"
    assert ostler("sessions", "--here").err == f"ostler: {ostler.work} has no sessions yet\n"
