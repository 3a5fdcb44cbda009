"""`ostler attach`: opens what a server has at an address, the screen of an agent or a session."""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.app.console import print_stderr
from ostler.app.options import Parser
from ostler.core.lazy import lazy_module
from ostler.remote.client import API, Address, Remote, address_of
from ostler.remote.live_screen import AgentStatus, LiveScreen, ScreenOfAgent, ScreenOfSession, status_of
from ostler.schema.errors import NotFound, UsageError
from ostler.tui.attach.screen_view import ScreenView, own_terminal
from ostler.tui.attach.viewport import control_key

if TYPE_CHECKING:
    from ostler.tui.attach import session_view
else:
    session_view = lazy_module("ostler.tui.attach.session_view")

DEFAULT = "localhost:3284"


def attach_command(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    address = address_of(options.named or options.url)
    return asyncio.run(_attach(address, options.token or os.environ.get("OSTLER_TOKEN", ""), options))


def _parser() -> Parser:
    parser = Parser(
        prog="ostler attach",
        description="Attaches this terminal to a server: to the live screen of a terminal agent, where "
        "keys reach the agent, or to the conversation of a session.",
        allow_abbrev=False,
    )
    help = f"address of a server or a session (default: {DEFAULT})"
    parser.add_argument("url", metavar="URL", nargs="?", default=DEFAULT, help=help)
    parser.add_argument("-u", "--url", dest="named", metavar="URL", help="same as URL")
    help = "id of the session, or a unique prefix (default: the newest)"
    parser.add_argument("--session", metavar="ID", help=help)
    help = "token of the server; OSTLER_TOKEN is safer, since others can see arguments"
    parser.add_argument("--token", help=help)
    help = "detaches; the agent continues (default: ctrl+])"
    parser.add_argument("--detach-key", metavar="KEY", default="ctrl+]", help=help)
    parser.add_argument("--read-only", action="store_true", help="only watch: send no keys")
    return parser


async def _attach(address: Address, token: str, options: argparse.Namespace) -> int:
    detach = control_key(options.detach_key)
    own_terminal()
    remote = Remote(address, token)
    try:
        if address.code and not token:
            await remote.log_in()
        named = options.session or address.session
        if not named and (status := await _agent_at_root(remote)) is not None:
            if status.transport == "pty":
                return await _show(ScreenOfAgent(remote), options, detach)
            named = await _session_of_agent(remote) if token or address.code else ""
            if not named:
                raise UsageError(
                    f"the agent has no screen, its transport is {status.transport}: "
                    f"open {address.base}/chat/embed in a browser, or pass a token of that server with "
                    "OSTLER_TOKEN or --token"
                )
        session = await _session(remote, named)
        view = await remote.get(f"{API}/sessions/{session}")
        if (view.get("agent") or {}).get("transport") == "pty":
            return await _show(ScreenOfSession(remote, session), options, detach)
        return await session_view.show_conversation(remote, session, view, options)
    finally:
        await remote.aclose()


async def _show(source: LiveScreen, options: argparse.Namespace, detach: bytes) -> int:
    view = ScreenView(source, own_terminal(), await source.status(), detach=detach, named=options.detach_key)
    view.read_only = options.read_only
    end = await view.run()
    if end.message:
        print_stderr(end.message)
    return end.exit_code


async def _agent_at_root(remote: Remote) -> AgentStatus | None:
    """The status of the agent that the server runs, as agentapi's clients get it."""
    try:
        return status_of(await remote.get("/status"))
    except (NotFound, msgspec.ValidationError):  # a web UI answers any address with its page
        return None


async def _session_of_agent(remote: Remote) -> str:
    """The first session of an agent without a screen; empty if there is none, as in agentapi itself."""
    try:
        sessions = (await remote.get(f"{API}/sessions", limit=1000))["sessions"]
    except NotFound:
        return ""
    transports = ("acp", "stream-json")
    driven = [one for one in sessions if (one.get("agent") or {}).get("transport") in transports]
    return str(min(driven, key=lambda one: one["created_ms"])["id"]) if driven else ""


async def _session(remote: Remote, named: str) -> str:
    """The session whose id begins with `named`; without a name the newest, or a new one."""
    page = await remote.get(f"{API}/sessions", limit=1000, children="true")
    sessions: list[dict[str, Any]] = page["sessions"]
    if not named:
        newest = [one["id"] for one in sessions if not one.get("child_of")]
        return str(newest[0] if newest else (await remote.ask("POST", f"{API}/sessions", {}))["id"])
    ids = [one["id"] for one in sessions if one["id"].startswith(named)]
    if named in ids or not ids:
        return named
    if len(ids) > 1:
        raise UsageError(f"several sessions begin with {named!r}; use more of the id")
    return str(ids[0])
