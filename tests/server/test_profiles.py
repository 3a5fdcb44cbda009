"""The permission profile of a session: chosen by callers, up to the server's ceiling."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ostler.core.harness import Harness
from ostler.models.scripted import Call
from ostler.permissions.guard import user_guard
from ostler.permissions.rules import PROFILES, Profile
from ostler.server.profiles import ceiling_of
from ostler.server.tokens import TokenScope
from ostler.tools import builtin_tools
from tests.server.serve_process import serve_process
from tests.server.served import Served, serving, text
from tests.support.command import Ostler

WRITES = Call("write", {"path": "made.txt", "content": "hello\n"})


def asks(harness: Harness) -> None:
    harness.set_tools(builtin_tools(["write"]))
    harness.permission_hook = user_guard("ask", harness.cwd, [])
    harness.permission_profile = "ask"


@asynccontextmanager
async def asking(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server with the profile `ask` and the ceiling `edit`, whose model writes a file."""
    monkeypatch.setenv("OSTLER_HOME", str(folder / "own"))
    monkeypatch.setenv("OSTLER_PERMISSIONS", "ask")
    async with serving(folder, WRITES, "Done.", WRITES, "Done.", change=asks) as served:
        yield served


async def post(served: Served, scope: TokenScope, body: dict[str, Any]) -> httpx2.Response:
    return await served.http.post("sessions", json=body, headers=bearer(served, scope))


def bearer(served: Served, scope: TokenScope) -> dict[str, str]:
    name = f"{scope} {len(served.tokens.all())}"
    return {"Authorization": f"Bearer {served.tokens.new(name, scope)}"}


async def choose(served: Served, session: str, profile: Profile, scope: TokenScope) -> int:
    path, headers = f"sessions/{session}/permissions", bearer(served, scope)
    return (await served.http.put(path, json={"profile": profile}, headers=headers)).status_code


@pytest.mark.parametrize(
    ("scope", "highest"),
    [("observe", None), ("approve", None), ("prompt", "ask"), ("all", "edit"), ("admin", "full")],
)
async def test_each_kind_of_token_chooses_up_to_its_ceiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: TokenScope, highest: Profile | None
) -> None:
    async with asking(tmp_path, monkeypatch) as served:
        session = await served.new_session()
        allowed = PROFILES[: PROFILES.index(highest) + 1] if highest else ()
        for profile in PROFILES:
            made = await post(served, scope, {"permissions": profile})
            assert made.status_code == (201 if profile in allowed else 403), made.text
            status = await choose(served, session, profile, scope)
            assert status == (200 if profile in allowed else 403), profile
        sessions = (await served.get("sessions"))["sessions"]
        assert len(sessions) == 1 + len(allowed)  # what is refused leaves nothing
        assert (await served.get(f"sessions/{session}"))["permissions"] == (highest or "ask")


async def test_what_was_chosen_is_what_applies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asking(tmp_path, monkeypatch) as served:
        prompt = {"prompt": text("Write.")}
        made = (await post(served, "all", {**prompt, "permissions": "edit"})).json()["id"]
        await served.rest(made)
        assert (served.work / "made.txt").read_text() == "hello\n"
        (served.work / "made.txt").unlink()
        assert await choose(served, made, "ask", "prompt") == 200
        await served.ask(made, "prompt", content=text("Again."))
        await served.rest(made)
        assert not (served.work / "made.txt").exists()
        (question,) = (await served.get(f"sessions/{made}/questions"))["questions"]
        assert question["preview"]["content"] == "hello\n"
        assert question["preview"]["note"] == "a new file"
        assert await choose(served, made, "edit", "all") == 409  # a run is open


async def test_a_log_lowers_the_profile_and_never_raises_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(tmp_path, monkeypatch) as served:
        profiles = served.server.profiles
        cases: tuple[tuple[Profile, Profile], ...] = (("read-only", "read-only"), ("full", "ask"))
        for profile, after_restart in cases:
            session = await served.new_session()
            assert await choose(served, session, profile, "admin") == 200
            assert (await served.get(f"sessions/{session}"))["permissions"] == profile
            profiles._chosen.clear()  # as in another process
            assert (await served.get(f"sessions/{session}"))["permissions"] == after_restart


async def test_another_program_needs_an_administrator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(tmp_path, monkeypatch) as served:
        agent = {"agent": {"command": ["touch", "made.txt"]}}
        for scope in ("prompt", "approve", "all"):
            assert (await post(served, scope, agent)).status_code == 403
            restart = await served.http.post(
                "sessions/ses_none/agent", json=agent, headers=bearer(served, scope)
            )
            assert restart.status_code == 403
        assert not (served.work / "made.txt").exists()
        assert (await post(served, "admin", agent)).status_code != 403


def test_the_ceiling_is_the_profile_of_the_server_and_at_least_edit() -> None:
    assert [ceiling_of(None, profile) for profile in PROFILES] == ["edit", "edit", "edit", "full"]
    assert [ceiling_of("ask", profile) for profile in PROFILES] == ["ask"] * 4


def test_a_folder_of_a_caller_does_not_lift_the_ceiling(ostler: Ostler, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "ostler.toml").write_text('permissions = "full"\n')
    ostler("trust", str(folder))
    options = ("--model", "demo", "--permissions", "ask", "--max-permissions", "ask")
    for given, profile in (
        (options, "ask"),
        (("--model", "demo", "--max-permissions", "read-only"), "read-only"),
    ):
        with (
            serve_process(ostler, *given) as server,
            httpx2.Client(base_url=f"{server.base_url}/api/v1/", headers=server.headers, timeout=60) as http,
        ):
            session = http.post("sessions", json={"cwd": str(folder)}).json()["id"]
            assert http.get(f"sessions/{session}").json()["permissions"] == profile
            assert http.get("me").json()["max_permissions"] == "full"  # an administrator's
