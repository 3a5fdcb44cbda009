"""`context.skills`: reading skills and adding them to the context."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.models.scripted import ScriptedModel
from ostler.permissions.trust import trust
from ostler.schema.errors import UsageError
from ostler.schema.messages import as_content
from ostler.sessions.session import Session
from tests.support.extension_session import extension, facts_of, session_with

SKILL = """---
name: {name}
description: {name} is done so.
license: MIT
metadata:
  author: us
allowed-tools: read bash
tags: [a, b]
when: in need
---
Do {name} well.
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("OSTLER_HOME", str(home))
    monkeypatch.setenv("HOME", str(home))
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    return project


def write_skill(folder: Path, name: str, text: str = "") -> Path:
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(text or SKILL.format(name=name))
    return file


async def at_work(project: Path, *script: Any) -> tuple[Session, ExtensionContext, ScriptedModel]:
    model = ScriptedModel(script)
    session, host = await session_with(model, extension("mine", lambda ostler: None), cwd=project)
    return session, host.sessions[session.id].channels["mine"].context, model


async def test_a_skill_is_loaded_with_all_its_fields(project: Path, tmp_path: Path) -> None:
    file = write_skill(tmp_path / "elsewhere", "baking")
    session, context, _ = await at_work(project)
    for path in (file, file.parent, str(file)):
        skill = context.skills.load(path)
        assert (skill.name, skill.description, skill.content) == (
            "baking",
            "baking is done so.",
            "Do baking well.",
        )
    assert (skill.license, skill.metadata, skill.allowed_tools) == ("MIT", {"author": "us"}, ("read", "bash"))
    assert (skill.tags, skill.when, skill.for_model, skill.path) == (("a", "b"), "in need", True, str(file))
    await session.close()


async def test_an_unusable_skill_raises_its_problem(project: Path, tmp_path: Path) -> None:
    bad = write_skill(tmp_path / "elsewhere", "bad", "---\nname: bad\n---\nNo description.")
    session, context, _ = await at_work(project)
    with pytest.raises(UsageError, match="it has no `description`"):
        context.skills.load(bad)
    with pytest.raises(UsageError, match=r"there is no SKILL\.md in"):
        context.skills.load(tmp_path / "nowhere")
    await session.close()


async def test_all_skills_of_a_folder_are_loaded_and_problems_reported(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    write_skill(folder, "baking")
    write_skill(folder, "cooking")
    write_skill(folder, "bad", "no front matter")
    session, context, _ = await at_work(project)
    read = context.skills.load_from(folder)
    assert [skill.name for skill in read.skills] == ["baking", "cooking"]
    (problem,) = read.problems
    assert "bad/SKILL.md" in problem
    await session.close()


async def test_a_projects_skills_are_available_only_when_trusted(project: Path) -> None:
    file = write_skill(project / ".ostler/skills", "baking")
    session, context, _ = await at_work(project)
    assert context.skills.available() == []
    (problem,) = context.skills.discover().problems
    assert f"`ostler trust {quote(str(project))}`" in problem
    with pytest.raises(UsageError, match="review it and run `ostler trust"):
        context.skills.load(file)
    with pytest.raises(UsageError, match="review it and run `ostler trust"):
        context.skills.inject("baking")
    with pytest.raises(UsageError, match="review it and run `ostler trust"):
        context.skills.inject_file(file)
    trust(file, file.read_bytes())
    assert context.skills.available() == []
    assert [skill.name for skill in context.skills.discover().skills] == ["baking"]
    assert context.skills.available()[0].scope == "project"
    assert context.skills.load(file).name == "baking"
    await session.close()


async def test_an_injected_skill_reaches_the_model_with_the_next_run(project: Path) -> None:
    file = write_skill(project / ".agents/skills", "baking")
    trust(file, file.read_bytes())
    session, context, model = await at_work(project, "done")
    entry = context.skills.inject("baking")
    assert not model.requests
    await session.prompt(as_content("bake"))
    texts = [message.text for message in model.requests[0].transcript]
    assert texts[0].startswith('<skill name="baking"') and "Do baking well." in texts[0]
    assert texts[1:] == ["bake"]
    (kept,) = await context.history.entries("skill")
    assert (kept.entry, kept.data) == (entry, {"skill": "baking"})
    with pytest.raises(UsageError, match="there is no skill 'cooking'; the skills are: baking"):
        context.skills.inject("cooking")
    await session.close()


async def test_a_file_is_injected_as_it_is_without_its_front_matter(project: Path, tmp_path: Path) -> None:
    notes = tmp_path / "elsewhere" / 'no"tes.md'
    notes.parent.mkdir()
    notes.write_text("---\nanything: goes\n---\nMind the gap.\n")
    session, context, _ = await at_work(project)
    context.skills.inject_file(notes)
    (entry,) = await facts_of(session, "extension_entry")
    assert entry.told[0].text == '<skill name="no&quot;tes">\nMind the gap.\n</skill>'
    with pytest.raises(UsageError, match="cannot be used: there is no such file"):
        context.skills.inject_file(tmp_path / "none.md")
    (tmp_path / "large.md").write_text("x" * 70_000)
    with pytest.raises(UsageError, match="it is larger than 64 KiB"):
        context.skills.inject_file(tmp_path / "large.md")
    (project / "README.md").write_text("Do evil.")
    with pytest.raises(UsageError, match=r"can be trusted only in \.ostler/skills or \.agents/skills"):
        context.skills.inject_file("README.md")
    await session.journal.commit()
    await session.close()


async def test_a_plain_command_injects_a_skill(project: Path) -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.command("bake")
        def bake(arguments: str, context: ExtensionContext) -> str:
            context.skills.inject("baking")
            return context.skills.available()[0].description

    write_skill(project.parent / "home" / "skills", "baking")
    session, host = await session_with(ScriptedModel([]), extension("mine", setup), cwd=project)
    assert await host.run_command(session, "bake", "") == "baking is done so."
    assert len(await facts_of(session, "extension_entry")) == 1
    await session.close()
