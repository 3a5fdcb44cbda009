"""`ostler pause`: let a run rest before its next step."""

from __future__ import annotations

import argparse
import asyncio

from ostler.faces.cli.arguments import Parser, add_session
from ostler.faces.cli.requesting import ask_and_tell, new_request_id, require_open_run, with_session
from ostler.kernel.state import SessionState
from ostler.kernel.store import Store
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.requests import Pause


def pause_command(arguments: list[str]) -> int:
    return asyncio.run(with_session(_pause_parser().parse_args(arguments), _pause))


def _pause_parser() -> Parser:
    parser = Parser(
        prog="ostler pause",
        description="Lets a run rest before its next step, until `ostler resume`. One that waits stays where "
        "it is: an answer alone does not wake it then.",
    )
    add_session(parser)
    parser.add_argument("--json", action="store_true", help="what came of it, as one JSON object")
    return parser


async def _pause(options: argparse.Namespace, store: Store, state: SessionState) -> int:
    require_open_run(state)
    assert state.run is not None
    if state.run.waiting is None and await store.holder(state.id) is None:
        raise UsageError(
            f"the run of session {state.id} is not under way, because its process is gone: "
            f"`ostler resume {state.id}` goes on, `ostler cancel {state.id}` ends it"
        )
    return await ask_and_tell(
        options,
        store,
        state.id,
        Pause(id=new_request_id(), by="cli"),
        done=f"paused; `ostler resume {state.id}` goes on",
        later="the run rests before its next step",
    )
