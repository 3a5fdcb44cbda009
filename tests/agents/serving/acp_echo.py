"""An agent that speaks ACP and repeats what it is told: run as a program by the tests."""

from __future__ import annotations

import json
import sys
from typing import Any


def write(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(session: str, text: str) -> None:
    said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    write(method="session/update", params={"sessionId": session, "update": said})


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            return {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}
        case "session/new":
            return {"sessionId": "one"}
        case "session/prompt":
            update("one", "Echo: ")
            update("one", params["prompt"][0]["text"])
            return {"stopReason": "end_turn"}
    return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and "method" in asked:
        write(id=asked["id"], result=answer(asked["method"], asked.get("params") or {}))
