"""Protected files: what is asked about under every profile but `full`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ostler.context.mentions import with_mentions
from ostler.core.hooks import Allow, Ask, PlannedCall, Refuse
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.permissions.guard import permission_hook
from ostler.permissions.protected import PROTECTIONS, protect_used, protected_reason
from ostler.permissions.rules import Effect, Profile, parse_rule
from ostler.schema.messages import text_of
from ostler.store.paths import note_store
from ostler.tools import builtin_tool, builtin_tools
from tests.support.running import run

PROFILES: tuple[Profile, ...] = ("read-only", "ask", "edit")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = (tmp_path / "home").resolve()
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("OSTLER_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    return folder


def decide(
    cwd: Path, profile: Profile, tool: str, /, *, rules: dict[str, Effect] | None = None, **arguments: Any
) -> Any:
    parsed = [parse_rule(text, effect) for text, effect in (rules or {}).items()]
    hook = permission_hook(profile, cwd, parsed)
    if hook is None:
        return Allow("no hook")
    return hook.handler(PlannedCall("c", tool, builtin_tool(tool).spec.kind, arguments, 1), None)  # type: ignore[arg-type]


CHANGES = [
    ".ostler/extensions/a.py",
    "ostler.toml",
    ".claude/settings.json",
    ".mcp.json",
    "AGENTS.md",
    "CLAUDE.md",
    "sub/AGENTS.md",
    ".git/config",
    ".git/hooks/pre-commit",
    ".husky/pre-commit",
    ".gitconfig",
    ".config/git/config",
    ".bashrc",
    ".profile",
    ".zshenv",
    ".config/fish/config.fish",
    ".ssh/authorized_keys",
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    ".envrc",
    ".npmrc",
    ".config/systemd/user/a.service",
    ".config/autostart/a.desktop",
    ".agents/skills/x/run.sh",
    "SKILL.md",
    ".netrc",
    ".vimrc",
    ".exrc",
]
READS = [
    ".env",
    ".env.local",
    "config/.env.production",
    "prod.env",
    "server.pem",
    "tls/server.key",
    "id_rsa",
    "keys/id_ed25519",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".aws/credentials",
    ".ssh/id_other",
    ".kube/config",
    ".docker/config.json",
    ".config/gh/hosts.yml",
    ".bash_history",
    ".git-credentials",
]
FREE = [
    "README.md",
    "src/env.py",
    "id_map.py",
    "git.md",
    "agents.py",
    "keys.py",
    ".github/workflows/ci.yml",
    ".gitignore",
]


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("profile", ["ask", "edit"])
def test_a_change_of_a_protected_file_is_asked_about(work: Path, profile: Profile, name: str) -> None:
    decision = decide(work, profile, "write", path=name, content="x")
    assert isinstance(decision, Ask) and "is protected" in decision.question.reason
    assert isinstance(decide(work, "read-only", "write", path=name, content="x"), Refuse)
    assert isinstance(decide(work, "full", "write", path=name, content="x"), Allow)


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("profile", PROFILES)
def test_reading_a_credential_is_asked_about(work: Path, profile: Profile, name: str) -> None:
    decision = decide(work, profile, "read", path=name)
    assert isinstance(decision, Ask) and "is protected" in decision.question.reason
    assert isinstance(decide(work, "full", "read", path=name), Allow)


@pytest.mark.parametrize("name", FREE)
def test_other_files_are_changed_and_read_unasked(work: Path, name: str) -> None:
    assert isinstance(decide(work, "edit", "write", path=name, content="x"), Allow)
    assert isinstance(decide(work, "edit", "read", path=name), Allow)
    assert isinstance(decide(work, "ask", "read", path=name), Allow)


def test_an_example_of_an_environment_file_is_no_credential(work: Path) -> None:
    assert isinstance(decide(work, "edit", "read", path=".env.example"), Allow)


@pytest.mark.parametrize(
    "name",
    [
        ".GIT/config",
        ".git./config",
        ".git /config",
        ".g\u200cit/config",
        "Agents.MD",
        "src/../.git/config",
        "./.git//config",
        ".git/",
        "/proc/self/cwd/.git/config",
        "/proc/self/root{work}/.git/config",
    ],
)
def test_another_spelling_of_a_protected_path_is_protected(
    work: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work)
    decision = decide(work, "edit", "write", path=name.format(work=work), content="x")
    assert isinstance(decision, Ask)


def test_a_link_to_a_protected_file_is_protected(work: Path, home: Path) -> None:
    (work / "notes.txt").symlink_to(home / ".bashrc")
    (work / "folder").symlink_to(home / ".ssh")
    assert isinstance(decide(work, "edit", "write", path="notes.txt", content="x"), Ask)
    assert isinstance(decide(work, "edit", "read", path="folder/id"), Ask)


def test_a_folder_that_git_would_use_is_protected(work: Path) -> None:
    (work / "bare" / "objects").mkdir(parents=True)
    (work / "bare" / "HEAD").write_text("ref: refs/heads/main\n")
    assert isinstance(decide(work, "edit", "write", path="bare/config", content="x"), Ask)
    assert isinstance(decide(work, "edit", "write", path="other/config", content="x"), Allow)


@pytest.mark.parametrize("process", ["self", "1", "thread-self", "self/task/1"])
@pytest.mark.parametrize("name", ["environ", "mem"])
def test_the_environment_and_memory_of_processes_are_protected(work: Path, process: str, name: str) -> None:
    assert isinstance(decide(work, "edit", "read", path=f"/proc/{process}/{name}"), Ask)


def test_loaded_extensions_and_opened_stores_are_protected_wherever_they_lie(work: Path) -> None:
    (work / "tools").mkdir()
    assert isinstance(decide(work, "edit", "write", path="tools/mine.py", content="x"), Allow)
    protect_used([work / "tools" / "mine.py"])
    note_store(work / "runs.db")
    assert isinstance(decide(work, "edit", "write", path="tools/mine.py", content="x"), Ask)
    for name in ("runs.db", "runs.db-wal", "live/x.sock"):
        assert isinstance(decide(work, "edit", "write", path=name, content="x"), Ask)


def own_files(home: Path) -> list[Path]:
    state, configuration = home / ".local/share/ostler", home / ".config/ostler"
    names = ("permissions.json", "trust.json", "keys.json", "tokens.json", "ostler.db", "ostler.db-wal")
    return [
        *(state / name for name in names),
        configuration / "config.toml",
        configuration / "extensions/a.py",
    ]


def test_ostlers_own_files_are_protected_in_the_home_folder(home: Path) -> None:
    for file in own_files(home):
        decision = decide(home, "edit", "write", path=str(file), content="x")
        assert isinstance(decision, Ask), file
        relative = decide(home, "edit", "write", path=str(file.relative_to(home)), content="x")
        assert isinstance(relative, Ask), file


async def test_an_agent_in_the_home_folder_cannot_grant_itself_permission(home: Path) -> None:
    file = home / ".local/share/ostler/permissions.json"
    grant = Call("write", {"path": str(file), "content": '{"user":[{"rule":"bash"}]}'})
    model = ScriptedModel([Turn(calls=(grant,)), Turn(calls=(Call("bash", {"command": "touch a"}),)), "done"])
    hook = permission_hook("edit", home)
    ran = await run(model, tools=builtin_tools(["write", "bash"]), cwd=home, permission_hook=hook)
    assert "is protected" in ran.results()[0]
    assert not file.exists() and not (home / "a").exists()


@pytest.mark.parametrize(
    ("rule", "decision"),
    [
        ("edit", Ask),
        ("edit(**)", Ask),
        ("edit(*.md)", Ask),
        ("write(AGENTS.m[d])", Ask),
        ("edit(AGENTS.md)", Allow),
        ("edit(./AGENTS.md)", Allow),
        ("edit({work}/AGENTS.md)", Allow),
    ],
)
def test_only_a_rule_for_exactly_this_file_allows_its_change(work: Path, rule: str, decision: type) -> None:
    rules: dict[str, Effect] = {rule.replace("{work}", str(work)): "allow"}
    assert isinstance(decide(work, "edit", "write", rules=rules, path="AGENTS.md", content="x"), decision)


def test_an_answer_remembers_only_the_protected_file_itself(work: Path) -> None:
    decision = decide(work, "edit", "write", path="sub/.vscode/tasks.json", content="x")
    assert decision.question.details["remember"]["session"] == ["edit(sub/.vscode/tasks.json)"]
    decision = decide(work, "edit", "read", path=".env")
    assert decision.question.details["remember"]["session"] == ["read(./.env)"]
    rules: dict[str, Effect] = {"read(./.env)": "allow"}
    assert isinstance(decide(work, "edit", "read", rules=rules, path=".env"), Allow)


def test_no_file_tool_reads_the_file_with_the_keys(work: Path, home: Path) -> None:
    file = home / ".local/share/ostler/keys.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    os.link(file, work / "innocent.json")
    (work / "link.json").symlink_to(file)
    for name in (str(file), "innocent.json", "link.json"):
        for tool in ("read", "grep"):
            decision = decide(work, "edit", tool, path=name)
            assert isinstance(decision, Refuse) and "no tool reads it" in decision.reason


@pytest.mark.parametrize(
    "command",
    [
        "cat {keys}",
        "head -n 1 < {keys}",
        "grep -r sk- {home}",
        "rg --hidden sk- {home}/.local",
        "cat .env",
        "cat /proc/self/environ",
        "cp a .git/config",
        "echo x > .bashrc",
    ],
)
def test_no_unasked_command_names_a_credential_or_a_protected_file(
    work: Path, home: Path, command: str
) -> None:
    command = command.format(keys=home / ".local/share/ostler/keys.json", home=home)
    for profile in ("ask", "edit"):
        assert isinstance(decide(work, profile, "bash", command=command), Ask)  # type: ignore[arg-type]


def test_a_search_in_the_home_folder_is_asked_about(home: Path) -> None:
    assert isinstance(decide(home, "edit", "bash", command="grep -r sk- ."), Ask)
    assert isinstance(decide(home, "edit", "bash", command="grep -r sk-"), Ask)
    (home / "project").mkdir()
    assert isinstance(decide(home / "project", "edit", "bash", command="grep -r sk- ."), Allow)


@pytest.mark.parametrize("tool", ["read", "ls", "grep", "find"])
def test_reading_outside_the_workspace_is_asked_about_under_ask(work: Path, tool: str) -> None:
    (work / ".git").mkdir()
    below = work / "below"
    below.mkdir()
    outside = str(work.parent / "other")
    decision = decide(work, "ask", tool, path=outside)
    assert isinstance(decision, Ask) and "outside the working directory" in decision.question.reason
    assert isinstance(decide(work, "edit", tool, path=outside), Allow)
    assert isinstance(decide(work, "read-only", tool, path=outside), Allow)
    assert isinstance(decide(below, "ask", tool, path=".."), Allow)  # it is in the same repository


def test_the_users_own_skills_can_be_read_under_ask(work: Path, home: Path) -> None:
    for folder in (".agents/skills", ".config/ostler/skills"):
        assert isinstance(decide(work, "ask", "read", path=str(home / folder / "x" / "SKILL.md")), Allow)


def test_a_working_directory_that_becomes_a_link_gives_no_access(work: Path) -> None:
    hook = permission_hook("edit", work)
    assert hook is not None
    other = work.with_name("other")
    other.mkdir()
    work.rename(work.with_name("moved"))
    work.symlink_to(other)
    planned = PlannedCall("c", "write", "edit", {"path": "a", "content": "x"}, 1)
    assert isinstance(hook.handler(planned, None), Ask)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["edit(src/**)", "edit({work}/src/**)"])
def test_a_link_in_place_of_an_allowed_folder_gives_no_access(work: Path, rule: str) -> None:
    rules: dict[str, Effect] = {rule.replace("{work}", str(work)): "allow"}
    assert isinstance(decide(work, "ask", "write", rules=rules, path="src/a", content="x"), Allow)
    (work / "src").symlink_to(work.parent)
    assert isinstance(decide(work, "ask", "write", rules=rules, path="src/a", content="x"), Ask)


async def results(work: Path, profile: Profile, calls: list[Call], rules: dict[str, Effect]) -> list[str]:
    model = ScriptedModel([*(Turn(calls=(call,)) for call in calls), Turn(text="done")])
    hook = permission_hook(profile, work, [parse_rule(text, effect) for text, effect in rules.items()])
    tools = builtin_tools(["read", "grep", "find", "ls"])
    return (await run(model, tools=tools, cwd=work, permission_hook=hook)).results()


SKIPPED_ONE = "[1 file was skipped: credentials, or restricted by permission rules]"


async def test_searches_and_listings_skip_credentials_and_say_how_many(work: Path) -> None:
    for name in ("a.txt", "server.pem", ".env"):
        (work / name).write_text("secret word\n")
    calls = [Call("grep", {"pattern": "secret"}), Call("grep", {"pattern": "nothing like this"})]
    calls += [Call("find", {"pattern": "*"}), Call("ls", {})]
    found, nothing, names, listing = await results(work, "edit", calls, {})
    assert found == f"a.txt:1:secret word\n{SKIPPED_ONE}"
    assert nothing == SKIPPED_ONE  # the number does not tell whether it matches
    note = "[2 files were skipped: credentials, or restricted by permission rules]"
    assert names == f"a.txt\n{note}"
    assert listing == f"a.txt  12 B\n{note}"


async def test_a_rule_that_denies_reading_holds_for_searches(work: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (work / name).write_text("secret word\n")
    calls = [Call("grep", {"pattern": "secret"}), Call("find", {"pattern": "*"}), Call("ls", {})]
    calls.append(Call("grep", {"pattern": "secret", "path": "b.txt"}))
    for effect in ("deny", "ask"):
        rules: dict[str, Effect] = {"read(b.txt)": effect}  # type: ignore[dict-item]
        texts = await results(work, "full", calls, rules)
        assert [text.splitlines()[-1] for text in texts[:3]] == [SKIPPED_ONE] * 3
        assert not any("b.txt" in text for text in texts[:3])
        assert "read(b.txt)" in texts[3]


def test_a_rule_that_denies_reading_holds_for_attachments(work: Path) -> None:
    (work / ".env").write_text("TOKEN=secret")
    (work / "sub").mkdir()
    (work / "sub" / "b.txt").write_text("secret")
    hook = permission_hook("edit", work, [parse_rule(rule, "deny") for rule in ("read(.env)", "read(b.txt)")])
    assert hook and hook.files
    attached = with_mentions("see @.env and @sub/ and @sub/b.txt", work, rules=hook.files(()))
    assert "secret" not in text_of(attached.blocks) and "b.txt" not in text_of(attached.blocks)
    assert [notice.partition(":")[0] for notice in attached.notices] == [
        "@.env is not attached",
        "@sub/b.txt is not attached",
    ]
    free = permission_hook("edit", work)
    assert free and free.files
    own_act = with_mentions("see @.env", work, rules=free.files(()))
    assert "TOKEN=secret" in text_of(own_act.blocks)  # the person named it


def test_every_pattern_of_the_list_protects_itself(home: Path) -> None:
    for protection in PROTECTIONS:
        for pattern in protection.patterns:
            path = pattern.replace("~", str(home), 1).replace("*", "x")
            path = path if path.startswith("/") else f"/some/where/{path}"
            for writes in (True, False):
                applies = protection.changes if writes else protection.reads
                assert not applies or protected_reason(Path(path), writes=writes), pattern
                assert not applies or protected_reason(Path(path, "below"), writes=writes), pattern
