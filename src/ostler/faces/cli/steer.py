"""`ostler steer`: say something to a run between two of its steps."""

from __future__ import annotations

import argparse
import asyncio

from ostler.faces.cli.arguments import Parser, add_session, parse_words
from ostler.faces.cli.requesting import (
    ask_and_tell,
    new_request_id,
    require_open_run,
    tell_later,
    with_session,
)
from ostler.kernel.state import SessionState
from ostler.kernel.store import Store
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.messages import as_content
from ostler.vocabulary.requests import Steer


def steer_command(arguments: list[str]) -> int:
    return asyncio.run(with_session(parse_words(_steer_parser(), arguments), _steer))


def _steer_parser() -> Parser:
    parser = Parser(
        prog="ostler steer",
        description="Says something to a run, whoever works on it. The model is told between two steps; if "
        "it was finished, it gets another one.",
    )
    add_session(parser)
    parser.add_argument("words", metavar="TEXT", nargs="*", help="what to say")
    parser.add_argument("--json", action="store_true", help="what came of it, as one JSON object")
    return parser


async def _steer(options: argparse.Namespace, store: Store, state: SessionState) -> int:
    text = " ".join(options.words).strip()
    if not text:
        raise UsageError("there is nothing to say: say it after the session's id")
    require_open_run(state)
    steer = Steer(id=new_request_id(), by="cli", content=as_content(text))
    if await store.holder(state.id) is not None:
        told, later = "the model was told", "the model is told before its next step"
        return await ask_and_tell(options, store, state.id, steer, done=told, later=later)
    await store.submit(state.id, steer)
    later = f"nobody works on it now; the model is told when the run goes on: `ostler resume {state.id}`"
    await tell_later(options, store, state.id, steer, later)
    return 0
