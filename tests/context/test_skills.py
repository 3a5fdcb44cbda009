"""Skills: where they are found, which files are valid, and what the model gets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from shlex import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.context.skills import (
    LARGEST_CATALOGUE,
    LARGEST_FILE,
    Skill,
    Skills,
    SkillTool,
    activated,
    catalogue,
    expand_skill,
    find_skills,
)
from ostler.schema.errors import InvalidArguments, ToolFailed, UsageError
from ostler.schema.messages import text_of
from ostler.testkit.fakes import FakeToolContext


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "own"


def write(place: Path, name: str, front: str = "", body: str = "Do it.\n", folder: str = "") -> Path:
    path = place / (folder or name) / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\n{front or 'description: d'}\n---\n{body}")
    return path


def find(cwd: Path, *users: Path, root: Path | None = None, distrusted: Collection[Path] = ()) -> Skills:
    return find_skills(cwd, root or cwd, users, lambda path, content: path not in distrusted)


def only_problem(skills: Skills, path: Path) -> str:
    (problem,) = skills.problems
    assert problem.startswith(f"{path}: ") and "\n" not in problem
    return problem.removeprefix(f"{path}: ")


def test_a_skill_file_declares_all_fields(root: Path, own: Path) -> None:
    path = write(
        own,
        "pdf-forms",
        "description: >\n  Fills forms.\n  Use it for: PDF files.\nlicense: MIT\n"
        "compatibility: Needs qpdf\nmetadata:\n  author: ada\n  version: 2\n"
        "allowed-tools: Bash(qpdf *) Read\ncolour: blue",
    )
    skills = find(root, own)
    (skill,) = skills.by_name.values()
    assert skill == Skill(
        name="pdf-forms",
        description="Fills forms. Use it for: PDF files.",
        license="MIT",
        compatibility="Needs qpdf",
        metadata={"author": "ada", "version": "2"},
        allowed_tools=("Bash(qpdf", "*)", "Read"),
        scope="user",
        source=str(path),
        digest=skill.digest,
    )
    assert skills.notices == ()


def test_the_nearest_wins_and_the_project_before_the_user(root: Path, own: Path, tmp_path: Path) -> None:
    shared, cwd = tmp_path / "shared", root / "a"
    project = [folder / place for folder in (cwd, root) for place in (".ostler/skills", ".agents/skills")]
    places = [*project, own, shared]
    for first in range(len(places)):
        for place in places[first:]:
            write(place, f"skill-{first}")
    write(tmp_path / ".agents/skills", "above")
    skills_found = find(cwd, own, shared, root=root).by_name
    expected = {f"skill-{n}": str(place / f"skill-{n}" / "SKILL.md") for n, place in enumerate(places)}
    assert {name: skill.source for name, skill in skills_found.items()} == expected
    assert [skill.scope for skill in skills_found.values()] == ["project"] * 4 + ["user"] * 2


def test_the_users_own_folder_is_not_the_projects_even_inside_of_it(root: Path) -> None:
    path = write(root / ".agents/skills", "mine")
    skills = find(root, root / ".agents/skills", distrusted=[path])
    assert skills.by_name["mine"].scope == "user"


def test_a_projects_skill_is_omitted_until_it_is_trusted(root: Path, own: Path) -> None:
    theirs = write(root / ".agents/skills", "release", "description: theirs")
    other = write(root / ".agents/skills", "other")
    write(own, "release", "description: mine")
    skills = find(root, own, distrusted=[theirs, other])
    assert {name: skill.description for name, skill in skills.by_name.items()} == {"release": "mine"}
    assert [(one.name, one.path) for one in skills.to_trust] == [("other", other), ("release", theirs)]
    assert skills.problems == ()
    assert skills.notices == (
        f"skills of this project are not used until you review them and run "
        f"`ostler trust {quote(str(root))}`: other, release",
    )
    assert find(root, own).by_name["release"].description == "theirs"


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("Upper", ""),
        ("-a", ""),
        ("a-", ""),
        ("a--b", ""),
        ("a_b", ""),
        ("a" * 65, ""),
        ("other", "folder"),
        ("é", ""),
        ("", "folder"),
    ],
)
def test_a_name_has_its_rules(name: str, folder: str, root: Path) -> None:
    path = write(root, name, folder=folder)
    skills = find(root, root)
    assert skills.by_name == {}
    assert only_problem(skills, path).endswith("; the skill is left out")


@pytest.mark.parametrize("name", ["a", "7", "a-b-c", "x" * 64, "0-9"])
def test_names_within_the_rules(name: str, root: Path) -> None:
    write(root, name)
    assert list(find(root, root).by_name) == [name]


@pytest.mark.parametrize(
    ("front", "complaint"),
    [
        ("license: MIT", "it has no `description`"),
        ("description:", "it has no `description`"),
        ("description: '  '", "it has no `description`"),
        ("description: [a]", "it has no `description`"),
        ("description: " + "x" * 1025, "its description has 1025 characters; the limit is 1024"),
        ("description: [a", "line 3: "),
    ],
)
def test_a_skill_without_a_description_is_omitted(front: str, complaint: str, root: Path) -> None:
    path = write(root, "a", front)
    skills = find(root, root)
    assert skills.by_name == {}
    assert only_problem(skills, path).startswith(complaint)


@pytest.mark.parametrize(
    "front", ["compatibility: " + "x" * 501, "metadata: [a]", "allowed-tools: 7", "license: [a]"]
)
def test_an_invalid_optional_field_is_reported_and_the_skill_is_used(front: str, root: Path) -> None:
    path = write(root, "a", f"description: d\n{front}")
    skills = find(root, root)
    assert "a" in skills.by_name
    assert only_problem(skills, path).startswith(f"its `{front.split(':')[0]}` ")
    assert len(skills.by_name["a"].compatibility) <= 500


def test_what_is_no_skill_is_passed_over(root: Path) -> None:
    (root / "README.md").write_text("not a skill")
    (root / "empty").mkdir()
    write(root, "hidden", folder=".hidden")
    write(root / "deep", "nested")
    assert find(root, root) == Skills({}, (), ())


def test_unusable_files_are_omitted_with_a_reason(root: Path, tmp_path: Path) -> None:
    place = root / ".agents/skills"
    outside = write(tmp_path / "elsewhere", "out")
    place.mkdir(parents=True)
    (place / "out").symlink_to(outside.parent)
    write(place, "long", body="x" * LARGEST_FILE)
    (place / "folder" / "SKILL.md").mkdir(parents=True)
    (place / "latin").mkdir()
    (place / "latin" / "SKILL.md").write_bytes(b"---\nname: latin\ndescription: caf\xe9\n---\n")
    skills = find(root)
    assert (skills.by_name, skills.to_trust) == ({}, ())
    assert [problem.removeprefix(f"{place}/") for problem in skills.problems] == [
        "folder/SKILL.md: it is not a file; the skill is left out",
        "latin/SKILL.md: it is not UTF-8; the skill is left out",
        "long/SKILL.md: it is larger than 64 KiB; the skill is left out",
        "out/SKILL.md: it is a link to a file outside the project; the skill is left out",
    ]


@given(st.text(max_size=200))
def test_any_front_matter_yields_a_skill_or_a_one_line_problem(front: str) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        root = Path(name)
        (root / "a").mkdir()
        content = f"---\nname: a\n{front}\n---\nbody".encode(errors="replace")
        (root / "a" / "SKILL.md").write_bytes(content)
        skills = find(root, root)
        assert bool(skills.by_name) or len(skills.problems) == 1
        assert not any("\n" in problem for problem in skills.problems)


def test_the_catalogue_is_small_and_escaped(root: Path) -> None:
    path = write(root, "a", 'description: "less < more & \\"so\\""')
    text, left_out = catalogue(find(root, root).for_model)
    assert left_out == ()
    assert text.splitlines()[-3:] == [
        "<skills>",
        f'<skill name="a" location="{path}">less &lt; more &amp; &quot;so&quot;</skill>',
        "</skills>",
    ]
    assert catalogue({}) == ("", ())


def test_what_the_catalogue_has_no_room_for_is_named(root: Path) -> None:
    for number in range(40):
        write(root, f"skill-{number:02}", "description: " + "x" * 1000)
    text, left_out = catalogue(find(root, root).for_model)
    assert len(text.encode()) < LARGEST_CATALOGUE + 500
    assert left_out and left_out[-1] == "skill-39"
    assert text.count("<skill ") + len(left_out) == 40


def test_a_skill_that_is_not_for_the_model_is_for_people(root: Path) -> None:
    write(root, "deploy", "description: d\ndisable-model-invocation: true")
    skills = find(root, root)
    assert skills.for_model == {}
    assert "Do it." in (expand_skill("/skill:deploy", skills, root) or "")


async def test_the_tool_tells_the_text_and_the_files(root: Path) -> None:
    path = write(root / "skills", "pdf", body="Run scripts/fill.py.\n")
    for name in ("scripts/fill.py", "references/forms.md", "LICENSE", "scripts/.cache"):
        (path.parent / name).parent.mkdir(exist_ok=True)
        (path.parent / name).write_text("x")
    tool = SkillTool(find(root, root / "skills").for_model)
    assert tool.spec.schema["properties"]["name"]["enum"] == ["pdf"]
    outcome = await tool.run(tool.validate({"name": "pdf"}), FakeToolContext(cwd=root))
    assert text_of(outcome.content).splitlines() == [
        f'<skill name="pdf" folder="{path.parent}">',
        "Run scripts/fill.py.",
        "</skill>",
        "",
        "Paths in it are relative to its folder, which has these files:",
        "skills/pdf/LICENSE",
        "skills/pdf/references/forms.md",
        "skills/pdf/scripts/fill.py",
    ]
    assert outcome.details == {"skill": "pdf", "source": "skills/pdf/SKILL.md"}
    with pytest.raises(InvalidArguments, match="there is no skill 'other'; the skills are: pdf"):
        tool.validate({"name": "other"})


def test_at_most_fifty_files_are_listed(root: Path) -> None:
    path = write(root, "big")
    for number in range(60):
        (path.parent / f"{number:02}.txt").write_text("")
    *_, last, more = activated(find(root, root).by_name["big"], root).splitlines()
    assert (last, more) == ("big/49.txt", "[more files: list the folder]")


async def test_a_projects_skill_changed_after_discovery_is_refused(root: Path, own: Path) -> None:
    theirs = write(root / ".agents/skills", "theirs")
    mine = write(own, "mine")
    skills = find(root, own)
    for path in (theirs, mine):
        path.write_text(path.read_text() + "And more.")
    tool = SkillTool(skills.for_model)
    result = await tool.run(tool.validate({"name": "mine"}), FakeToolContext(cwd=root))
    assert "And more." in text_of(result.content)
    with pytest.raises(ToolFailed, match="has changed: the user must review it and run `ostler trust` again"):
        await tool.run(tool.validate({"name": "theirs"}), FakeToolContext(cwd=root))
    mine.unlink()
    with pytest.raises(ToolFailed, match="no longer exists"):
        await tool.run(tool.validate({"name": "mine"}), FakeToolContext(cwd=root))


def test_a_prompt_can_begin_with_a_skill(root: Path) -> None:
    write(root, "pdf")
    skills = find(root, root)
    expanded = expand_skill("/skill:pdf fill\nthis form\n", skills, root)
    assert expanded == f'<skill name="pdf" folder="{root}/pdf">\nDo it.\n</skill>\n\nfill\nthis form'
    for other in ("hello", "/skills", "see /skill:pdf", "/pdf", ""):
        assert expand_skill(other, skills, root) is None


def test_an_unknown_skill_in_a_prompt_raises_with_advice(root: Path) -> None:
    path = write(root / ".agents/skills", "theirs")
    skills = find(root, distrusted=[path])
    with pytest.raises(UsageError, match="belongs to this project: review it and run `ostler trust "):
        expand_skill("/skill:theirs go", skills, root)
    with pytest.raises(UsageError, match="there is no skill 'no'; the skills are: none"):
        expand_skill("/skill:no", skills, root)


def test_where_there_is_no_skill_nothing_is_imported_to_read_one(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from ostler.context.instructions import skills_in;"
        "assert skills_in(Path.cwd()).by_name == {}; print('ostler.context.markdown' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
        env={"OSTLER_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "PATH": ""},
    )
    assert done.stdout == "False\n"
