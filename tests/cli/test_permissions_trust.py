"""`ostler trust`: consent to a project's settings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from ostler.testkit.vendors import turn
from tests.support.command import KEY, Ostler
from tests.support.fixtures import Serve


def write_project(ostler: Ostler, text: str) -> Path:
    file = ostler.work / "ostler.toml"
    file.write_text(text)
    return file


def test_a_project_needs_trust_to_name_another_server(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("from the project's server"))
    file = write_project(ostler, f"model = 'openai/fake'\nbase_url = '{vendor.chat_url}'\n")
    arguments = ("-p", "hello")
    notice = (
        f"ostler: {file} sets base_url, which is ignored until you review it "
        f"and run `ostler trust {shlex.quote(str(ostler.work))}`\n"
    )
    before = ostler(*arguments)
    assert (before.code, before.err) == (
        3,
        f"{notice}ostler: openai needs a key: set OPENAI_API_KEY, run `ostler key set openai`, "
        "or name another model\n",
    )
    assert vendor.requests == []

    given = ostler("trust")
    assert given.out == (
        f"{file} sets:\n  base_url = {vendor.chat_url}\n"
        f"trusted; `ostler trust --remove {shlex.quote(str(ostler.work))}` withdraws it\n"
    )
    after = ostler(*arguments)
    assert (after.code, after.out, after.err) == (0, "from the project's server\n", "")
    assert ostler("trust", "--list").out == f"{ostler.work}\n"

    file.write_text(file.read_text() + "key_command = 'steal'\n")
    changed = ostler(*arguments)
    assert changed.code == 3
    assert f"{file} sets base_url, key_command, which is ignored" in changed.err
    assert ostler("trust", "--list").out == f"{ostler.work}  (changed since)\n"


def test_trust_lists_settings_without_secrets(ostler: Ostler) -> None:
    write_project(
        ostler,
        rf"""
            api_key = "{KEY}"
            base_url = "http://ada:{KEY}@host:80/v1"
            key_command = "a\n\tb\u001b[2J"
            permissions = "full"
            model = "a/b"
            [providers.acme]
            base_url = "http://acme/v1"
            api_key = "{KEY}"
            headers = {{ authorization = "{KEY}" }}
        """,
    )
    below = ostler.work / "below"
    below.mkdir()
    ran = ostler("trust", str(below))
    assert ran.code == 0
    assert ran.out.splitlines()[1:8] == [
        "  api_key = (a key, not shown)",
        "  base_url = http://(password, not shown)@host:80/v1",
        "  key_command = a b\ufffd[2J",
        "  permissions = full",
        "  providers.acme.base_url = http://acme/v1",
        "  providers.acme.api_key = (a key, not shown)",
        "  providers.acme.headers = (not shown)",
    ]
    assert KEY not in ran.out + ran.err


def test_trust_can_be_withdrawn_after_the_file_is_deleted(ostler: Ostler) -> None:
    file = write_project(ostler, "base_url = 'http://there'")
    ostler("trust")
    file.unlink()
    assert ostler("trust", "--list").out == f"{ostler.work}  (no longer has an ostler.toml)\n"
    assert ostler("trust", "--remove").out == f"{ostler.work} is no longer trusted\n"
    again = ostler("trust", "--remove")
    assert (again.code, again.out, again.err) == (0, "", f"ostler: {ostler.work} was not trusted\n")
    assert ostler("trust", "--list").out == ""


def test_trust_reports_that_nothing_needs_it(ostler: Ostler) -> None:
    missing = ostler("trust")
    assert (missing.code, missing.out) == (2, "")
    assert missing.err.startswith(f"ostler: there is no ostler.toml in {ostler.work} ")
    file = write_project(ostler, "model = 'a/b'\npermissions = 'read-only'")
    assert ostler("trust").out == f"{file} sets nothing that needs your consent\n"
    assert ostler("trust", "--list").out == ""
    file.write_text("model = ")
    broken = ostler("trust")
    assert broken.code == 2 and "is not valid TOML" in broken.err
    assert ostler("trust", "/no/such/place").err == "ostler: there is no directory /no/such/place\n"


def test_suggested_commands_quote_paths_with_spaces(
    ostler: Ostler,
) -> None:
    project = ostler.work / "a project's"
    (project / ".git").mkdir(parents=True)
    (project / "ostler.toml").write_text("base_url = 'http://there'\n")
    for name, text in {
        ".ostler/extensions/led.py": "def setup(ostler): pass\n",
        ".ostler/agents/tester.md": "---\ndescription: Tests.\nmodel: openai/dear\n---\nTest.\n",
        ".agents/skills/release/SKILL.md": "---\nname: release\ndescription: Tags.\n---\nTag.\n",
    }.items():
        path = project / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    lines = [
        ostler("-p", "--model", "demo", "hello", cwd=project).err,
        *(ostler(command, cwd=project).err for command in ("agents", "skills")),
        ostler("ext", "list", cwd=project).out,
    ]
    named = [shlex.split(command) for text in lines for command in re.findall("`(ostler trust .*?)`", text)]
    assert len(named) >= 6 and all(command == ["ostler", "trust", str(project)] for command in named)

    taken_back = re.findall("`(ostler trust --remove .*?)`", ostler(*named[0][1:]).out)
    assert [shlex.split(command) for command in taken_back] == [["ostler", "trust", "--remove", str(project)]]
    assert ostler(*shlex.split(taken_back[0])[1:]).out == f"{project} is no longer trusted\n"
