"""A small program that speaks Claude Code's stream-JSON: run by the tests in its place.

The shapes are those that version 2.1.197 wrote when it was asked the same things. It knows the same words as
`acp_agent.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

WANTED = {"--print", "--verbose", "--include-partial-messages"}
WANTED_PAIRS = {
    "--input-format": "stream-json",
    "--output-format": "stream-json",
    "--permission-prompt-tool": "stdio",
}
SUGGESTED = [
    {
        "type": "addRules",
        "rules": [{"toolName": "Bash", "ruleContent": "ls -l"}],
        "behavior": "allow",
        "destination": "localSettings",
    },
    {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
]


def write(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


class Interrupted(Exception):
    pass


class Ended(Exception):
    """The turn has its result."""


class Session:
    def __init__(self, name: str) -> None:
        self.name = name
        self.messages = 0
        self.paid = 0.0
        self.has_failed = False

    def serve(self) -> None:
        while True:
            message = read()
            if message["type"] == "control_request":
                self.control(message)
            elif message["type"] == "user":
                assert message["message"]["role"] == "user"
                self.turn(message["message"]["content"])

    def control(self, message: dict[str, Any]) -> None:
        if "--silent" in sys.argv:
            return
        if "--die" in sys.argv:
            print("no key was found", file=sys.stderr, flush=True)
            os._exit(3)
        answer = {"subtype": "success", "request_id": message["request_id"]}
        if message["request"]["subtype"] == "initialize":
            answer["response"] = {"commands": [], "models": []}  # type: ignore[assignment]
        write(type="control_response", response=answer)

    def turn(self, text: str) -> None:
        with Path(self.name).open("a") as memory:
            memory.write(f"{text}\n")
        write(type="system", subtype="init", session_id=self.name, tools=["Bash"], permissionMode="default")
        write(type="system", subtype="status", status="requesting", session_id=self.name)
        word, _, rest = text.partition(" ")
        try:
            known = getattr(self, f"do_{word}", None)
            error = known(rest) if known else self.repeat(text)
        except Ended:
            return
        except Interrupted:
            interrupted = [{"type": "text", "text": "[Request interrupted by user]"}]
            self.frame("user", {"role": "user", "content": interrupted})
            self.result(subtype="error_during_execution", is_error=True)
            return
        self.result(subtype="success", is_error=bool(error), result=error or "said")

    def result(self, **about: Any) -> None:
        self.paid += 0.5
        write(
            type="result",
            num_turns=1,
            session_id=self.name,
            total_cost_usd=self.paid,
            usage={"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3},
            modelUsage={"claude-opus-4-8": {"costUSD": self.paid}},
            **about,
        )

    def frame(self, kind: str, message: dict[str, Any], parent: str | None = None) -> None:
        write(type=kind, message=message, parent_tool_use_id=parent, session_id=self.name)

    def event(self, **event: Any) -> None:
        write(type="stream_event", event=event, parent_tool_use_id=None, session_id=self.name)

    def answer(self, *parts: dict[str, Any]) -> None:
        self.messages += 1
        about = {"id": f"msg_{self.messages}", "role": "assistant", "model": "claude-opus-4-8"}
        self.event(type="message_start", message={**about, "content": []})
        for index, part in enumerate(parts):
            for delta in _pieces(part):
                self.event(type="content_block_delta", index=index, delta=delta)
            self.frame("assistant", {**about, "content": [part], "stop_reason": None})
            self.event(type="content_block_stop", index=index)
        self.event(type="message_stop")

    def say(self, text: str) -> None:
        self.answer({"type": "text", "text": text})

    def call(self, tool: str, given: dict[str, Any], before: str = "") -> None:
        use = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": given}
        self.answer(*([{"type": "text", "text": before}] if before else []), use)

    def give(self, content: str, *, is_error: bool = False) -> None:
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, "is_error": is_error}
        self.frame("user", {"role": "user", "content": [result]})

    def may_use(self, tool: str, given: dict[str, Any], *, times: int = 1) -> dict[str, Any]:
        request = {
            "subtype": "can_use_tool",
            "tool_name": tool,
            "input": given,
            "description": "lists the files",
            "permission_suggestions": SUGGESTED,
            "tool_use_id": "toolu_1",
        }
        line = json.dumps({"type": "control_request", "request_id": "ask_1", "request": request})
        sys.stdout.write(f"{line}\n" * times)
        sys.stdout.flush()
        while True:
            message = read()
            if message["type"] == "control_response":
                verdict: dict[str, Any] = message["response"]["response"]
                if verdict.get("interrupt"):
                    self.until_interrupted()
                return verdict
            if message["request"]["subtype"] == "interrupt":
                write(type="control_cancel_request", request_id="ask_1")
                self.control(message)
                self.give("The tool use was rejected.", is_error=True)
                raise Interrupted

    def until_interrupted(self) -> None:
        message = read()
        assert message["request"]["subtype"] == "interrupt"
        self.control(message)
        raise Interrupted

    # --- the words ------------------------------------------------------------------------------------

    def repeat(self, text: str) -> None:
        self.say(f"you said: {text} ")

    def do_recall(self, text: str) -> None:
        self.say(Path(self.name).read_text())

    def do_think(self, text: str) -> None:
        self.answer(
            {"type": "thinking", "thinking": "let me see", "signature": "s"}, {"type": "text", "text": "seen"}
        )

    def do_edit(self, text: str) -> None:
        given = {"file_path": "a.txt", "old_string": "one\ntwo\n", "new_string": "one\n"}
        self.call("Edit", given, "I change a file. ")
        self.give("The file a.txt was changed.")
        self.say("It is changed.")

    def do_run(self, text: str) -> None:
        given = {"command": text, "description": "lists the files"}
        self.call("Bash", given)
        verdict = self.may_use("Bash", given)
        if verdict["behavior"] == "deny":
            self.give(verdict["message"], is_error=True)
            self.say("Then not.")
            return
        assert verdict["updatedInput"] == given
        self.give("a\nb")
        self.say(f"Done with {json.dumps(verdict.get('updatedPermissions'))}.")

    def do_back(self, text: str) -> None:
        """Questions that it takes back of itself: the first before anybody can have seen it."""
        for name in ("ask_1", "ask_2"):
            request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": name}
            write(type="control_request", request_id=name, request=request)
            if name == "ask_1":
                write(type="control_cancel_request", request_id=name)
        self.until_interrupted()

    def do_again(self, text: str) -> None:
        """It asks the same twice, and is answered once."""
        self.call("Bash", {"command": "ls"})
        verdict = self.may_use("Bash", {"command": "ls"}, times=2)
        self.give(verdict["behavior"])
        self.say("Done.")

    def do_inquire(self, text: str) -> None:
        trees = [{"label": "Apple", "description": "red"}, {"label": "Pear", "description": "green"}]
        tools = [{"label": "Spade", "description": ""}, {"label": "Rake", "description": ""}]
        questions = [
            {"question": "Which tree?", "header": "Tree", "options": trees, "multiSelect": False},
            {"question": "Which tools?", "header": "Tools", "options": tools, "multiSelect": True},
        ]
        self.call("AskUserQuestion", {"questions": questions})
        verdict = self.may_use("AskUserQuestion", {"questions": questions})
        if verdict["behavior"] == "deny":
            self.give(verdict["message"], is_error=True)
            self.say("As you like.")
            return
        assert verdict["updatedInput"]["questions"] == questions
        self.give(json.dumps(verdict["updatedInput"]["answers"]))
        self.say("Thank you.")

    def do_both(self, text: str) -> None:
        """Two calls at a time, and a refusal that it calls a success."""
        uses = [
            {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": name}}
            for name in ("toolu_1", "toolu_2")
        ]
        self.answer(*uses)
        self.may_use("Bash", {"command": "toolu_1"})
        for name in ("toolu_2", "toolu_1"):
            result = {"type": "tool_result", "tool_use_id": name, "content": name}
            self.frame("user", {"role": "user", "content": [result]})
        self.say("Both.")

    def do_late(self, text: str) -> None:
        self.say("in time")
        late = {"role": "assistant", "id": "late", "content": [{"type": "text", "text": "too late"}]}
        behind = {"type": "assistant", "message": late, "parent_tool_use_id": None}
        lines = [{"type": "result", "is_error": False}, behind]
        sys.stdout.write("".join(json.dumps(line) + "\n" for line in lines))
        sys.stdout.flush()
        raise Ended

    def do_garbage(self, text: str) -> None:
        sys.stdout.write('no JSON\n{"type": \n[1, 2]\n\x00\n{"type": "assistant", "message": 5}\n')
        write(type="control_request", request_id="ask_1", request={"subtype": "can_use_tool"})
        assert read()["response"]["subtype"] == "error"
        write(type="control_response", response={"request_id": ["?"]})
        self.frame("assistant", {"id": ["?"], "content": [{"type": "tool_use"}, None, {"type": "text"}]})
        self.frame("user", {"content": [{"type": "tool_result", "tool_use_id": "nobody's", "content": 7}]})
        self.say("never mind")
        write(type="result", usage=[], modelUsage=3, total_cost_usd="much", session_id=self.name)
        raise Ended

    def do_wait(self, text: str) -> None:
        self.call("Task", {"description": "wait"}, "waiting")
        self.until_interrupted()

    def do_fail(self, text: str) -> str:
        if self.has_failed:
            self.say("better now")
            return ""
        self.has_failed = True
        self.event(type="message_start", message={"id": "msg_f", "content": []})
        self.event(
            type="content_block_delta", index=0, delta={"type": "text_delta", "text": "half of an ans"}
        )
        whole = [{"type": "text", "text": "API Error: the model is away"}]
        self.frame("assistant", {"id": "other", "model": "<synthetic>", "content": whole})
        return "API Error: the model is away"

    def do_die(self, text: str) -> None:
        self.say("oh")
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(5)

    def do_leave(self, text: str) -> None:
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        self.say(f"{child.pid}")

    def do_children(self, text: str) -> None:
        """What a subagent says is not said to the user."""
        said = {"type": "text", "text": "secret"}
        use = {"type": "tool_use", "id": "toolu_9", "name": "Bash", "input": {"command": "ls"}}
        result = {"type": "tool_result", "tool_use_id": "toolu_9", "content": "a"}
        self.frame("assistant", {"id": "c", "content": [said, use]}, parent="toolu_8")
        self.frame("user", {"role": "user", "content": [result]}, parent="toolu_8")
        self.say("they are quiet")

    def do_flood(self, text: str) -> None:
        for number in range(int(text)):
            delta = {"type": "text_delta", "text": f"{number} "}
            self.event(type="content_block_delta", index=0, delta=delta)


def _pieces(part: dict[str, Any]) -> list[dict[str, Any]]:
    match part:
        case {"type": "text", "text": str(text)}:
            half = len(text) // 2
            return [{"type": "text_delta", "text": piece} for piece in (text[:half], text[half:])]
        case {"type": "thinking", "thinking": str(text)}:
            return [
                {"type": "thinking_delta", "thinking": text},
                {"type": "signature_delta", "signature": "s"},
            ]
    return [{"type": "input_json_delta", "partial_json": json.dumps(part["input"])}]


if __name__ == "__main__":
    given = sys.argv[1:]
    assert set(given) >= WANTED, given
    assert all(given[given.index(name) + 1] == value for name, value in WANTED_PAIRS.items()), given
    name = os.urandom(8).hex()
    if "--resume" in given:
        name = given[given.index("--resume") + 1]
        if not Path(name).exists():
            problem = f"No conversation found with session ID: {name}"
            write(type="result", subtype="error_during_execution", is_error=True, errors=[problem])
            print(problem, file=sys.stderr, flush=True)
            sys.exit(1)
    Session(name).serve()
