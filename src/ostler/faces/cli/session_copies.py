"""`ostler sessions export|import|fork`: sessions in files, and copies of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.portable_file import EXTENSIONS, export_target, format_of, reading, writing
from ostler.faces.cli.session_listing import as_it_is
from ostler.kernel.journal import World
from ostler.kernel.store import Store
from ostler.runs.stores import find_session


async def export(options: argparse.Namespace, store: Store) -> None:
    session = await find_session(store, options.id)
    wanted = options.format or format_of(options.file)
    if options.file == "-":
        async for piece in exported(store, session, wanted):
            sys.stdout.buffer.write(piece)
        return
    print(await written(store, session, Path(options.file), wanted))


async def written(store: Store, session: str, target: Path, wanted: str) -> Path:
    """The file that a session was written to; in a directory, one that is named after it."""
    target = export_target(target, await store.summary(session), EXTENSIONS[wanted])
    with writing(target) as file:
        async for piece in exported(store, session, wanted):
            file.write(piece)
    return target


async def exported(store: Store, session: str, wanted: str) -> AsyncIterator[bytes]:
    if wanted == "jsonl":
        from ostler.log.portable import export_session

        async for line in export_session(store, session):
            yield line
        return
    from ostler.faces.cli.revising import as_revised

    summary = await as_it_is(store, await store.summary(session))
    facts = as_revised(await store.read(session))
    if wanted == "html":
        from ostler.faces.cli.html_export import html_page

        pieces = html_page(summary, facts)
    else:
        from ostler.faces.cli.markdown_export import markdown_page

        pieces = markdown_page(summary, facts)
    for piece in pieces:
        yield piece.encode(errors="replace")


async def import_(options: argparse.Namespace, store: Store) -> None:
    from ostler.log.portable import import_session

    with reading(options.file) as lines:
        print(await import_session(store, lines, str(working_directory()), World()))


async def fork(options: argparse.Namespace, store: Store) -> None:
    from ostler.log import fork as forking

    session = await find_session(store, options.id)
    print(await forking.fork(store, session, options.at, World(), " ".join(options.title.split())))
