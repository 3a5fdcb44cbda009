"""A small agent that speaks ACP, written with the protocol's official package: run as a program by the tests.

It repeats what it is told, unless that is one of the words below.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import acp
from acp.schema import (
    AgentCapabilities,
    AgentPlanUpdate,
    AllowedOutcome,
    Cost,
    PermissionOption,
    PlanEntry,
    ToolCallUpdate,
    UsageUpdate,
)

OFFERED = [
    PermissionOption(option_id="yes-1", name="Do it", kind="allow_once"),
    PermissionOption(option_id="yes-2", name="Do it always", kind="allow_always"),
    PermissionOption(option_id="no-1", name="Leave it", kind="reject_once"),
]


class SmallAgent:
    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.paid = 0.0
        self.has_failed = False

    def on_connect(self, client: acp.Client) -> None:
        self.client = client

    async def initialize(self, protocol_version: int, **rest: Any) -> acp.InitializeResponse:
        if "--silent" in sys.argv:
            await asyncio.Event().wait()
        if "--die" in sys.argv:
            print("no key was found", file=sys.stderr, flush=True)
            os._exit(3)
        if "--old" in sys.argv:
            return acp.InitializeResponse(protocol_version=0)
        capabilities = rest["client_capabilities"]
        assert not capabilities.fs.read_text_file and not capabilities.terminal
        can = AgentCapabilities(load_session="--forgets" not in sys.argv)
        return acp.InitializeResponse(protocol_version=protocol_version, agent_capabilities=can)

    async def new_session(self, cwd: str, **rest: Any) -> acp.NewSessionResponse:
        if "--login" in sys.argv:
            raise acp.RequestError.auth_required()
        self.memory = Path(cwd, f"memory of {os.getpid()}")
        return acp.NewSessionResponse(session_id=self.memory.name)

    async def load_session(self, cwd: str, session_id: str, **rest: Any) -> acp.LoadSessionResponse:
        """Says all of it again, as the protocol wants it."""
        self.session, self.memory = session_id, Path(cwd, session_id)
        if not self.memory.exists():
            raise acp.RequestError.resource_not_found(session_id)
        for told in self.memory.read_text().splitlines():
            await self.tell(acp.update_user_message_text(told))
            await self.say(f"you said: {told} ")
            await self.tell(acp.start_tool_call("call_1", "Wait", kind="other", status="completed"))
        return acp.LoadSessionResponse()

    async def cancel(self, session_id: str, **rest: Any) -> None:
        self.cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **rest: Any) -> acp.PromptResponse:
        self.session = session_id
        self.cancelled.clear()
        text = prompt[0].text
        with self.memory.open("a") as memory:
            memory.write(f"{text}\n")
        word, _, rest_of_it = text.partition(" ")
        known = getattr(self, f"do_{word}", None)
        stop = await (known(rest_of_it) if known else self.repeat(text))
        return acp.PromptResponse(stop_reason=stop or "end_turn")

    async def tell(self, update: Any) -> None:
        await self.client.session_update(session_id=self.session, update=update)

    async def say(self, text: str) -> None:
        await self.tell(acp.update_agent_message_text(text))

    async def repeat(self, text: str) -> None:
        await self.say("you said: ")
        for word in text.split(" "):
            await self.say(f"{word} ")

    async def do_recall(self, text: str) -> None:
        await self.say(self.memory.read_text())

    async def do_think(self, text: str) -> None:
        await self.tell(acp.update_agent_thought_text("let me "))
        await self.tell(acp.update_agent_thought_text("see"))
        await self.say("seen")

    async def do_edit(self, text: str) -> None:
        await self.say("I change a file. ")
        given = {"path": "a.txt", "by": "{braces}"}
        await self.tell(acp.start_tool_call("call_1", "Edit a.txt", kind="edit", raw_input=given))
        await self.tell(acp.update_tool_call("call_1", status="in_progress"))
        changed = acp.tool_diff_content("a.txt", new_text="one\n", old_text="one\ntwo\n")
        await self.tell(acp.update_tool_call("call_1", status="completed", content=[changed]))
        await self.say("It is changed.")

    async def do_plan(self, text: str) -> None:
        entries = [
            PlanEntry(content="look", priority="high", status="completed"),
            PlanEntry(content="leap", priority="low", status="in_progress"),
        ]
        await self.tell(AgentPlanUpdate(session_update="plan", entries=entries))
        self.paid += 0.25
        cost = Cost(amount=self.paid, currency="USD")
        await self.tell(UsageUpdate(session_update="usage_update", used=1200, size=200_000, cost=cost))

    async def do_run(self, text: str) -> str | None:
        await self.tell(
            acp.start_tool_call("call_1", f"`{text}`", kind="execute", raw_input={"command": text})
        )
        call = ToolCallUpdate(tool_call_id="call_1")
        asking = asyncio.ensure_future(
            self.client.request_permission(session_id=self.session, tool_call=call, options=OFFERED)
        )
        await asyncio.sleep(0)
        await self.tell(acp.update_tool_call("call_1", status="in_progress"))
        answer = await asking
        if not isinstance(answer.outcome, AllowedOutcome):
            await self.cancelled.wait()
            return "cancelled"
        if answer.outcome.option_id.startswith("no"):
            await self.tell(acp.update_tool_call("call_1", status="failed"))
            await self.say("Then not.")
            return None
        for printed in ("a", "a\nb"):
            content = [acp.tool_content(acp.text_block(printed))]
            await self.tell(acp.update_tool_call("call_1", status="in_progress", content=content))
        await self.tell(acp.update_tool_call("call_1", status="completed"))
        await self.say(f"Done with {answer.outcome.option_id}.")
        return None

    async def do_ask(self, text: str) -> None:
        """About a call that nobody has heard of."""
        call = ToolCallUpdate(tool_call_id="call_9", title="Look around", kind="read")
        await self.client.request_permission(session_id=self.session, tool_call=call, options=OFFERED[:1])
        await self.tell(acp.update_tool_call("call_9", status="completed"))

    async def do_wait(self, text: str) -> str:
        await self.say("waiting")
        await self.tell(acp.start_tool_call("call_1", "Wait", kind="other"))
        await self.cancelled.wait()
        return "cancelled"

    async def do_fail(self, text: str) -> None:
        if self.has_failed:
            await self.say("better now")
            return
        self.has_failed = True
        await self.say("half of an ans")
        raise acp.RequestError.internal_error({"details": "the model is away"})

    async def do_die(self, text: str) -> None:
        await self.say("oh")
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(5)

    async def do_leave(self, text: str) -> None:
        """Something that outlives its turn, and would outlive the agent."""
        child = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
        await self.say(f"{child.pid}")

    async def do_lone(self, text: str) -> None:
        line = (
            '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":'
            '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"half \\ud83d"}}}}\n'
        )
        print("this is no JSON")
        print(line % self.session, end="", flush=True)

    async def do_garbage(self, text: str) -> None:
        about = f'"sessionId":"{self.session}"'
        for line in (
            '{"jsonrpc":"2.0","method":"session/update","params":{%s,"update":{"sessionUpdate":"dreamt"}}}',
            '{"jsonrpc":"2.0","method":"session/update","params":[{%s}]}',
            '{"jsonrpc":"2.0","method":"session/update"}',
            '{"jsonrpc":"2.0","id":999,"result":{%s}}',
            '{"jsonrpc":"2.0","id":"mine","method":"fs/read_text_file","params":{%s,"path":"/etc/hostname"}}',
            '{"jsonrpc":"2.0","method":["session/update"]}',
            '{"jsonrpc":"2.0","method":"_our/own","params":{%s}}',
            '{"jsonrpc":"2.0","id":["?"],"result":null}',
            '{"jsonrpc":"2.0","id":2,"error":"no"}',
            "[]",
            "{}",
        ):
            print(line.replace("%s", about))
        await self.say("never mind")

    async def do_flood(self, text: str) -> None:
        for number in range(int(text)):
            await self.say(f"{number} ")


if __name__ == "__main__":
    asyncio.run(acp.run_agent(SmallAgent()))  # type: ignore[arg-type]
