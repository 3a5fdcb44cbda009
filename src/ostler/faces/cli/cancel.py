"""`ostler cancel`: end a run, or one of its calls."""

from __future__ import annotations

import argparse
import asyncio

from ostler.faces.cli.arguments import Parser, add_session
from ostler.faces.cli.held_prompts import say_held
from ostler.faces.cli.requesting import ask_and_tell, new_request_id, require_open_run, with_session
from ostler.faces.cli.saying import say
from ostler.kernel.state import SessionState
from ostler.kernel.store import Store
from ostler.runs.run_tree import root_of, state_of
from ostler.vocabulary.requests import Cancel


def cancel_command(arguments: list[str]) -> int:
    return asyncio.run(with_session(_cancel_parser().parse_args(arguments), _cancel))


def _cancel_parser() -> Parser:
    parser = Parser(
        prog="ostler cancel",
        description="Ends a run and its children, whoever works on it, or nobody. No model is needed.",
    )
    add_session(parser)
    parser.add_argument("--call", metavar="CALL", default="", help="only this call, by its id")
    parser.add_argument("--json", action="store_true", help="what came of it, as one JSON object")
    return parser


async def _cancel(options: argparse.Namespace, store: Store, state: SessionState) -> int:
    require_open_run(state)
    root = await root_of(store, state)
    cancel = Cancel(id=new_request_id(), by="cli", call=options.call)
    what = f"the call {options.call}" if options.call else "the run"
    code = await ask_and_tell(
        options,
        store,
        state.id,
        cancel,
        done=f"{what} was cancelled in session {state.id}",
        later=f"it will cancel {what}",
    )
    if not options.json:
        await say_held(store, await state_of(store, state.id))
    if root.id != state.id and not options.json and await store.holder(root.id) is None:
        say(f"session {root.id} worked with it: `ostler resume {root.id}` goes on there")
    return code
