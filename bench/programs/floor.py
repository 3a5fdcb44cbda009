"""The floor: a hand-written agent loop on httpx2, without log, events, hooks or permissions.

`main` is its one-shot command, with the arguments BASE_URL PROMPT; `run` is the loop itself.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2

TYPES = {"text": "string", "command": "string", "path": "string", "content": "string", "seconds": "number"}


async def echo(text: str) -> str:
    return text


async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"


async def bash(command: str) -> str:
    pipe, same = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
    process = await asyncio.create_subprocess_exec("bash", "-c", command, stdout=pipe, stderr=same)
    output, _ = await process.communicate()
    return output.decode()


async def write(path: str, content: str) -> str:
    await asyncio.to_thread(Path(path).write_text, content)
    return f"wrote {path}"


def specification(tool: Any) -> dict[str, Any]:
    names = tool.__code__.co_varnames[: tool.__code__.co_argcount]
    schema = {
        "type": "object",
        "properties": {name: {"type": TYPES[name]} for name in names},
        "required": names,
    }
    return {"type": "function", "function": {"name": tool.__name__, "parameters": schema}}


async def complete(client: httpx2.AsyncClient, url: str, body: dict[str, Any]) -> dict[str, Any]:
    text: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    async with client.stream("POST", url + "/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            for choice in json.loads(line[6:])["choices"]:
                text.append(choice["delta"].get("content") or "")
                for part in choice["delta"].get("tool_calls", ()):
                    call = calls.setdefault(part["index"], {"id": part.get("id"), "name": "", "pieces": []})
                    call["name"] += part["function"].get("name", "")
                    call["pieces"].append(part["function"].get("arguments", ""))
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text)}
    if calls:
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": "".join(call["pieces"])},
            }
            for call in calls.values()
        ]
    return message


async def run(client: httpx2.AsyncClient, url: str, prompt: str, tools: list[Any]) -> str:
    functions = {tool.__name__: tool for tool in tools}
    specifications = [specification(tool) for tool in tools]

    async def result(call: dict[str, Any]) -> dict[str, Any]:
        output = await functions[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
        return {"role": "tool", "tool_call_id": call["id"], "content": output}

    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    while True:
        body = {"model": "bench", "messages": messages, "tools": specifications, "stream": True}
        messages.append(await complete(client, url, body))
        if "tool_calls" not in messages[-1]:
            return str(messages[-1]["content"])
        messages += await asyncio.gather(*map(result, messages[-1]["tool_calls"]))


def client() -> httpx2.AsyncClient:
    import httpx2  # not above, because the bare loop runs without it

    return httpx2.AsyncClient(headers={"authorization": "Bearer k"}, timeout=60)


@asynccontextmanager
async def agents(_store: str) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
    """For the measures in process: yields a function that runs one agent. All agents share one client."""
    async with client() as shared:
        yield lambda url: run(shared, url, "begin", [echo, nap])


async def one_shot(url: str, prompt: str) -> None:
    async with client() as own:
        await run(own, url, prompt, [bash, write])


def main() -> None:
    asyncio.run(one_shot(sys.argv[1], sys.argv[2]))
