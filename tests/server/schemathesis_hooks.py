"""What schemathesis must know beyond the OpenAPI document. It is loaded by the tool, in its own process."""

from __future__ import annotations

from typing import Any

import schemathesis

LONGEST_QUERY = 4000
"""Beyond, the HTTP parser refuses the request before the server sees it."""


@schemathesis.serializer("application/x-ndjson")
def lines(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


@schemathesis.hook
def filter_query(context: Any, query: Any) -> bool:
    return len(str(query)) < LONGEST_QUERY


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """Whatever else an agent is asked for with, its program is one that does nothing."""
    agent = body.get("agent") if isinstance(body, dict) else None
    if isinstance(agent, dict) and isinstance(agent.get("command"), list):
        return {**body, "agent": {**agent, "command": ["true"]}}
    return body
