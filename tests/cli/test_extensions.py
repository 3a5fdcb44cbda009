"""`ostler ext`: lists, installs, updates, checks and creates extensions."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from runpy import run_path

import pytest

from ostler.testkit.vendors import call, turn
from tests.extensions.install.package_files import Repository, tool, wheel, write
from tests.support.command import PATIENCE, Ostler, finish, use, wait_until
from tests.support.fixtures import InProcess, Serve

GUARDED = """
def setup(ostler):
    @ostler.tool
    def look() -> str:
        "Looks."
        return "nothing"

    @ostler.before_tool
    def gate(call):
        return None

    @ostler.command("look")
    def look_at(text):
        return text

    @ostler.on("seen")
    def seen(data):
        pass
"""
BROKEN = "def setup(ostler):\n    raise ValueError('not today')\n"


def packages(ostler: Ostler) -> list[str]:
    return sorted(one.name for one in (ostler.home / "packages").iterdir())


def test_extensions_are_listed_in_the_order_they_are_loaded(ostler: Ostler, tmp_path: Path) -> None:
    write(ostler.home / "extensions", {"own.py": GUARDED, "bad.py": BROKEN})
    write(ostler.work / ".ostler" / "extensions", {"theirs.py": tool("theirs")})
    repository = Repository(tmp_path / "tidy", {"one.py": tool("one"), "two.py": tool("two")})
    write(tmp_path / "spare", {"three.py": tool("three")})
    for source in (repository.url, str(tmp_path / "spare")):
        assert ostler("ext", "install", source).code == 0
    ostler("ext", "disable", "spare")
    rows = ostler("ext", "list", "--json").lines
    assert [(row["name"], row["origin"], row["package"], row["state"]) for row in rows] == [
        ("bad", "user", "", "failed"),
        ("own", "user", "", "loaded"),
        ("one", "installed", "tidy", "loaded"),
        ("two", "installed", "tidy", "loaded"),
        ("theirs", "project", "", "untrusted"),
        ("three", "installed", "spare", "disabled"),
    ]
    assert rows[0]["problem"].endswith("ValueError: not today (bad.py:2)")
    own = rows[1]
    assert (own["tools"], own["commands"], own["hooks"], own["events"]) == (
        ["look"],
        ["look"],
        ["before_tool"],
        ["seen"],
    )
    assert rows[2]["version"] == repository.first
    assert rows[2]["path"].startswith(str(ostler.home / "packages"))
    result = ostler("ext")
    assert result.code == 0
    words = result.out.splitlines()[2].split()
    assert words[:5] == ["one", "package", "tidy", "loaded", repository.first[:12]]
    assert "1 tool, 1 command, 1 hook, 1 event" in result.out.splitlines()[1]
    assert "ostler trust" in result.out.splitlines()[4]


def test_an_empty_list_says_where_to_put_extensions(ostler: Ostler) -> None:
    ran = ostler("ext")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == (
        "ostler: there are no extensions; create .ostler/extensions/NAME.py here, "
        f"or {ostler.home}/extensions/NAME.py\n"
    )


def test_install_announces_what_will_run(ostler: Ostler, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "tidy", {"gate.py": GUARDED, "half.py": BROKEN})
    ran = ostler("ext", "install", repository.url)
    short = repository.first[:12]
    assert (ran.code, ran.out) == (0, f"installed tidy {short}: 2 extensions (gate, half)\n")
    assert ran.err.splitlines() == [
        f"ostler: fetching {repository.folder}",
        f"ostler: tidy {short} from {repository.url}: 2 extensions (gate, half) will be loaded "
        "now to check it, and then in all your sessions, with your rights",
        "ostler: half cannot be loaded: ValueError: not today (half.py:2)",
    ]
    again = ostler("ext", "install", f"git:{repository.folder}")
    assert (again.code, again.out) == (2, "")
    assert again.err.splitlines()[-1] == (
        f"ostler: {repository.folder} is installed already, as tidy: "
        "use `ostler ext update tidy` or `ostler ext remove tidy`"
    )


def test_install_can_be_declined_at_a_terminal(ostler: Ostler) -> None:
    folder = write(ostler.work / "tidy", {"gate.py": f"open({str(ostler.work / 'ran')!r}, 'w')\n{GUARDED}"})
    refused = ostler.on_terminal("ext", "install", "./tidy", typed=b"no\n", after=b"[yes/no]")
    assert refused.code == 2
    assert refused.err.endswith("install it? [yes/no] ostler: nothing was installed\n")
    assert not (ostler.work / "ran").exists()
    assert packages(ostler) == []
    agreed = ostler.on_terminal("ext", "install", str(folder), typed=b"yes\n", after=b"[yes/no]")
    assert agreed.out.endswith("installed tidy: 1 extension (gate)\n")
    ostler("ext", "remove", "tidy")
    assert ostler.on_terminal("ext", "install", "./tidy", "--yes").code == 0


def test_a_package_of_a_project_needs_trust(ostler: Ostler) -> None:
    write(ostler.work / "tidy", {"gate.py": GUARDED})
    ran = ostler("ext", "install", "--local", "./tidy")
    assert ran.code == 0
    assert ran.err.endswith("ostler: it belongs to the project: review it and run `ostler trust` to use it\n")
    assert (ostler.work / ".ostler" / "extensions.json").is_file()
    assert not (ostler.home / "extensions.json").exists()
    (row,) = ostler("ext", "list", "--json").lines
    assert (row["state"], row["package"]) == ("untrusted", "tidy")
    elsewhere = ostler("ext", "remove", "tidy")
    assert elsewhere.code == 2
    assert elsewhere.err.endswith(f"{ostler.work / '.ostler'} has one: use --local\n")
    assert ostler("ext", "remove", "tidy", "--local").out == "removed tidy\n"
    assert list((ostler.work / ".ostler" / "packages").iterdir()) == []
    linked = ostler("ext", "install", "--local", "--link", "./tidy")
    assert (linked.code, linked.err) == (
        2,
        "ostler: a project can use only files inside of it: leave out --link or --local\n",
    )


def test_all_packages_are_updated_and_one_that_fails_does_not_stop_the_others(
    in_process: InProcess, tmp_path: Path
) -> None:
    names = ("first", "pinned", "second", "third")
    one, two, three, four = (Repository(tmp_path / name, {f"{name}.py": tool("old")}) for name in names)
    for source in (one.url, f"{two.url}@main", three.url, four.url):
        assert in_process("ext", "install", source)[0] == 0
    one.commit({"first.py": BROKEN})
    two.commit({"pinned.py": tool("new")})
    newest = three.commit({"second.py": tool("new")})
    code, out, err = in_process("ext", "update", "--all")
    assert code == 1
    assert out.splitlines() == [
        "pinned is pinned to main and stays at that version",
        f"updated second {newest[:12]}: 1 extension (second)",
        f"third {four.first[:12]} is up to date",
    ]
    assert "first stays at its version: first cannot be loaded: ValueError: not today (first.py:2)" in err
    assert in_process("ext", "update", "first")[:2] == (1, "")
    rows = [json.loads(line) for line in in_process("ext", "list", "--json")[1].splitlines()]
    assert [row["tools"] for row in rows] == [["old"], ["old"], ["new"], ["old"]]


def test_an_installed_package_is_loaded_until_it_is_disabled(ostler: Ostler, serve: Serve) -> None:
    write(ostler.work / "tidy", {"gate.py": tool("greet")})
    assert ostler("ext", "install", "./tidy").code == 0
    vendor = serve(turn(call("greet", {})), turn("done"), turn("done"))
    ran = ostler("-p", "--yes", "--json", *use(vendor), "greet me")
    assert [fact["content"][0]["text"] for fact in ran.all("tool_result")] == ["hello"]
    ostler("ext", "disable", "tidy")
    assert ostler("-p", *use(vendor), "again").code == 0
    assert [b'"greet"' in request.body for request in vendor.requests] == [True, True, False]


def test_a_wheel_is_installed_and_its_extension_loaded_from_its_own_folder(
    ostler: Ostler, tmp_path: Path
) -> None:
    index = tmp_path / "wheels"
    code = {"gatekeeper/__init__.py": "from gatekeeper.rules import setup\n", "gatekeeper/rules.py": GUARDED}
    wheel(index, "gatekeeper", "1.2", code, "gate = gatekeeper:setup")
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": index.as_uri(), "PIP_CONFIG_FILE": os.devnull}
    (ostler.work / "pip.py").write_text("raise SystemExit('this is not pip')")
    ran = ostler("ext", "install", "gatekeeper", **offline)
    assert (ran.code, ran.out) == (0, "installed gatekeeper 1.2: 1 extension (gate)\n")
    (row,) = ostler("ext", "list", "--json").lines
    assert (row["name"], row["version"], row["tools"], row["state"]) == ("gate", "1.2", ["look"], "loaded")


def test_a_changed_project_extension_is_marked(ostler: Ostler) -> None:
    file = write(ostler.work / ".ostler" / "extensions", {"theirs.py": tool("old")}) / "theirs.py"
    assert ostler("trust").code == 0
    assert [row["state"] for row in ostler("ext", "list", "--json").lines] == ["loaded"]
    file.write_text(tool("new"))
    (row,) = ostler("ext", "list", "--json").lines
    assert (row["state"], row["tools"]) == ("changed", [])
    assert ostler("trust").code == 0
    assert [row["tools"] for row in ostler("ext", "list", "--json").lines] == [["new"]]


def test_validate_names_the_failing_line(ostler: Ostler) -> None:
    write(
        ostler.work,
        {"good.py": GUARDED, "bad.py": BROKEN, "worse/__init__.py": "def setup(ostler):\n  x = = 1\n"},
    )
    good = ostler("ext", "validate", "good.py")
    assert (good.code, good.out) == (0, "good: 1 tool, 1 command, 1 hook, 1 event\n")
    bad = ostler("ext", "validate", ".")
    assert bad.code == 1
    assert bad.out.splitlines() == [
        "bad (bad.py): ValueError: not today (bad.py:2)",
        "good: 1 tool, 1 command, 1 hook, 1 event",
        "worse (worse): SyntaxError: invalid syntax (__init__.py:2)",
    ]
    assert ostler("ext", "validate", "nothing.py").code == 2


def test_validate_loads_nothing_of_an_untrusted_project(ostler: Ostler) -> None:
    mark = f"open({str(ostler.work / 'ran')!r}, 'w')\n"
    write(ostler.work / ".ostler" / "extensions", {"theirs.py": mark + GUARDED})
    write(ostler.home / "extensions", {"own.py": GUARDED})
    ran = ostler("ext", "validate")
    assert ran.code == 0
    assert "theirs (.ostler/extensions/theirs.py): review it and run `ostler trust" in ran.out
    assert not (ostler.work / "ran").exists()


def test_errors_are_one_line(in_process: InProcess) -> None:
    for arguments, said in (
        (("install", "http://host/x"), "git over http is not secure"),
        (("install", "https://ada:s3cret@host/x"), "leave name and password out of the address"),
        (("install", "./nothing"), "/nothing does not exist"),
        (("remove", "nothing"), "no package 'nothing' is installed here"),
        (("update",), "one of the arguments"),
        (("logs", "nothing"), "there is no log of an extension 'nothing'"),
        (("new", "a b"), "is not a valid name"),
    ):
        code, out, err = in_process("ext", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert said in err and "s3cret" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_installation_leaves_nothing(number: signal.Signals, ostler: Ostler) -> None:
    pid_file = ostler.work / "pid"
    slow = f"import os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    write(ostler.work / "tidy", {"gate.py": slow + GUARDED})
    process = ostler.start("ext", "install", "./tidy")
    wait_until(lambda: pid_file.exists() and pid_file.read_text())
    process.send_signal(number)
    assert finish(process).code == 128 + number
    assert packages(ostler) == []
    assert not (ostler.home / "extensions.json").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_the_trial_process_ends_when_the_command_is_killed(ostler: Ostler) -> None:
    fifo = ostler.work / "alive"
    os.mkfifo(fifo)
    slow = f"import time\nheld = open({str(fifo)!r}, 'w')\nheld.write('x')\nheld.flush()\ntime.sleep(600)\n"
    write(ostler.work / "tidy", {"gate.py": slow + GUARDED})
    process = ostler.start("ext", "install", "./tidy")
    with fifo.open() as reader:
        assert reader.read(1) == "x"
        process.kill()
        assert reader.read() == ""  # nobody holds it any more
    finish(process)


def test_a_new_extension_loads_and_passes_its_tests_and_nothing_is_overwritten(
    ostler: Ostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSTLER_HOME", str(ostler.home))
    for language, files in (
        ("python", ["README.md", "main.py", "test_greeter.py"]),
        ("node", ["README.md", "extension.json", "main.mjs", "test_greeter.py"]),
        ("any", ["README.md", "extension.json", "program.py", "test_greeter.py"]),
    ):
        made = ostler("ext", "new", f"{language}/greeter", "--lang", language)
        folder = ostler.work / language / "greeter"
        assert made.out.splitlines() == [f"wrote {language}/greeter/{name}" for name in files]
        assert sorted(one.name for one in folder.iterdir()) == files
        checked = ostler("ext", "validate", str(folder))
        assert checked.code == 0
        assert checked.out == "greeter: 1 tool, 1 command, 1 hook\n"
        tests = [
            one for name, one in run_path(str(folder / "test_greeter.py")).items() if name.startswith("test_")
        ]
        assert len(tests) == 3
        for one in tests:
            one()
        again = ostler("ext", "new", f"{language}/greeter")
        assert (again.code, again.err) == (
            2,
            f"ostler: {folder} already exists: choose another name, or move it away\n",
        )


def test_standard_error_of_a_process_extension_is_logged(ostler: Ostler) -> None:
    ostler("ext", "new", "greeter", "--lang", "any")
    program = ostler.work / "greeter" / "program.py"
    program.write_text("import sys\nprint('I am here', file=sys.stderr)\n" + program.read_text())
    assert ostler("ext", "install", "./greeter").code == 0
    assert "I am here\n" in ostler("ext", "logs", "greeter").out


def test_the_log_of_an_extension_is_shown_and_followed(ostler: Ostler) -> None:
    log = ostler.home / "logs" / "extension-tidy.log"
    write(log.parent, {log.name: "began\x1b[2J\n"})
    assert ostler("ext", "logs", "tidy").out == "began\ufffd[2J\n"
    process = ostler.start("ext", "logs", "tidy", "-f")
    assert process.stdout
    assert process.stdout.readline().startswith(b"began")
    with log.open("a") as file:
        file.write("more\n")
    assert process.stdout.readline() == b"more\n"
    log.replace(log.with_suffix(".log.1"))
    log.write_text("a new file that is longer than the old one\n")
    assert process.stdout.readline() == b"a new file that is longer than the old one\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    process.communicate()
