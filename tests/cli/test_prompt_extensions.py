"""Extensions on the command line, in real processes."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path
from shlex import quote

import pytest

from ostler.testkit.vendors import call, turn
from tests.support.command import Ostler, finish, use, wait_until
from tests.support.fixtures import InProcess, Serve

COMMAND = """
    def setup(ostler):
        @ostler.command("greet")
        def greet(arguments):
            "Greets."
            if arguments == "nobody":
                raise ValueError("there is nobody")
            return f"hello {arguments}"
"""


def write(path: Path, text: str = COMMAND) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def test_a_users_extension_guards_a_run_and_is_named_in_it(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(call("read", {"path": "secret.txt"})), turn("done"))
    write(ostler.home / "extensions" / "rules.py", "SECRET = 'secret.txt'")
    write(
        ostler.home / "extensions" / "gate.py",
        """
        from ostler.core.hooks import Refuse
        from rules import SECRET

        def setup(ostler):
            @ostler.before_tool
            def gate(call):
                return Refuse("it is secret") if SECRET in str(call.arguments) else None
        """,
    )
    ran = ostler("-p", "--json", *use(vendor), "go")
    assert ran.code == 4, ran.err
    assert ran.all("run_started")[0]["extensions"] == ["gate"]
    assert "it is secret" in ran.all("tool_result")[0]["content"][0]["text"]


def test_a_command_of_an_extension_runs_and_prints(ostler: Ostler) -> None:
    write(ostler.home / "extensions" / "greeter.py")
    greeted = ostler("-p", "--model", "demo", "/greet", "you", "there")
    assert (greeted.code, greeted.out, greeted.err) == (0, "hello you there\n", "")
    failed = ostler("-p", "--model", "demo", "/greet nobody")
    assert (failed.code, failed.out) == (1, "")
    assert failed.err == ("ostler: the command /greet failed: ValueError: there is nobody (greeter.py:7)\n")
    (fact,) = ostler("-p", "--json", "--model", "demo", "/greet you").lines
    assert (fact["type"], fact["name"], fact["text"]) == ("command_ran", "greet", "hello you")
    unknown = ostler("-p", "--model", "demo", "/gret you")
    assert (unknown.code, unknown.err) == (
        2,
        "ostler: there is no /gret: did you mean /greet? Type //gret to send it as text\n",
    )


def test_output_of_an_extension_is_printed_at_once(ostler: Ostler) -> None:
    later = ostler.work / "later"
    write(
        ostler.home / "extensions" / "slow.py",
        f"""
        import time
        from pathlib import Path

        def setup(ostler):
            @ostler.command("slow")
            def slow(arguments):
                print("at work")
                while not Path({str(later)!r}).exists():
                    time.sleep(0.01)
        """,
    )
    process = ostler.start("-p", "--model", "demo", "/slow")
    assert process.stderr is not None
    assert process.stderr.readline() == b"at work\n"
    later.touch()
    assert finish(process).code == 0


def test_a_template_of_the_same_name_comes_first(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("from the template"))
    write(ostler.home / "extensions" / "greeter.py")
    write(ostler.home / "prompts" / "greet.md", "Say hello.")
    assert ostler("-p", *use(vendor), "/greet").out == "from the template\n"


def test_prompts_of_an_extension_run_afterwards(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("first"), turn("second"))
    file = write(
        ostler.work / "follow.py",
        """
        from ostler.schema.events import RunEnded

        def setup(ostler):
            @ostler.on(RunEnded)
            async def again(ended, context):
                if not context.state.get("sent"):
                    context.state["sent"] = True
                    await context.send("and now the second")
        """,
    )
    ran = ostler("-p", *use(vendor), "-e", str(file), "the first")
    assert (ran.code, ran.out, ran.err) == (0, "first\nsecond\n", "")
    assert vendor.requests[1].json["messages"][-1]["content"] == "and now the second"


def test_a_projects_extension_is_refused_until_it_is_trusted(
    ostler: Ostler, serve: Serve, in_process: InProcess
) -> None:
    vendor = serve(*[turn("done")] * 5)
    file = write(
        ostler.work / ".ostler" / "extensions" / "mark.py",
        "from pathlib import Path\nPath('ran').touch()\ndef setup(ostler): ...\n",
    )
    mark = ostler.work / "ran"
    notice = (
        "ostler: extensions of this project are not used until you review them and run "
        f"`ostler trust {quote(str(ostler.work))}`: mark\n"
    )

    def run(*arguments: str) -> tuple[str, bool]:
        ran = ostler("-p", *use(vendor), *arguments, "go")
        assert (ran.code, ran.out) == (0, "done\n")
        has_run = mark.exists()
        mark.unlink(missing_ok=True)
        return ran.err, has_run

    assert run() == (notice, False)
    assert run("--trust") == ("", True)
    assert in_process("trust")[1] == (
        f"{file} runs with your rights:\n  mark.py: 3 lines\n"
        f"trusted; `ostler trust --remove {quote(str(ostler.work))}` withdraws it\n"
    )
    assert run() == ("", True)
    file.write_text(file.read_text() + "# changed\n")
    assert run() == (notice, False)
    assert in_process("trust", "--list")[1] == f"{file}  (changed since)\n"
    assert in_process("trust", "--edits")[0] == 0
    file.write_text(file.read_text() + "# changed again\n")
    assert run() == ("", True)
    assert in_process("trust", "--list")[1] == (
        f"{file.parent}  (even after changes)\n{file}  (changed since)\n"
    )
    assert in_process("trust", "--remove")[1] == f"{ostler.work} is no longer trusted\n"
    assert in_process("trust", "--list")[1] == ""


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_consent_at_a_terminal_shows_what_would_run(ostler: Ostler, answer: str) -> None:
    file = write(ostler.work / ".ostler" / "extensions" / "greeter.py")
    typed = f"{answer}\n".encode()
    ran = ostler.on_terminal("-p", "--model", "demo", "/greet you", typed=typed, after=b"[yes/no]")
    assert f"ostler: this project has the extension greeter ({file}):\n" in ran.err
    assert "  greeter.py: 8 lines\n" in ran.err
    assert ("hello you" in ran.out) == (answer == "yes")
    assert ("not used until you review" in ran.err) == (answer == "no")
    assert bool(ostler("trust", "--list").out) == (answer == "yes")


def test_extensions_named_by_a_project_need_two_consents(ostler: Ostler) -> None:
    write(ostler.work / "tools" / "greeter.py")
    write(ostler.work / "ostler.toml", 'extensions = ["tools/greeter.py"]\n')
    refused = ostler("-p", "--model", "demo", "/greet you")
    assert "sets extensions, which is ignored until" in refused.err
    given = ostler("trust")
    assert "extensions = ['tools/greeter.py']" in given.out
    assert "tools/greeter.py runs with your rights" in given.out
    assert ostler("-p", "--model", "demo", "/greet you").out == "hello you\n"
    write(ostler.work / "tools" / "greeter.py", COMMAND.replace("hello", "bye"))
    changed = ostler("-p", "--model", "demo", "/greet you")
    assert (changed.code, changed.out) == (2, "")


def test_options_of_extensions_are_configured(ostler: Ostler) -> None:
    file = write(
        ostler.home / "own" / "opt.py",
        """
        def setup(ostler):
            ostler.option("limit", default="1")
            ostler.option("strict")

            @ostler.command("show")
            def show(arguments, context):
                return f"{context.option('limit')} {context.option('strict')}"
        """,
    )
    ostler.configure("extensions = ['own/opt.py']\n[options]\nlimit = 5\nstrict = true\n")
    assert ostler("-p", "--model", "demo", "/show").out == "5 true\n"
    assert ostler("-p", "--model", "demo", "/show", OSTLER_OPT_LIMIT="7").out == "7 true\n"
    assert ostler("-p", "--no-extensions", "--model", "demo", "/show").code == 2
    named = ostler("-p", "--no-extensions", "-e", str(file), "--model", "demo", "/show")
    assert named.out == "5 true\n"


def test_a_missing_extension_is_an_error_and_a_broken_one_is_not(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("done"))
    missing = ostler("-p", *use(vendor), "-e", "gone.py", "go")
    assert (missing.code, missing.err) == (
        2,
        f"ostler: there is no extension {ostler.work}/gone.py: name a file or a folder\n",
    )
    broken = write(ostler.work / "broken.py", "def setup(ostler):\n    raise ValueError('no')\n")
    ran = ostler("-p", *use(vendor), "-e", "broken.py", "go")
    assert (ran.code, ran.out) == (0, "done\n")
    assert ran.err == f"ostler: the extension broken ({broken}) is not loaded: ValueError: no (broken.py:2)\n"


def test_a_file_saved_during_a_run_takes_effect_in_it(ostler: Ostler, serve: Serve) -> None:
    read, opened = ostler.work / "read", ostler.work / "opened"
    waiting = turn(call("bash", {"command": f"until test -e {quote(str(read))}; do sleep 0.02; done"}))
    vendor = serve(by=lambda request: turn("done") if opened.exists() else waiting)
    process = ostler.start("-p", "--json", "--yes", *use(vendor), "go", stdout=subprocess.PIPE)
    assert process.stdout is not None
    lines: list[str] = []

    def has(kind: str) -> bool:
        assert process.stdout is not None
        lines.append(process.stdout.readline().decode())
        return json.loads(lines[-1])["type"] == kind

    wait_until(lambda: has("tool_started"))
    write(
        ostler.home / "extensions" / "late.py",
        f"""
        from pathlib import Path
        from ostler.extensions.extension_session import SessionOpened
        from ostler.schema.events import RunEnded

        Path({str(read)!r}).touch()

        def setup(ostler):
            @ostler.on(SessionOpened, RunEnded)
            def note(event, context):
                context.state[type(event).__name__] = getattr(event, "reason", "")
                Path({str(opened)!r}).touch()
        """,
    )
    rest = process.stdout.read()  # of the same reader, which has read ahead
    ran = finish(process)
    facts = [json.loads(line) for line in rest.splitlines()]
    state = {one["key"]: one["value"] for one in facts if one["type"] == "extension_state"}
    assert ran.code == 0, ran.err
    assert state["SessionOpened"] == "reload"


def test_without_extensions_their_code_is_not_imported(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("done"))
    ran = ostler("-p", *use(vendor), "go", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip() for line in ran.err.splitlines() if "|" in line}
    assert ran.code == 0
    ours = sorted(name for name in loaded if name.startswith("ostler.extensions"))
    assert not {"watchfiles", "ostler.extensions.host", "ostler.extensions.loader.module_loader"} & loaded
    assert len(ours) <= 8, ours


def test_output_of_an_opening_session_is_printed(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("Done."))
    write(
        ostler.home / "extensions" / "greets.py",
        """
        from ostler.extensions import SessionOpened

        def setup(ostler):
            @ostler.on(SessionOpened)
            def greet(moment, context):
                context.print("welcome")
        """,
    )
    ran = ostler("-p", "--json", *use(vendor), "Read a.txt")
    assert ran.code == 0, ran.err
    assert [line["text"] for line in ran.all("printed")] == ["welcome"]
