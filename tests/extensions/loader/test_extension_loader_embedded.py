"""Extensions of an agent in a Python program."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from ostler import Agent, Supervisor, tool
from ostler.core.harness import Harness
from ostler.core.hooks import Refuse
from ostler.extensions import extend_harness
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema.errors import ConfigurationError, UsageError
from ostler.store.memory import MemoryStore

BRINGS = """
def setup(ostler):
    @ostler.tool
    def brought() -> str:
        "Says where it is from."
        return "from a file"
"""


@tool
def own() -> str:
    "Of the program."
    return "own"


def guard(ostler: Any) -> None:
    @ostler.before_tool
    def refuse(call: Any) -> Refuse | None:
        return Refuse("not that one") if call.name == "own" else None


async def test_an_agent_accepts_files_and_functions(tmp_path: Path) -> None:
    file = tmp_path / "bringer.py"
    file.write_text(BRINGS)
    model = ScriptedModel([[Call("own"), Call("brought")], "done", Call("brought"), "done"])
    async with Agent(model, tools=[own], extensions=[str(file), guard], system="") as agent:
        await agent.run("go")
        results = [block for message in agent.messages for block in message.content if hasattr(block, "call")]
        assert ["not that one" in str(one.content) for one in results] == [True, False]
        assert "from a file" in str(results[1].content)
        agent.tools = []
        assert [one.spec.name for one in agent.tools] == ["brought"]
        assert (await agent.run("again")).status == "completed"


def test_an_agent_without_an_event_loop_has_extensions_too(tmp_path: Path) -> None:
    file = tmp_path / "bringer.py"
    file.write_text(BRINGS)
    agent = Agent(ScriptedModel([Call("brought"), "done"]), extensions=[file], system="")
    assert agent.run_sync("go").status == "completed"


async def test_an_extension_that_cannot_be_loaded_is_an_error_for_a_program(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("def setup(ostler):\n    raise ValueError('no')\n")
    with pytest.raises(ConfigurationError, match=r"broken .* is not loaded: ValueError: no \(broken.py:2\)"):
        await Agent(ScriptedModel(["done"]), extensions=[file]).run("go")
    with pytest.raises(UsageError, match=r"there is no extension .*gone\.py"):
        await Agent(ScriptedModel(["done"]), extensions=[tmp_path / "gone.py"]).run("go")
    with pytest.raises(UsageError, match="a path or a function"):
        Agent(ScriptedModel(["done"]), extensions=[3])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="must take one argument"):
        await Agent(ScriptedModel(["done"]), extensions=[lambda: None]).run("go")  # type: ignore[list-item,misc]


async def test_two_functions_of_one_name_are_two_extensions() -> None:
    calls: list[str] = []
    model = ScriptedModel(["done"])
    extensions = [
        lambda ostler, name=name: ostler.input(lambda draft: calls.append(name)) for name in ("one", "two")
    ]
    async with Agent(model, tools=[], extensions=extensions) as agent:
        await agent.run("go")
    assert calls == ["one", "two"]


async def test_a_tool_whose_name_is_taken_is_an_error_for_a_program() -> None:
    def bring(ostler: Any) -> None:
        ostler.tool(own)

    agent = Agent(ScriptedModel(["done"]), tools=[own], extensions=[bring, guard])
    for _ in range(2):
        with pytest.raises(
            ConfigurationError, match="the extension bring registers a tool 'own', but that name"
        ):
            await agent.run("go")
        assert [one.spec.name for one in agent.tools] == ["own"]
    await agent.close()


async def test_supervised_runs_have_extensions_and_leave_no_thread_behind(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text("WHERE = 'from a file'")
    file = tmp_path / "bringer.py"
    file.write_text(f"from words import WHERE\n{BRINGS}".replace('"from a file"', "WHERE"))
    before = {*threading.enumerate()}

    async def equip(cwd: Path) -> Harness:
        harness = Harness(ScriptedModel([[Call("own"), Call("brought")], "done"]), cwd=cwd)
        harness.set_tools([own])
        await extend_harness(harness, [file, guard])
        return harness

    supervisor = Supervisor(MemoryStore(), equip)
    handles = [await supervisor.start("go", cwd=tmp_path) for _ in range(3)]
    for handle in handles:
        assert getattr(await handle.result(), "status", "") == "completed"
        facts = await supervisor.store.read(handle.session)
        results = [str(fact.event) for fact in facts if fact.type == "tool_result"]
        assert "not that one" in results[0] and "from a file" in results[1]
    await supervisor.close()
    for thread in {*threading.enumerate()} - before:
        thread.join(60)
        assert not thread.is_alive()
