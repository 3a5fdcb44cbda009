"""The API's document as a page for people. It needs no script and nothing from elsewhere."""

from __future__ import annotations

import json
from html import escape
from typing import Any

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
