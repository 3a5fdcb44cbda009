"""Loading extensions: their modules, and reports of failures."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from ostler.extensions.executor import call_within
from ostler.extensions.loader import module_loader
from ostler.extensions.loader.code_files import CodeFiles
from ostler.extensions.loader.discovery import ExtensionSearch, find_extensions
from ostler.extensions.loader.extension_loader import ExtensionLoader
from ostler.extensions.loader.module_loader import LoadedVersion
from ostler.extensions.protocol.process_extension import ProcessExtension
from tests.support.process_extension import WAIT, written


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


async def loaded(*paths: Path) -> list[LoadedVersion]:
    versions = []
    for found in find_extensions(ExtensionSearch(paths[0].parent, named=paths, automatic=False)):
        version = LoadedVersion(found, CodeFiles(found))
        await version.load()
        versions.append(version)
    return versions


async def run_command(version: LoadedVersion, command: str = "say") -> Any:
    """What a command of the extension says."""
    assert version.extension.status == "loaded", version.extension.problem
    function = version.extension.registered.commands[command].handler.function
    return await call_within(5, version.extension.worker, function, "")


async def problem_of(path: Path) -> str:
    (version,) = await loaded(path)
    assert version.extension.status == "failed"
    return version.extension.problem


async def test_two_extensions_have_helpers_of_the_same_name(tmp_path: Path) -> None:
    paths = []
    before = list(sys.path)
    for name in ("one", "two"):
        write(tmp_path / name / "helpers.py", f"NAME = {name!r}")
        paths.append(
            write(
                tmp_path / name / "__init__.py",
                """
                import helpers
                from helpers import NAME
                from . import helpers as relative

                def setup(ostler):
                    @ostler.command("say")
                    def say(arguments):
                        import helpers as later
                        assert later is helpers is relative
                        return NAME
                """,
            ).parent
        )
    assert [await run_command(version) for version in await loaded(*paths)] == ["one", "two"]
    assert sys.path == before
    assert "helpers" not in sys.modules


async def test_helpers_may_be_packages_and_import_one_another(tmp_path: Path) -> None:
    write(tmp_path / "gate.py", "def unrelated(): pass")
    write(tmp_path / "ext" / "rules" / "__init__.py", "from .deep import DEEP\nimport shared\n")
    write(tmp_path / "ext" / "rules" / "deep.py", "import shared\nDEEP = shared.VALUE + 1\n")
    write(tmp_path / "ext" / "plain" / "inner.py", "from rules.deep import DEEP\n")
    write(tmp_path / "ext" / "shared.py", "VALUE = 41\n")
    path = write(
        tmp_path / "ext" / "main.py",
        """
        import rules.deep
        import plain.inner as inner
        import json

        async def setup(ostler):
            from rules import deep
            assert deep is rules.deep

            @ostler.command("say")
            def say(arguments):
                from plain import inner as again
                return json.dumps([rules.DEEP, inner.DEEP, again is inner])
        """,
    ).parent
    (version,) = await loaded(path)
    assert json.loads(await run_command(version)) == [42, 42, True]


async def test_a_package_may_import_itself_by_its_name(tmp_path: Path) -> None:
    write(tmp_path / "gatekeeper" / "rules.py", "NAME = __name__")
    path = write(
        tmp_path / "gatekeeper" / "__init__.py",
        """
        import gatekeeper.rules
        from gatekeeper.rules import NAME

        def setup(ostler):
            @ostler.command("say")
            def say(arguments):
                return NAME if gatekeeper.rules.NAME is NAME else ""
        """,
    ).parent
    (version,) = await loaded(path)
    assert (await run_command(version)).endswith(".rules")


async def test_another_extension_is_not_imported_as_a_module(tmp_path: Path) -> None:
    write(tmp_path / "secrets.py", "def setup(ostler): ...")
    path = write(
        tmp_path / "gate.py",
        """
        import secrets

        def setup(ostler):
            @ostler.command("say")
            def say(arguments):
                return secrets.token_hex(2)
        """,
    )
    (version,) = await loaded(path)
    assert len(await run_command(version)) == 4


async def test_structs_and_hints_of_an_extension_can_be_resolved(tmp_path: Path) -> None:
    path = write(
        tmp_path / "typed.py",
        """
        from __future__ import annotations
        import msgspec

        class Item(msgspec.Struct):
            count: Number

        Number = int

        def setup(ostler):
            @ostler.tool
            def count(item: Item) -> str:
                "Counts."
                return str(item.count)
        """,
    )
    (version,) = await loaded(path)
    assert list(version.extension.registered.tools) == ["count"]


async def test_a_traceback_names_the_real_file_and_line(tmp_path: Path) -> None:
    write(tmp_path / "helpers.py", "\n\ndef fail():\n    raise KeyError('gone')\n")
    path = write(tmp_path / "gate.py", "import helpers\nhelpers.fail()\ndef setup(ostler): ...\n")
    assert await problem_of(path) == "KeyError: 'gone' (helpers.py:4)"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def setup(ostler):\n    x ==== 1\n", "SyntaxError: invalid syntax (gate.py:2)"),
        ("def setup(): ...\n", "its `setup` must take one argument: `def setup(ostler)` (gate.py:1)"),
        ("setup = 3\n", "its `setup` is not a function but int"),
        ("import nowhere_to_be_found\ndef setup(ostler): ...\n", "ModuleNotFoundError: No module named"),
        ("raise ValueError('no')\ndef setup(ostler): ...\n", "ValueError: no (gate.py:1)"),
        ("def setup(ostler):\n    raise ValueError('no')\n", "ValueError: no (gate.py:2)"),
        ("import sys\nsys.exit(3)\ndef setup(ostler): ...\n", "it tried to exit the process (3) (gate.py:2)"),
        ("def setup(ostler):\n    raise SystemExit(4)\n", "it tried to exit the process (4) (gate.py:2)"),
        ("async def setup(ostler):\n    raise ValueError('later')\n", "ValueError: later (gate.py:2)"),
        ("def setup(ostler):\n    ostler.on()\n", "UsageError: name the events"),
    ],
)
async def test_an_extension_that_cannot_be_loaded_has_a_problem_with_its_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    assert (await problem_of(write(tmp_path / "gate.py", text))).startswith(problem)


async def test_a_hanging_extension_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_loader, "LOADING_SECONDS", 0.05)
    text = "import threading\nthreading.Event().wait(30)\ndef setup(ostler): ...\n"
    assert "took longer than 0.05 s" in await problem_of(write(tmp_path / "gate.py", text))
    text = "import threading\ndef setup(ostler):\n    threading.Event().wait(30)\n"
    assert await problem_of(write(tmp_path / "gate.py", text)) == "took longer than 0.05 s (gate.py:2)"


async def test_a_failing_extension_does_not_prevent_others_from_loading(tmp_path: Path) -> None:
    write(tmp_path / "many" / "a.py", "def setup(ostler): raise ValueError('no')")
    write(tmp_path / "many" / "b.py", "def setup(ostler): ...")
    notices: list[str] = []
    assembly = ExtensionLoader(
        ExtensionSearch(tmp_path, named=(tmp_path / "many",), automatic=False), notices.append
    )
    versions = await assembly.refresh({})
    assert [name for name, one in versions.items() if one.extension.status == "loaded"] == ["b"]
    assert notices == [f"the extension a ({tmp_path}/many/a.py) is not loaded: ValueError: no (a.py:1)"]


async def test_an_installed_package_is_loaded_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    write(site / "ostler_test_gate_pack" / "__init__.py", "")
    write(
        site / "ostler_test_gate_pack" / "main.py",
        """
        def begin(ostler):
            @ostler.command("say")
            def say(arguments):
                return "installed"
        """,
    )
    points = "[ostler.extensions]\ngate = ostler_test_gate_pack.main:begin\n"
    write(site / "gate-1.2.dist-info" / "entry_points.txt", points)
    monkeypatch.syspath_prepend(site)
    notices: list[str] = []
    versions = await ExtensionLoader(ExtensionSearch(tmp_path), notices.append).refresh({})
    assert not notices
    assert (versions["gate"].extension.origin, versions["gate"].extension.version) == ("package", "1.2")
    assert await run_command(versions["gate"]) == "installed"


async def test_programs_start_concurrently_and_keep_their_order(tmp_path: Path) -> None:
    """Each says hello only when the other one runs."""
    for name, other in (("a", "b"), ("c", "a"), ("b", "c")):
        written(
            tmp_path,
            """
            open(f"../{OWN}.runs", "w").close()
            while not os.path.exists(f"../{OTHER}.runs"):
                time.sleep(0.005)
            hello()
            send("ready")
            read("nothing")
            """,
            name=name,
            values={"OWN": name, "OTHER": other},
        )
    write(tmp_path / "bb.py", "def setup(ostler): ...")
    notices: list[str] = []
    versions = await ExtensionLoader(
        ExtensionSearch(tmp_path, named=(tmp_path,), automatic=False), notices.append
    ).refresh({})
    assert notices == []
    assert list(versions) == ["a", "b", "bb", "c"]
    for one in versions.values():
        await one.forget()


async def test_a_cancelled_load_leaves_no_process_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "hello()\nsend('ready')\nread('nothing')", name="quick")
    written(tmp_path, "time.sleep(60)", name="slow")
    load, is_loaded, started = LoadedVersion.load, asyncio.Event(), []

    async def noted(version: LoadedVersion) -> None:
        started.append(version)
        await load(version)
        is_loaded.set()

    monkeypatch.setattr(LoadedVersion, "load", noted)
    search = ExtensionSearch(tmp_path, named=(tmp_path,), automatic=False)
    looking = asyncio.ensure_future(ExtensionLoader(search, print).refresh({}))
    await asyncio.wait_for(is_loaded.wait(), WAIT)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert [one.candidate.name for one in started] == ["quick", "slow"]
    quick = started[0].extension
    assert isinstance(quick, ProcessExtension) and quick.client.problem


async def test_modules_are_removed_with_the_last_reference_to_the_version(tmp_path: Path) -> None:
    write(tmp_path / "words.py", "WHAT = 'here'")
    file = write(tmp_path / "fleeting.py", "import words\n\ndef setup(ostler): ...")
    (version,) = await loaded(file)
    modules = [name for name in sys.modules if name.startswith("ostler_extension_fleeting")]
    assert len(modules) == 3
    del version
    gc.collect()
    assert not [name for name in modules if name in sys.modules]
