"""Named agents: where their files are, what they say, and what a project's may not decide."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

import pytest

from ostler.permissions.trust import trust
from ostler.schema.events import Limits
from ostler.sessions.agents import LARGEST_FILE, Agents, AgentSpec, find_agents


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def write(folder: Path, name: str, front: str = "description: d", body: str = "") -> Path:
    """An agent of a project's folder or, in the home, of the user's."""
    place = folder / "agents" if folder.name == "home" else folder / ".ostler" / "agents"
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{name}.md"
    path.write_text(f"---\n{front}\n---\n{body}")
    return path


def only(agents: Agents) -> AgentSpec:
    (agent,) = agents.by_name.values()
    return agent


def problems(agents: Agents, path: Path) -> list[str]:
    """What is wrong with that file; nothing else may be wrong."""
    assert all(problem.startswith(f"{path}: ") and "\n" not in problem for problem in agents.problems)
    return [problem.removeprefix(f"{path}: ") for problem in agents.problems]


def test_a_file_may_set_every_field_of_an_agent(home: Path, project: Path) -> None:
    path = write(
        home,
        "reviewer",
        "description: >\n  Reads changes,\n  and says what is wrong.\nmodel: sonnet\ntools: [read, grep]\n"
        "judge: grep\nhistory: 2\nmax_steps: 5\nmax_tokens: 9000\nmax_cost: 0.25\nmax_seconds: 60\n"
        "max_depth: 0\nmax_children: 3\ncolor: blue",
        "\nYou review.\n\nBe brief.\n",
    )
    agents = find_agents(project)
    assert only(agents) == AgentSpec(
        name="reviewer",
        description="Reads changes, and says what is wrong.",
        model="sonnet",
        tools=("read", "grep"),
        system="You review.\n\nBe brief.",
        judge="grep",
        limits=Limits(steps=5, tokens=9000, cost=0.25, seconds=60.0, depth=0, children=3),
        history=2,
        scope="user",
        source=str(path),
    )
    assert (agents.problems, agents.models_to_trust) == ((), ())


def test_an_absent_field_means_the_parents_value(project: Path) -> None:
    for front in ("description: d", "description: d\nmodel:\ntools:\njudge:", 'description: d\ntools: "*"'):
        path = write(project, "a", front)
        assert only(find_agents(project)) == AgentSpec(
            name="a", description="d", scope="project", source=str(path)
        )
    write(project, "a", "description: d\nmodel: inherit\ntools: []")
    assert (only(find_agents(project)).model, only(find_agents(project)).tools) == ("", ())


def test_the_first_agent_of_a_name_wins_and_the_nearest_folder_is_first(home: Path, project: Path) -> None:
    below = project / "a" / "b"
    below.mkdir(parents=True)

    def winner() -> str:
        agents = find_agents(below)
        assert agents.problems == ()
        return only(agents).description

    write(project.parent, "one", "description: outside of the repository")
    write(home, "x", "name: one\ndescription: user's")
    assert winner() == "user's"
    (project / ".agents" / "agents").mkdir(parents=True)
    (project / ".agents" / "agents" / "one.md").write_text("---\ndescription: shared\n---")
    assert winner() == "shared"
    write(project, "one", "description: project's")
    assert winner() == "project's"
    write(below, "one", "description: nearest")
    assert winner() == "nearest"


def test_outside_of_a_repository_only_the_folder_itself_counts(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    write(tmp_path / "a", "above")
    write(below, "here")
    assert list(find_agents(below).by_name) == ["here"]


def test_the_users_own_folder_is_never_a_projects(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSTLER_HOME", str(project / ".ostler"))
    write(project, "mine", "description: d\nmodel: opus")
    agent = only(find_agents(project))
    assert (agent.scope, agent.model) == ("user", "opus")


def test_a_projects_model_is_used_only_if_its_file_is_trusted(project: Path) -> None:
    path = write(project, "a", "description: d\nmodel: openai/dear")
    agents = find_agents(project)
    assert only(agents).model == ""
    assert problems(agents, path) == [
        "its model 'openai/dear' is ignored, and its parent's model used, until you review it and run "
        f"`ostler trust {quote(str(project))}`"
    ]
    (model,) = agents.models_to_trust
    assert (model.path, model.content, model.model) == (path, path.read_bytes(), "openai/dear")

    trust(path, model.content)
    agents = find_agents(project)
    assert (only(agents).model, agents.problems, agents.models_to_trust) == ("openai/dear", (), ())
    path.write_text(path.read_text().replace("dear", "dearer"))
    assert only(find_agents(project)).model == ""


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Read, Write, Edit, Bash, Grep, Glob, LS", ("read", "write", "edit", "bash", "grep", "find", "ls")),
        ("[Read, read, 'GREP']", ("read", "grep")),
        ("\n  - Glob\n  - find", ("find",)),
        ("MultiEdit", ("edit",)),
    ],
)
def test_tools_may_have_the_names_of_other_programs(
    project: Path, written: str, tools: tuple[str, ...]
) -> None:
    write(project, "a", f"description: d\ntools: {written}")
    agents = find_agents(project)
    assert (only(agents).tools, agents.problems) == (tools, ())


def test_unknown_tools_are_reported_and_left_out(project: Path) -> None:
    path = write(project, "a", "description: d\ntools: WebFetch, Read, Bash(git diff), 'x\ty'")
    agents = find_agents(project)
    assert only(agents).tools == ("read",)
    assert problems(agents, path) == [
        "there is no tool 'WebFetch', 'Bash(git diff)', \"'x\\ty'\"; the agent works without it"
    ]
    write(project, "a", "description: d\ntools: Remember, Glob\njudge: verdict")
    agents = find_agents(project, ("remember", "glob", "verdict"))
    assert only(agents).tools == ("remember", "glob")


def test_a_judge_is_one_of_the_agents_tools(project: Path) -> None:
    for tools, judge in (("read", "grep"), ("read", "verdict"), ("", "verdict")):
        path = write(project, "a", f"description: d\ntools: {tools}\njudge: {judge}")
        agents = find_agents(project)
        assert only(agents).judge == ""
        assert problems(agents, path) == [
            f"its judge {judge!r} is not one of its tools; its answer is its result"
        ]
    write(project, "a", "description: d\njudge: Glob")
    assert only(find_agents(project)).judge == "find"


def test_an_invalid_name_is_replaced_by_the_files_name(project: Path) -> None:
    path = write(project, "reviewer", "name: Code Reviewer\ndescription: d")
    agents = find_agents(project)
    assert list(agents.by_name) == ["reviewer"]
    (problem,) = problems(agents, path)
    assert problem.endswith("the agent is called reviewer, not 'Code Reviewer'")


def test_restrictions_of_other_programs_are_reported_as_ignored(project: Path) -> None:
    path = write(project, "a", "description: d\npermissionMode: plan\nhooks:\n  Stop:\n    - matcher: x")
    agents = find_agents(project)
    assert list(agents.by_name) == ["a"]
    assert [problem.partition(" has ")[0] for problem in problems(agents, path)] == [
        "its `hooks`",
        "its `permissionMode`",
    ]


@pytest.mark.parametrize(
    ("front", "why"),
    [
        ("name: a", "it has no `description`, which says when to use it"),
        ("description: ' '", "it has no `description`, which says when to use it"),
        ("description: [a]", "description must be a text, not ['a']"),
        ("description: d\nmax_steps: many", "max_steps must be a whole number from 1 on, not 'many'"),
        ("description: d\nmax_steps: 0", "max_steps must be a whole number from 1 on, not 0"),
        ("description: d\nmax_cost: nan", "max_cost must be a number above 0, not 'nan'"),
        ("description: d\nhistory: -1", "history must be a whole number from 0 on, not -1"),
        (
            "description: d\ntools:\n  write: false",
            "`tools` must be a list of names, or names separated by commas",
        ),
        ("description: d\ntools: [1]", "`tools` must be a list of names, or names separated by commas"),
        ("description: {a: b}", "line 2: { has a special meaning here: put quotes around the text"),
    ],
)
def test_an_invalid_file_is_reported_and_does_not_hide_another(
    home: Path, project: Path, front: str, why: str
) -> None:
    path = write(project, "a", front)
    write(home, "a", "description: user's")
    agents = find_agents(project)
    assert only(agents).scope == "user"
    assert problems(agents, path) == [f"{why}; the agent is left out"]


def test_a_file_that_cannot_be_used_is_reported(tmp_path: Path, project: Path) -> None:
    folder = write(project, "good").parent
    (folder / "Bad Name.md").write_text("---\ndescription: d\n---")
    (folder / "binary.md").write_bytes(b"\xff\xfe")
    (folder / "folder.md").mkdir()
    (folder / "large.md").write_bytes(b"-" * (LARGEST_FILE + 1))
    (folder / "plain.md").write_text("# Notes\n")
    (folder / "twice.md").write_text("---\nname: good\ndescription: d\n---")
    (folder / "nowhere.md").symlink_to("nothing")
    outside = tmp_path / "private.md"
    outside.write_text("---\ndescription: d\n---\nsecret")
    (folder / "link.md").symlink_to(outside)
    os.mkfifo(folder / "pipe.md")
    for ignored in (".hidden.md", "notes.txt"):
        (folder / ignored).write_text("nothing")
    (folder / os.fsdecode(b"\xff.md")).write_text("---\nname: b\ndescription: d\n---")
    agents = find_agents(project)
    assert list(agents.by_name) == ["good"]
    problems_found = [
        problem.removeprefix(f"{folder}/").removesuffix("; the agent is left out")
        for problem in agents.problems
    ]
    assert problems_found == [
        "Bad Name.md: a name may contain only a to z, 0 to 9, - and _, which 'Bad Name' does not",
        "binary.md: it is not UTF-8",
        "folder.md: it is not a file",
        "large.md: it is larger than 256 KiB",
        "link.md: it is a link to a file outside the project",
        "nowhere.md: it is not a file",
        "pipe.md: it is not a file",
        "plain.md: it has no `description`, which says when to use it",
        f"twice.md: {folder}/good.md has the name good, too",
        "?.md: its path is not valid UTF-8",
    ]  # fmt: skip


def test_a_link_within_the_project_or_of_the_user_is_followed(
    home: Path, tmp_path: Path, project: Path
) -> None:
    (project / "prompts").mkdir()
    (project / "prompts" / "a.md").write_text("---\ndescription: d\n---")
    write(project, "b").with_name("a.md").symlink_to("../../prompts/a.md")
    (tmp_path / "mine.md").write_text("---\ndescription: d\n---")
    write(home, "c").with_name("mine.md").symlink_to(tmp_path / "mine.md")
    agents = find_agents(project)
    assert (sorted(agents.by_name), agents.problems) == (["a", "b", "c", "mine"], ())


def test_an_unreadable_file_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory(dir="/tmp") as name:  # $TMPDIR may lie in a folder that is closed to others
        folder = Path(name).resolve()
        folder.chmod(0o755)
        monkeypatch.setenv("OSTLER_HOME", str(folder / "home"))
        umask = os.umask(0o022)  # the folders can be entered, as any user
        path = write(folder / "project", "a")
        mine = write(folder / "home", "b").parent
        os.umask(umask)
        path.chmod(0)
        mine.chmod(0)
        with not_as_root():
            problems_found = find_agents(folder / "project").problems
        mine.chmod(0o700)
    assert problems_found == (
        f"{path}: it cannot be read: Permission denied; the agent is left out",
        f"{mine}: it cannot be read: Permission denied",
    )


@contextmanager
def not_as_root() -> Iterator[None]:
    """Root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_without_agents_no_parser_is_loaded(project: Path) -> None:
    (project / ".agents").write_text("a file")
    program = (
        "import sys; from pathlib import Path; from ostler.sessions.agents import find_agents;"
        f"print(find_agents(Path({str(project)!r})));"
        "print(sorted({'ostler.context.markdown', 'ostler.core.validation'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["Agents(by_name={}, problems=(), models_to_trust=())", "[]"]


RULES = """\
description: d
context:
  summaries:
    at: 0.5
    model: sonnet
  must_keep:
    tools: [read]
"""


def test_an_agent_may_have_context_rules(home: Path) -> None:
    write(home, "a", RULES + "  window:\n    tokens: 9000\n  checkpoints:\n    offered: true")
    assert only(find_agents(home)).context == {
        "summaries": {"at": 0.5, "model": "sonnet"},
        "must_keep": {"tools": ("read",)},
        "window": {"tokens": 9000},
        "checkpoints": {"offered": True},
    }


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ("  windows:\n    tokens: 5", "there is no setting context.windows; is it window?"),
        ("  window:\n    tokens: many", "context.window.tokens must be a whole number above 0, not 'many'"),
        ("  window: 5", "context.window must be a table"),
        (" 5", "context must be a table"),
        (
            "  summaries:\n    at: 0.2",
            "context.summaries.keep (0.25, from the defaults) must be less than "
            "context.summaries.at (0.2, from this file)",
        ),
    ],
)
def test_an_agent_with_invalid_rules_is_left_out(project: Path, rules: str, complaint: str) -> None:
    path = write(project, "a", f"description: d\ncontext:{rules if rules == ' 5' else chr(10) + rules}")
    agents = find_agents(project)
    assert not agents.by_name and problems(agents, path) == [f"{complaint}; the agent is left out"]


def test_the_model_for_the_summaries_of_a_projects_agent_needs_trust(project: Path) -> None:
    path = write(project, "a", RULES)
    agents = find_agents(project)
    assert only(agents).context["summaries"] == {"at": 0.5}
    (model,) = agents.models_to_trust
    assert (model.field, model.model) == ("context.summaries.model", "sonnet")
    assert "its context.summaries.model 'sonnet' is ignored" in problems(agents, path)[0]
    trust(path, path.read_bytes())
    assert only(find_agents(project)).context["summaries"] == {"at": 0.5, "model": "sonnet"}
