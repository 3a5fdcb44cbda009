"""Writes the generated parts of the documentation; with --check, only reports what is out of date.

docs/events.md, docs/errors.md, docs/openapi.json and src/ostler/tools/specs.json are generated whole; other
pages have generated sections, see `docs_sections.py`.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import tomllib
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from docs_sections import fill_sections, json_type, row
from ostler.core.hooks import Point
from ostler.schema import errors, events, requests, visibility
from ostler.schema.facts import Fact, decode_event
from ostler.schema.messages import Text
from ostler.tools import builtin_tools

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "tests" / "golden" / "events-v1.jsonl"
MAPPING = ROOT / "docs" / "event_mapping.toml"
NOTICE = "<!-- Written by `make docs` from the code. Change the code, or scripts/generate_docs.py. -->"

KINDS = {
    events.Entry: "entry",
    events.Record: "record",
    events.Delta: "delta",
    events.LiveEvent: "live value",
}

ORDER_OF_A_RUN = """\
run_started
  user_message
  step_started
    model_called
      ( text_delta | reasoning_delta | tool_input_started | tool_input_delta | tool_input_ended )*
    usage                            one for each model_called, also a failed one
    assistant_message | model_failed     after model_failed: model_called again, or step_ended
    tool_called*                     in the model's order
    for each call, calls may interleave:
      ( question_asked question_answered )*
      tool_started                   a refused call has none
      tool_output*
      ( tool_deferred | question_asked question_answered )*
      tool_result                    one for each tool_called
  step_ended
  user_message*                      messages sent in the meantime
  step_started …
run_waiting run_resumed              in pairs, any number of times
run_ended                            one for each run_started
"""

BESIDE_THE_ORDER = """\
Other records, extension entries, to-do lists, and model calls with a purpose other than `step` may occur
anywhere between `run_started` and `run_ended`.
"""

EVENTS_INTRODUCTION = """\
# Events

Everything that happens in a session is an event. There are four kinds:

- An **entry** is a fact on the session's tree: it has a parent, and may be sent to the model.
- A **record** is a fact of the whole session: going back to an earlier entry doesn't undo it.
- A **delta** is a streamed fragment. It is never stored; the fact that follows has or names the content.
- A **live value** is the current state of something without history. Never stored; an update replaces it.

A fact is a stored event. Facts are numbered 1, 2, 3 … in each session and are committed before they are
shown. A fact is sent as one JSON object: the fields of its event and of its envelope (`seq`, `session`,
`run`, `time`, for an entry `parent`, for a copy `origin`):

```json
{example}
```

A field marked `?` has a default, and is omitted if it has that value. Unknown events and fields are kept
byte for byte. The list also contains events of planned features.

## Every event

*Stored*: it is in the log. *Shown*: users see it, live and when they reopen the session. *Sent*: it is sent
to the model in later steps. *Live*: it is sent to subscribers of the session.
"""

MAPPING_INTRODUCTION = """\
## Coming from another system

The events of Kit, zot, linnkit and agentapi, and their counterparts here. `request:` is a request, `hook:` a
hook.
"""

ERRORS_INTRODUCTION = """\
# Errors

Every error is in this table, below the error that it is a kind of. A message says what happened, to what, and
what to do. `kind` is the error's name in events. The exit code is for the command line, the status for HTTP.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    check = parser.parse_args().check
    outdated = {
        path: text
        for path, text in pages().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in outdated.items():
        if check:
            print(f"{path.relative_to(ROOT)} is out of date: run `make docs`", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and outdated else 0


def pages() -> dict[Path, str]:
    docs = ROOT / "docs"
    generated = {
        docs / "events.md": events_page(),
        docs / "errors.md": errors_page(),
        docs / "openapi.json": openapi_document(),
        ROOT / "src" / "ostler" / "tools" / "specs.json": tool_specs(),
    }
    handwritten = sorted({ROOT / "README.md", *docs.glob("*.md")} - generated.keys())
    return generated | {
        path: fill_sections(path.read_text(encoding="utf-8"), path.name) for path in handwritten
    }


def openapi_document() -> str:
    from ostler.server.app import OPERATIONS, PREFIX
    from ostler.server.openapi import openapi

    return msgspec.json.format(msgspec.json.encode(openapi(OPERATIONS, PREFIX)), indent=1).decode() + "\n"


def tool_specs() -> str:
    """The specs of the built-in tools, which every start reads instead of importing the tools."""
    specs = [tool.spec for tool in builtin_tools()]
    return msgspec.json.format(msgspec.json.encode(specs), indent=1).decode() + "\n"


def events_page() -> str:
    samples = {event.type: event for event in reversed(read_samples())}
    parts = [
        NOTICE,
        EVENTS_INTRODUCTION.format(example=example()).strip(),
        "\n".join(event_table(samples)),
        "Some fields change how an event is handled:",
        "\n".join(mark_table(samples)),
        "## Types used in events",
        "\n".join(shape_table()),
        "## The order of a run",
        f"```\n{order_of_a_run()}```",
        BESIDE_THE_ORDER.strip(),
        MAPPING_INTRODUCTION.strip(),
        *mapping_tables(tomllib.loads(MAPPING.read_text(encoding="utf-8"))),
    ]
    return "\n\n".join(parts) + "\n"


def read_samples() -> list[events.Event]:
    """Two of most types: one with only the required fields, then one with all."""
    samples = [decode_event(line) for line in SAMPLES.read_bytes().splitlines()]
    decoded = [sample for sample in samples if isinstance(sample, events.Event)]
    missing = set(events.EVENT_TYPES) - {sample.type for sample in decoded}
    if missing:
        raise SystemExit(f"{SAMPLES.relative_to(ROOT)} has no line for: {', '.join(sorted(missing))}")
    return decoded


def example() -> str:
    event = events.UserMessage((Text("What does a.py do?"),))
    fact = Fact.of(event, seq=2, session="ses_1", run="run_1", time_ms=1_767_225_600_000, parent=0)
    return fact.line().decode()


def event_table(samples: dict[str, events.Event]) -> Iterator[str]:
    yield "| event | kind | stored | shown | sent | live | meaning | fields |"
    yield "|---|---|---|---|---|---|---|---|"
    for tag, event_type in events.EVENT_TYPES.items():
        cells = [f"`{tag}`", kind_of(event_type), *visibility_cells(samples[tag]), summary_of(event_type)]
        yield row(*cells, fields_of(event_type))


def kind_of(event_type: type[events.Event]) -> str:
    return next(name for kind, name in KINDS.items() if issubclass(event_type, kind))


def visibility_cells(event: events.Event) -> list[str]:
    seen = visibility.visibility_of(event)
    return ["yes" if yes else "–" for yes in (seen.stored, seen.shown, seen.sent, seen.live)]


def mark_table(samples: dict[str, events.Event]) -> Iterator[str]:
    change = msgspec.structs.replace
    marked = {
        "`user_message` that is `hidden`": change(samples["user_message"], hidden=True),
        "`assistant_message` that is blank": change(samples["assistant_message"], content=(Text(" "),)),
        "`assistant_message` that is `suppressed`": change(samples["assistant_message"], suppressed=True),
        "`extension_entry` with `told`": change(samples["extension_entry"], told=(Text("…"),)),
    }
    yield "| event | stored | shown | sent | live |"
    yield "|---|---|---|---|---|"
    for name, event in marked.items():
        yield row(name, *visibility_cells(event))


def shape_table() -> Iterator[str]:
    yield "| type | what it is | fields |"
    yield "|---|---|---|"
    for shape in shapes_in(events.EVENT_TYPES.values()):
        yield row(f"`{shape.__name__}`", summary_of(shape), fields_of(shape))


def shapes_in(roots: Iterable[type[msgspec.Struct]]) -> list[type[msgspec.Struct]]:
    shapes: dict[type[msgspec.Struct], None] = {}

    def visit(hint: Any) -> None:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            if hint not in shapes:
                shapes[hint] = None
                for inner in typing.get_type_hints(hint).values():
                    visit(inner)
            return
        for inner in typing.get_args(hint):
            visit(inner)

    for root in roots:
        for hint in typing.get_type_hints(root).values():
            visit(hint)
    return list(shapes)


def summary_of(documented: type) -> str:
    return inspect.cleandoc(documented.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def fields_of(shape: type[msgspec.Struct]) -> str:
    hints = typing.get_type_hints(shape)
    tag = shape.__struct_config__.tag if not issubclass(shape, events.Event) else None
    tagged = [f'`{shape.__struct_config__.tag_field}: "{tag}"`'] if tag else []
    return ", ".join(
        tagged
        + [
            f"`{field.encode_name}{'' if field.required else '?'}: {json_type(hints[field.name])}`"
            for field in msgspec.structs.fields(shape)
        ]
    )


def order_of_a_run() -> str:
    unknown = set(re.findall(r"\b[a-z]+_[a-z_]+\b", ORDER_OF_A_RUN)) - set(events.EVENT_TYPES)
    if unknown:
        raise SystemExit(f"the order of a run names events that do not exist: {', '.join(sorted(unknown))}")
    return ORDER_OF_A_RUN


def mapping_tables(mapping: dict[str, dict[str, dict[str, Any]]]) -> Iterator[str]:
    targets = known_targets()
    for system, groups in mapping.items():
        for group, rows in groups.items():
            lines = [f"### {system}: {group}", "", "| there | here | |", "|---|---|---|"]
            for name, place in rows.items():
                here, remark = place_of(f"{system}, {name}", place, targets)
                lines.append(row(f"`{name}`", here, remark))
            yield "\n".join(lines)


def place_of(name: str, place: dict[str, Any], targets: set[str]) -> tuple[str, str]:
    if "why_not" in place:
        return "–", place["why_not"]
    names = place.get("to", [])
    unknown = sorted(set(names) - targets) if names else ["none is named"]
    if unknown:
        raise SystemExit(f"{MAPPING.name}: {name}: no such event, request or hook: {', '.join(unknown)}")
    return ", ".join(f"`{target}`" for target in names), place.get("note", "")


def known_targets() -> set[str]:
    request_names = {
        f"request:{request.__struct_config__.tag}" for request in typing.get_args(requests.AnyRequest)
    }
    hook_names = {f"hook:{point}" for point in typing.get_args(Point)}
    return set(events.EVENT_TYPES) | request_names | hook_names


def errors_page() -> str:
    lines = ["| kind | error | is a | meaning | exit code | HTTP status |", "|---|---|---|---|---|---|"]
    for kind, error in errors.ERRORS.items():
        parent = f"`{error.__bases__[0].__name__}`" if error is not errors.OstlerError else "–"
        codes = str(error.exit_code), str(error.http_status)
        lines.append(row(f"`{kind}`", f"`{error.__name__}`", parent, summary_of(error), *codes))
    return "\n\n".join([NOTICE, ERRORS_INTRODUCTION.strip(), "\n".join(lines)]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
