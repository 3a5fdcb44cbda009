"""`ostler doctor`: what could answer, what was looked for and found, and what to do."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence

import msgspec

from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.columns import aligned, printable
from ostler.faces.cli.directory import working_directory
from ostler.models.demo import WAYS
from ostler.runs.diagnosis import Diagnosis, Part, diagnose
from ostler.runs.first_run import Finding
from ostler.vocabulary.errors import NoModel
from ostler.vocabulary.extras import how_to_install

HEADINGS = {
    "key": "keys",
    "server": "servers on this machine",
    "gguf": "model files",
    "fallback": "fallbacks, when the model has failed",
}
_MODELS_SHOWN = 5


def doctor_command(arguments: list[str]) -> int:
    parser = Parser(
        prog="ostler doctor",
        description="Shows which model would answer and why, what was looked for, whether everything is in "
        "order, and what to do. Exit code 3 when nothing can answer. No key is shown.",
    )
    parser.add_argument("--json", action="store_true", help="everything as one JSON object")
    options = parser.parse_args(arguments)
    diagnosis = asyncio.run(diagnose(working_directory()))
    if options.json:
        told = {"can_answer": diagnosis.can_answer, "ways": WAYS} | msgspec.to_builtins(diagnosis)
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
    else:
        for line in lines_of(diagnosis):
            print(printable(line))
    return 0 if diagnosis.can_answer else NoModel.exit_code


def lines_of(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"ostler {diagnosis.version}, Python {diagnosis.python}, {diagnosis.platform}"
    yield ""
    yield from _table([_marked(one.sound, one.name, one.path, one.state) for one in diagnosis.places])
    for kind, heading in HEADINGS.items():
        rows = [_row(one) for one in diagnosis.findings if one.kind == kind]
        if rows:
            yield from ("", f"{heading}:")
            yield from aligned(rows)
    yield from ("", "extras:")
    yield from _table([_marked(one.found, one.name, one.about, _to_install(one)) for one in diagnosis.extras])
    yield from ("", "programs:")
    yield from _table(
        [_marked(one.found, one.name, one.path or "not found", one.about) for one in diagnosis.programs]
    )
    yield ""
    answering = diagnosis.answering
    if diagnosis.can_answer:
        yield f"{answering.model} answers: {answering.because}"
        return
    yield f"nothing can answer: {answering.because}"
    yield from (f"  {number}. {way}" for number, way in enumerate(WAYS, 1))


def _row(finding: Finding) -> tuple[str, ...]:
    models = ", ".join(finding.models[:_MODELS_SHOWN])
    if len(finding.models) > _MODELS_SHOWN:
        models += ", …"
    return _marked(finding.found, finding.name, finding.detail, models, finding.to_do)


def _marked(good: bool, *cells: str) -> tuple[str, ...]:
    return ("  +" if good else "  -", *cells)


def _to_install(extra: Part) -> str:
    return "" if extra.found else how_to_install(extra.name)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    return aligned(rows) if rows else iter(())
