"""A project's extension runs only while the user trusts all its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

import pytest

from ostler.cli.permissions import extensions_to_trust
from ostler.extensions.executor import ExtensionError
from ostler.extensions.loader import code_files
from ostler.extensions.loader.code_files import ProjectExtension
from ostler.extensions.loader.discovery import ExtensionSearch
from ostler.extensions.loader.extension_loader import ExtensionLoader, Versions
from ostler.extensions.protocol.process_extension import ProcessExtension
from ostler.permissions.trust import distrust, trust_edits
from tests.support.process_extension import written

MARKS = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n"


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notices: list[str] = []

    def write(self, path: str, text: str = "") -> Path:
        file = self.folder / ".ostler" / "extensions" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    async def load(self, **how: bool) -> Versions:
        return await ExtensionLoader(ExtensionSearch(self.folder, **how), self.notices.append).refresh({})

    async def statuses(self, **how: bool) -> dict[str, str]:
        versions = await self.load(**how)
        return {name: one.extension.status for name, one in versions.items()}

    def trust(self) -> None:
        for one in extensions_to_trust(self.folder):
            one.trust()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return Project(tmp_path / "project")


async def test_an_untrusted_extension_does_not_run(project: Project) -> None:
    file = project.write("gate.py", f"{MARKS}def setup(ostler): ...\n")
    assert await project.statuses() == {"gate": "untrusted"}
    assert not file.with_suffix(".ran").exists()
    assert project.notices == [
        "extensions of this project are not used until you review them and run "
        f"`ostler trust {quote(str(project.folder))}`: gate"
    ]
    project.trust()
    assert await project.statuses() == {"gate": "loaded"}
    assert file.with_suffix(".ran").exists()


async def test_a_changed_file_asks_again(project: Project) -> None:
    file = project.write("gate.py", "def setup(ostler): ...\n")
    project.trust()
    file.write_text(file.read_text() + "# more\n")
    assert await project.statuses() == {"gate": "untrusted"}


@pytest.mark.parametrize("helper", ["helpers.py", "rules/deep.py", "_private.py"])
async def test_a_changed_helper_asks_again(project: Project, helper: str) -> None:
    project.write("gate.py", "def setup(ostler): ...\n")
    project.write("other/__init__.py", "def setup(ostler): ...\n")
    project.trust()
    assert await project.statuses() == {"gate": "loaded", "other": "loaded"}
    project.write(helper, "x = 1")
    assert await project.statuses() == {"gate": "untrusted", "other": "loaded"}
    project.trust()
    project.write(f"other/{helper}", "x = 2")
    assert await project.statuses() == {"gate": "loaded", "other": "untrusted"}


async def test_a_file_that_appears_after_the_review_cannot_be_imported(project: Project) -> None:
    project.write(
        "gate.py",
        "from pathlib import Path\n"
        "def setup(ostler):\n"
        "    Path(__file__).with_name('late.py').write_text('x = 1')\n"
        "    import late\n",
    )
    project.trust()
    assert await project.statuses() == {"gate": "failed"}
    assert "No module named 'late'" in project.notices[0]


async def test_the_reviewed_bytes_are_the_ones_that_run(project: Project) -> None:
    project.write("helpers.py", "VALUE = 'old'")
    project.write(
        "gate.py",
        "from pathlib import Path\n"
        "def setup(ostler):\n"
        "    Path(__file__).with_name('helpers.py').write_text('VALUE = 0')\n"
        "    import helpers\n"
        "    assert helpers.VALUE == 'old'\n",
    )
    project.trust()
    assert await project.statuses() == {"gate": "loaded"}


async def test_for_one_run_everything_can_be_trusted(project: Project) -> None:
    project.write("gate.py", "def setup(ostler): ...\n")
    assert await project.statuses(trusts=True) == {"gate": "loaded"}
    assert await project.statuses() == {"gate": "untrusted"}


async def test_trust_in_later_edits_can_be_given_and_withdrawn(project: Project) -> None:
    file = project.write("gate.py", "def setup(ostler): ...\n")
    kept_under = trust_edits(project.folder)
    file.write_text(file.read_text() + "# more\n")
    project.write("new.py", "def setup(ostler): ...\n")
    assert await project.statuses() == {"gate": "loaded", "new": "loaded"}
    assert distrust(kept_under)
    assert await project.statuses() == {"gate": "untrusted", "new": "untrusted"}


async def test_consent_is_asked_once_for_all_extensions(project: Project) -> None:
    project.write("a.py", "def setup(ostler): ...\n")
    project.write("b/__init__.py", "def setup(ostler): ...\n")
    project.write("b/data.txt", "one\ntwo\n")
    reviewed: list[list[str]] = []

    def refuse(extensions: Sequence[ProjectExtension]) -> bool:
        reviewed.append([line for one in extensions for line in one.lines()])
        return False

    def agree(extensions: Sequence[ProjectExtension]) -> bool:
        return True

    await ExtensionLoader(ExtensionSearch(project.folder), project.notices.append, refuse).refresh({})
    assert reviewed == [["a.py: 1 line", "b/__init__.py: 1 line", "b/data.txt: 2 lines"]]
    assert len(project.notices) == 1
    await ExtensionLoader(ExtensionSearch(project.folder), project.notices.append, agree).refresh({})
    assert await project.statuses() == {"a": "loaded", "b": "loaded"}


async def test_a_link_in_an_extension_must_not_lead_out_of_it(project: Project, tmp_path: Path) -> None:
    init = project.write("gate/__init__.py", "def setup(ostler): ...\n")
    (tmp_path / "outside.py").write_text("x = 1")
    (init.parent / "helpers.py").symlink_to(tmp_path / "outside.py")
    assert await project.statuses(trusts=True) == {"gate": "failed"}
    assert "gate/helpers.py is a link that leads out of its folder" in project.notices[0]


async def test_an_extension_too_large_to_review_is_left_out(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_files, "MOST_FILES", 3)
    project.write("gate/__init__.py", "def setup(ostler): ...\n")
    for number in range(3):
        project.write(f"gate/{number}.txt")
    assert await project.statuses(trusts=True) == {"gate": "failed"}
    assert "too many to review" in project.notices[0]


async def test_extensions_of_the_user_need_no_trust(project: Project, tmp_path: Path) -> None:
    own = tmp_path / "home" / "extensions"
    own.mkdir(parents=True)
    (own / "mine.py").write_text("def setup(ostler): ...\n")
    assert await project.statuses() == {"mine": "loaded"}


async def test_a_program_whose_files_were_changed_is_not_started_again(project: Project) -> None:
    folder = project.folder / ".ostler" / "extensions"
    folder.mkdir(parents=True)
    program = written(folder, "open('../starts', 'a').write('x')\nhello()\nsend('ready')\nread('x')")
    project.trust()
    versions = await project.load()
    extension = versions["script"].extension
    assert isinstance(extension, ProcessExtension)
    await extension.client.stop()
    await extension.client.start()
    await extension.client.stop()
    (program / "more.py").write_text("")
    with pytest.raises(ExtensionError, match="changed since they were trusted"):
        await extension.client.start()
    assert (folder / "starts").read_text() == "xx"
    await extension.close()


async def test_a_changed_file_beside_a_program_asks_again(project: Project) -> None:
    folder = project.folder / ".ostler" / "extensions"
    folder.mkdir(parents=True)
    program = written(folder, "hello()\nsend('ready')\nread('x')")
    (program / "words.txt").write_text("old")
    project.trust()
    assembly = ExtensionLoader(ExtensionSearch(project.folder), project.notices.append)
    versions = await assembly.refresh({})
    (program / "words.txt").write_text("new")
    again = await assembly.refresh(versions)
    assert again["script"] is versions["script"]
    assert again["script"].extension.status == "changed"
    assert "the extension script was changed: its old version runs" in project.notices[0]
    await again["script"].forget()


@pytest.mark.parametrize("command", [("python3", "../../../evil.py"), ("python3", "-X=../../../evil.py")])
async def test_a_program_must_not_run_a_project_file_outside_its_folder(
    project: Project, command: tuple[str, str]
) -> None:
    started = project.folder / "started"
    (project.folder / "evil.py").write_text(f"open({str(started)!r}, 'w')")
    program, argument = command
    project.write("led/extension.json", f'{{"name": "led", "exec": "{program}", "args": ["{argument}"]}}')
    project.trust()
    versions = await project.load()
    assert versions["led"].extension.status == "failed"
    assert "evil.py, which is not in its folder" in versions["led"].extension.problem
    assert not started.exists()
