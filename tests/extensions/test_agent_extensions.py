"""Extensions of an agent in a Python program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ostler import Agent, tool
from ostler.kernel.hooks import Refuse
from ostler.models.scripted import Call, ScriptedModel
from ostler.vocabulary.errors import ConfigurationError, UsageError

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


async def test_an_agent_is_given_files_and_functions(tmp_path: Path) -> None:
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
