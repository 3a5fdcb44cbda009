from __future__ import annotations

import subprocess
import sys

import pytest

from ostler.permissions.rules import judge
from ostler.schema.errors import UnknownTool
from ostler.tools import BUILTIN_TOOLS, builtin_specs, builtin_tool, builtin_tools


def test_all_built_in_tools_are_there_under_their_names() -> None:
    assert [tool.spec.name for tool in builtin_tools()] == list(BUILTIN_TOOLS)
    assert list(BUILTIN_TOOLS) == ["read", "write", "edit", "bash", "grep", "find", "ls", "todo"]


def test_tools_have_kinds() -> None:
    kinds = {tool.spec.name: (tool.spec.kind, tool.spec.parallel) for tool in builtin_tools()}
    assert kinds == {
        "read": ("read", True),
        "write": ("edit", False),
        "edit": ("edit", False),
        "bash": ("execute", False),
        "grep": ("search", True),
        "find": ("search", True),
        "ls": ("read", True),
        "todo": ("agent", False),
    }


def test_every_parameter_is_described() -> None:
    for tool in builtin_tools():
        for name, schema in tool.spec.schema["properties"].items():
            assert schema.get("description"), f"{tool.spec.name}.{name}"
        assert len(tool.spec.description) > 40


def test_only_tools_that_read_run_in_the_read_only_profile() -> None:
    allowed = [tool.spec.name for tool in builtin_tools() if judge("read-only", tool.spec.kind) == "allow"]
    assert allowed == ["read", "grep", "find", "ls", "todo"]


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(UnknownTool, match="no built-in tool 'sed'; choose from: read, write"):
        builtin_tool("sed")


def test_only_the_tools_in_use_are_imported_and_nothing_heavy_with_them() -> None:
    program = (
        "import sys\n"
        "from ostler.tools import builtin_specs, builtin_tools\n"
        "builtin_tools(['read'])\n"
        "assert 'ostler.tools.bash' not in sys.modules\n"
        "before = set(sys.modules)\n"
        "builtin_tools()\n"
        "heavy = {'difflib', 'hashlib', 'ignore', 'shutil', 'tempfile'}\n"
        "print(*sorted(heavy & (set(sys.modules) - before)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_stored_specs_are_those_of_the_tools() -> None:
    assert builtin_specs() == {tool.spec.name: tool.spec for tool in builtin_tools()}
