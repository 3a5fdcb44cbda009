"""The examples of the API in the documentation, against a running server."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from tests.server.served import serving
from tests.support.needed import program
from tests.support.paths import DOCS

PAGE = DOCS / "server.md"


async def test_the_examples_of_the_api_run(tmp_path: Path) -> None:
    program("curl")
    program("jq")
    section = PAGE.read_text().partition("\n## The API\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    async with serving(tmp_path, "It adds two numbers.") as served:
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", code),
            cwd=tmp_path,
            env={**os.environ, "SERVER": served.base_url, "TOKEN": served.token},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        printed, errors = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, (printed + errors).decode()
        assert '[1,"session_started"]' in printed.decode()
        assert "Adding" in printed.decode()
        sessions = (await served.get("sessions"))["sessions"]
        assert {one.get("title") for one in sessions} == {"Adding", "Another way"}
        assert len(sessions) == 3
