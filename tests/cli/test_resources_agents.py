"""`ostler agents`, and the consent that a project's agents need."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from tests.support.command import Ostler


def write_agent(folder: Path, name: str, front: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(f"---\n{front}\n---\nYou are {name}.")
    return path


def test_agents_are_listed_with_their_source(ostler: Ostler) -> None:
    write_agent(
        ostler.work / ".ostler" / "agents", "reviewer", "description: Reads: says.\ntools: Read, Glob"
    )
    mine = write_agent(ostler.home / "agents", "asker", "description: >\n  Asks\n  \x1b[2J\nmodel: sonnet")
    write_agent(ostler.home / "agents", "none", "description: d\ntools: []")
    ran = ostler("agents")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split(None, 4) for line in ran.out.splitlines()] == [
        ["asker", "sonnet", "all", "~/agents/asker.md", "Asks \ufffd[2J"],
        ["none", "inherit", "none", "~/agents/none.md", "d"],
        ["reviewer", "inherit", "read,find", ".ostler/agents/reviewer.md", "Reads: says."],
    ]
    asker, *_ = ostler("agents", "--json").lines
    assert asker == {
        "name": "asker",
        "description": "Asks \x1b[2J",
        "model": "sonnet",
        "tools": None,
        "system": "You are asker.",
        "judge": "",
        "limits": {},
        "history": 0,
        "context": {},
        "scope": "user",
        "source": str(mine),
    }


def test_a_terminal_gets_headings_and_lines_that_fit(ostler: Ostler) -> None:
    write_agent(ostler.home / "agents", "a", "description: " + "long " * 40)
    head, line = ostler.on_terminal("agents", columns=70).out.splitlines()
    assert head.split() == ["NAME", "MODEL", "TOOLS", "FROM", "DESCRIPTION"]
    assert len(line) <= 70 and line.endswith("…")


def test_other_vendors_agents_are_listed_after_subagents(ostler: Ostler) -> None:
    write_agent(ostler.home / "agents", "mine", "description: d")
    (ostler.home / "config.toml").write_text(
        "[terminal_agents.quick]\ncommand = ['codex', '--model', 'a b']\ndescription = 'fast'\n"
        "[terminal_agents.claude]\ntransport = 'stream-json'\n"
    )
    ran = ostler("agents")
    assert (ran.code, ran.err) == (0, "")
    own, between, *others = ran.out.splitlines()
    assert (own.split()[0], between) == ("mine", "")
    assert [line.split(None, 3) for line in others] == [
        ["claude", "claude", "stream-json", "claude"],
        ["quick", "codex", "pty", "codex --model 'a b'  fast"],
    ]
    (ostler.home / "agents" / "mine.md").unlink()
    ran = ostler("agents", "--json")
    assert [(one["name"], one["command"], one["scope"]) for one in ran.lines] == [
        ("claude", ["claude"], "terminal"),
        ("quick", ["codex", "--model", "a b"], "terminal"),
    ]
    assert ran.err == ""


def test_installed_agents_of_other_vendors_are_listed_on_request(ostler: Ostler) -> None:
    program = ostler.work / "bin" / "cursor-agent"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert "cursor-agent" not in ostler("agents", PATH=str(program.parent)).out
    ran = ostler("agents", "--installed", PATH=str(program.parent))
    assert ran.out.split() == ["cursor", "cursor", "pty", "cursor-agent"]


def test_problems_are_printed_to_standard_error(ostler: Ostler) -> None:
    broken = write_agent(ostler.home / "agents", "broken", "description: [a")
    write_agent(ostler.home / "agents", "good", "description: d")
    ran = ostler("agents")
    assert (ran.code, ran.out.split()[0]) == (0, "good")
    assert ran.err.startswith(f"ostler: {broken}: line 2: ") and ran.err.count("\n") == 1


def test_an_empty_list_says_how_to_create_one(ostler: Ostler) -> None:
    ran = ostler("agents")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == (
        f"ostler: there are no agents; create .ostler/agents/NAME.md here, or {ostler.home}/agents/NAME.md\n"
    )
    assert ostler("agents", "--json").out == ""
    assert not ostler.home.exists()


def test_a_projects_agents_need_trust_to_choose_their_model(ostler: Ostler) -> None:
    path = write_agent(ostler.work / ".agents" / "agents", "a", "description: d\nmodel: openai/dear")
    before = ostler("agents")
    assert before.out.split()[1] == "inherit"
    assert before.err == (
        f"ostler: {path}: its model 'openai/dear' is ignored, and its parent's model used, "
        f"until you review it and run `ostler trust {quote(str(ostler.work))}`\n"
    )
    assert ostler("trust").out == (
        f"{path} sets:\n  model = openai/dear\n"
        f"trusted; `ostler trust --remove {quote(str(ostler.work))}` withdraws it\n"
    )
    after = ostler("agents")
    assert (after.out.split()[1], after.err) == ("openai/dear", "")
    assert ostler("trust", "--list").out == f"{path}\n"

    path.write_text(path.read_text() + "More.")
    assert ostler("agents").out.split()[1] == "inherit"
    assert ostler("trust", "--list").out == f"{path}  (changed since)\n"
    path.unlink()
    assert ostler("trust", "--list").out == f"{path}  (cannot be read)\n"
    assert ostler("trust", "--remove").out == f"{ostler.work} is no longer trusted\n"
    assert ostler("trust", "--list").out == ""


def test_one_consent_covers_the_project_file_and_the_agents(ostler: Ostler) -> None:
    (ostler.work / "ostler.toml").write_text("base_url = 'http://there'")
    path = write_agent(ostler.work / ".ostler" / "agents", "a", "description: d\nmodel: sonnet")
    ran = ostler("trust")
    assert ran.out == (
        f"{ostler.work}/ostler.toml sets:\n  base_url = http://there\n{path} sets:\n  model = sonnet\n"
        f"trusted; `ostler trust --remove {quote(str(ostler.work))}` withdraws it\n"
    )
    assert ostler("trust", "--list").out == f"{ostler.work}\n{path}\n"
    ostler("trust", "--remove")
    assert ostler("trust", "--list").out == ""
