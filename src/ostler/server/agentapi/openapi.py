"""agentapi's OpenAPI documents: 3.1 and 3.0, as JSON, as YAML and as an HTML page."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ostler import __version__

_DOCUMENT = resources.files("ostler.server.agentapi") / "openapi.json"


def document() -> dict[str, Any]:
    """agentapi's own document in its 3.1 form, with our version in it."""
    loaded: dict[str, Any] = json.loads(_DOCUMENT.read_text(encoding="utf-8"))
    loaded["info"]["version"] = __version__
    return loaded


def downgraded(value: Any) -> Any:
    """The value in the terms of OpenAPI 3.0.3: `example` for `examples`, and `nullable`."""
    if isinstance(value, list):
        return [downgraded(one) for one in value]
    if not isinstance(value, dict):
        return value
    lower: dict[str, Any] = {}
    for name, inner in value.items():
        if name == "openapi":
            lower[name] = "3.0.3"
        elif name == "examples" and isinstance(inner, list):
            lower["example"] = inner[0]
        elif name == "type" and isinstance(inner, list):
            lower["type"] = next(kind for kind in inner if kind != "null")
            lower["nullable"] = True
        else:
            lower[name] = downgraded(inner)
    return lower


POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_FILES = ("openapi.json", "openapi.yaml", "openapi-3.0.json", "openapi-3.0.yaml")

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color-scheme:light dark}"
    "h2{margin-top:2.5rem}code,pre{font:14px/1.4 ui-monospace,monospace}"
    "pre{overflow:auto;padding:.75rem;border:1px solid #8886;border-radius:.4rem}"
)


def docs_page(document: dict[str, Any]) -> str:
    info = document["info"]
    parts = [
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>",
        _paragraphs(info["description"]),
        "<p>For programs: " + ", ".join(f'<a href="{name}">{name}</a>' for name in _FILES) + "</p>",
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts.append(_operation_html(method, path, operation))
    parts.append("<h2>Schemas</h2>")
    for name, schema in document["components"]["schemas"].items():
        parts.append(f'<h3 id="{escape(name)}">{escape(name)}</h3>{_shown(schema)}')
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _operation_html(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [
        f'<h2 id="{operation["operationId"]}"><code>{method.upper()} {escape(path)}</code> '
        f"{escape(operation['summary'])}</h2>",
        _paragraphs(operation["description"]),
    ]
    if (body := operation.get("requestBody")) is not None:
        parts.append(f"<h4>Request</h4>{_shown(body['content'])}")
    for status, answer in operation["responses"].items():
        parts.append(f"<h4>Answer {escape(status)}</h4>{_shown(answer['content'])}")
    return "".join(parts)


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n"))


def _shown(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2))}</pre>"


def as_yaml(value: Any) -> str:
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _entry(f"{json.dumps(name)}:", inner)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _entry("-", inner)
    else:
        yield json.dumps(value, ensure_ascii=False)


def _entry(head: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield head
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{head} {json.dumps(value, ensure_ascii=False)}"


_OPENAPI = "application/vnd.oai.openapi"


def documents() -> dict[str, Callable[[Request], Awaitable[Response]]]:
    return {
        "/openapi.json": _served(lambda: _as_json(document()), f"{_OPENAPI}+json"),
        "/openapi.yaml": _served(lambda: as_yaml(document()), f"{_OPENAPI}+yaml"),
        "/openapi-3.0.json": _served(lambda: _as_json(downgraded(document())), f"{_OPENAPI}+json"),
        "/openapi-3.0.yaml": _served(lambda: as_yaml(downgraded(document())), f"{_OPENAPI}+yaml"),
        "/docs": _served(lambda: docs_page(document()), "text/html", {"content-security-policy": POLICY}),
    }


def _served(
    make: Callable[[], str], content_type: str, headers: dict[str, str] | None = None
) -> Callable[[Request], Awaitable[Response]]:
    """Serves a document that is made at the first request."""
    made = cache(make)

    async def serve(request: Request) -> Response:
        return Response(made(), headers={"content-type": content_type, **(headers or {})})

    return serve


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def schema_answer(request: Request) -> Response:
    """One schema by itself; `null` for an unknown name, as agentapi answers."""
    name = request.scope["path"].rpartition("/")[2].removesuffix(".json")
    schema = _as_json(document()["components"]["schemas"].get(name))
    content = re.sub(r"#/components/schemas/(\w+)", r"/schemas/\1.json", schema)
    return Response(content, headers={"content-type": "application/json"})
