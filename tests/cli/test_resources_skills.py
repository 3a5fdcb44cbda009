"""`ostler skills`, consent to a project's skills, and instruction files in a run."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote
from typing import Any

from ostler.testkit.vendors import FakeVendor, call, turn
from tests.support.command import Ostler, use
from tests.support.fixtures import Serve


def write_skill(place: Path, name: str, front: str = "description: d", body: str = "Do it.") -> Path:
    path = place / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\n{front}\n---\n{body}\n")
    return path


def system_of(vendor: FakeVendor, request: int = 0) -> str:
    message = vendor.requests[request].json["messages"][0]
    assert message["role"] == "system"
    text: str = message["content"]
    return text


def offered(vendor: FakeVendor, request: int = 0) -> dict[str, Any]:
    tools = vendor.requests[request].json.get("tools", [])
    return {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}


def test_skills_are_listed_with_their_source(ostler: Ostler) -> None:
    mine = write_skill(ostler.home / "skills", "pdf", "description: >\n  Fills\n  \x1b[2J\nlicense: MIT")
    write_skill(
        ostler.home / ".agents" / "skills", "deploy", "description: d\ndisable-model-invocation: true"
    )
    ran = ostler("skills")
    assert (ran.code, ran.err) == (0, "")
    assert [re.split(" {2,}", line) for line in ran.out.splitlines()] == [
        ["deploy", "you", "~/.agents/skills/deploy/SKILL.md", "d"],
        ["pdf", "model, you", "~/skills/pdf/SKILL.md", "Fills \ufffd[2J"],
    ]
    _, pdf = ostler("skills", "--json").lines
    digest = pdf.pop("digest")
    assert len(digest) == 32
    assert pdf == {
        "name": "pdf",
        "description": "Fills \x1b[2J",
        "license": "MIT",
        "compatibility": "",
        "metadata": {},
        "allowed_tools": [],
        "for_model": True,
        "scope": "user",
        "source": str(mine),
    }


def test_an_empty_list_says_how_to_create_one(ostler: Ostler) -> None:
    ran = ostler("skills")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == (
        "ostler: there are no skills; create .ostler/skills/NAME/SKILL.md here, "
        f"or {ostler.home}/skills/NAME/SKILL.md\n"
    )
    assert not ostler.home.exists()


def test_a_terminal_gets_headings_and_lines_that_fit(ostler: Ostler) -> None:
    write_skill(ostler.home / "skills", "a", "description: " + "long " * 40)
    head, line = ostler.on_terminal("skills", columns=70).out.splitlines()
    assert head.split() == ["NAME", "BY", "FROM", "DESCRIPTION"]
    assert len(line) <= 70 and line.endswith("…")


def test_a_projects_skill_needs_trust_again_after_a_change(ostler: Ostler) -> None:
    path = write_skill(ostler.work / ".agents" / "skills", "release", "description: Tags: and pushes.")
    before = ostler("skills")
    notice = (
        "ostler: skills of this project are not used until you review them and run "
        f"`ostler trust {quote(str(ostler.work))}`: release\n"
    )
    assert (before.out, before.err) == ("", notice)
    assert ostler("trust").out == (
        f"{path} tells the model:\n  release: Tags: and pushes.\n"
        "  5 lines in all, read when the skill is used\n"
        f"trusted; `ostler trust --remove {quote(str(ostler.work))}` withdraws it\n"
    )
    after = ostler("skills")
    assert (after.out.split()[0], after.err) == ("release", "")
    assert ostler("trust", "--list").out == f"{path}\n"

    path.write_text(path.read_text() + "And more.")
    assert ostler("skills").err == notice
    assert ostler("trust", "--list").out == f"{path}  (changed since)\n"
    assert ostler("trust", "--remove").out == f"{ostler.work} is no longer trusted\n"
    assert ostler("trust", "--list").out == ""


def test_the_model_receives_instructions_and_skills(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(call("skill", {"name": "pdf"})), turn("done"))
    shared = ostler.home / ".agents"
    path = write_skill(shared / "skills", "pdf", body="Use qpdf.")
    (shared / "AGENTS.md").write_text("Shared.")
    (ostler.home / "AGENTS.md").write_text("Mine.")
    (ostler.work / "CLAUDE.md").write_text("The project's.")
    ran = ostler("-p", "--json", *use(vendor), "--append-system", "At last.", "go")
    assert ran.code == 0, ran.err
    system = system_of(vendor)
    marks = (
        f"# Instructions from {shared}/AGENTS.md\n\nShared.",
        f"# Instructions from {ostler.home}/AGENTS.md\n\nMine.",
        f"# Instructions from {ostler.work}/CLAUDE.md\n\nThe project's.",
        f'<skill name="pdf" location="{path}">d</skill>',
        "At last.",
        "Working directory: ",
    )
    places = [system.index(mark) for mark in marks]
    assert places == sorted(places)
    assert system_of(vendor, 1) == system
    assert offered(vendor)["skill"]["properties"]["name"]["enum"] == ["pdf"]
    (result,) = ran.all("tool_result")
    assert result["content"][0]["text"].splitlines()[1] == "Use qpdf."
    assert "failed" not in result or result["failed"] is None


def test_instructions_can_be_switched_off(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(*[turn("done")] * 3, turn(call("read", {"path": "sub/a.txt"})), turn("done"))
    (ostler.work / "AGENTS.md").write_text("Here.")
    (ostler.work / "sub").mkdir()
    (ostler.work / "sub" / "AGENTS.md").write_text("Below.")
    (ostler.work / "sub" / "a.txt").write_text("text")
    assert ostler("-p", *use(vendor), "go").code == 0
    assert ostler("-p", *use(vendor), "go", OSTLER_INSTRUCTIONS="false").code == 0
    ostler.configure("instructions = false")
    assert ostler("-p", *use(vendor), "go").code == 0
    ostler.configure("")
    ran = ostler("-p", "--json", *use(vendor), "--no-instructions", "go")
    assert ["Here." in system_of(vendor, number) for number in range(5)] == [True, *[False] * 4]
    assert "Below." not in ran.out


def test_without_skills_for_the_model_there_is_no_skill_tool(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("done"), turn("done"))
    write_skill(ostler.work / ".agents" / "skills", "theirs")
    write_skill(ostler.home / "skills", "by-hand", "description: d\ndisable-model-invocation: true")
    ran = ostler("-p", *use(vendor), "go")
    assert "`ostler trust" in ran.err
    assert "skill" not in offered(vendor) and "Skills" not in system_of(vendor)

    write_skill(ostler.home / "skills", "mine")
    ostler("-p", *use(vendor), "--tools", "read", "go")
    assert list(offered(vendor, 1)) == ["read"] and "Skills" not in system_of(vendor, 1)


def test_a_skill_can_be_denied(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(call("skill", {"name": "mine"})), turn("done"))
    write_skill(ostler.home / "skills", "mine", body="Secret.")
    ostler.configure("deny = ['skill']")
    ran = ostler("-p", "--json", *use(vendor), "go")
    assert ran.all("tool_result")[0]["failed"] == "call_refused"


def test_a_recording_replays_with_its_instructions(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(call("read", {"path": "sub/a.txt"})), turn("done"))
    (ostler.work / "AGENTS.md").write_text("Here.")
    (ostler.work / "sub").mkdir()
    (ostler.work / "sub" / "AGENTS.md").write_text("Below.")
    (ostler.work / "sub" / "a.txt").write_text("text")
    ran = ostler("-p", "--json", *use(vendor), "go")
    session = ran.facts[0]["session"]
    assert "Below." in ran.all("tool_result")[0]["content"][-1]["text"]
    replayed = ostler("replay", "--tools", "live", "--json", session).lines[0]
    assert replayed.get("difference") is None
