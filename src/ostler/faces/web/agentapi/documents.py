"""Where the API's document can be had, in each of its forms."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ostler.faces.web.agentapi.docs_page import POLICY, docs_page
from ostler.faces.web.agentapi.openapi import document, downgraded, schema_file
from ostler.faces.web.agentapi.yaml_text import as_yaml

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
    """Made when somebody first asks for it."""
    made = cache(make)

    async def serve(request: Request) -> Response:
        return Response(made(), headers={"content-type": content_type, **(headers or {})})

    return serve


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def schema_answer(request: Request) -> Response:
    name = request.scope["path"].rpartition("/")[2].removesuffix(".json")
    return Response(schema_file(name), headers={"content-type": "application/json"})
