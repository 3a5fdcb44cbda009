"""The Ostler extension protocol for Python, with the standard library only.

Copy this file beside your extension. The protocol itself is in docs/extension-protocol.md.

    from ostler_extension import Extension, block

    extension = Extension("careful")

    @extension.intercept("tool_call")
    def guard(event):
        if event["tool_name"] == "bash":
            return block("no commands today")

    extension.run()

Events, intercepts and keys are handled in order, one at a time; each tool call and each command has a thread
of its own. Output of `print` goes to the log, not into the protocol.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

Frame = dict[str, Any]
Function = Callable[..., Any]


def block(reason: str = "") -> Frame:
    """The answer of an intercept: refuse."""
    return {"block": True, "reason": reason}


def rewrite(arguments: Frame) -> Frame:
    """The answer to `tool_call`: run it with these arguments."""
    return {"modified_args": arguments}


def replace(text: str) -> Frame:
    """The answer to `assistant_message`: show this text."""
    return {"replace_text": text}


def prompt(text: str) -> Frame:
    """The answer of a command: send this prompt."""
    return {"action": "prompt", "prompt": text}


def insert(text: str) -> Frame:
    """The answer of a command: insert this text into the editor."""
    return {"action": "insert", "insert": text}


def panel(panel_id: str, title: str, lines: list[str], footer: str = "") -> Frame:
    """The answer of a command: open a panel."""
    content = {"id": panel_id, "title": title, "lines": lines, "footer": footer}
    return {"action": "open_panel", "open_panel": content}


class Call:
    """A running tool call."""

    def __init__(self, extension: Extension, frame: Frame) -> None:
        self._extension = extension
        self._id = frame["id"]
        self.session: str = frame["session"]
        self.call: str = frame["call"]
        self.cancelled = threading.Event()
        """Set when the call is cancelled."""

    def output(self, text: str, stream: str = "out") -> None:
        """Streams output of the tool."""
        self._extension.send({"type": "tool_output", "id": self._id, "text": text, "stream": stream})


class Extension:
    def __init__(self, name: str, version: str = "") -> None:
        self.name = name
        self.version = version
        self.host: Frame = {}
        """The `hello_ack` frame."""
        self._registered: list[Frame] = []
        self._tools: dict[str, Function] = {}
        self._commands: dict[str, Function] = {}
        self._intercepts: dict[str, Function] = {}
        self._observers: dict[str, list[Function]] = {}
        self._on_key: Function = lambda frame: None
        self._calls: dict[str, Call] = {}
        self._answers: dict[str, queue.Queue[Frame]] = {}
        self._last_id = 0
        self._lock = threading.RLock()
        self._ordered: queue.Queue[Callable[[], None]] = queue.Queue()
        self._output: Any = None

    # --- registrations -----------------------------------------------------------------------------

    def tool(
        self, name: str, description: str, schema: Frame, **options: Any
    ) -> Callable[[Function], Function]:
        """Decorates `def f(args, call)`, which returns a text or a list of blocks. The model gets its
        exceptions."""
        frame = {
            "type": "register_tool",
            "name": name,
            "description": description,
            "schema": schema,
            **options,
        }
        return self._registering(self._tools, name, frame)

    def command(self, name: str, description: str = "") -> Callable[[Function], Function]:
        """Decorates `def f(args, session)`, which returns a text, `prompt(…)`, `insert(…)` or `panel(…)`."""
        frame = {"type": "register_command", "name": name, "description": description}
        return self._registering(self._commands, name, frame)

    def intercept(self, event: str, *, guard: bool = True) -> Callable[[Function], Function]:
        """Decorates `def f(event)`, which returns None, `block(…)`, `rewrite(…)` or `replace(…)`."""
        frame = {"type": "subscribe", "intercept": [event], "guard": guard}
        return self._registering(self._intercepts, event, frame)

    def on(self, *events: str) -> Callable[[Function], Function]:
        """Decorates `def f(event)`."""

        def register(function: Function) -> Function:
            for event in events:
                self._observers.setdefault(event, []).append(function)
            self._register({"type": "subscribe", "events": list(events)})
            return function

        return register

    def on_key(self, function: Function) -> Function:
        """Decorates `def f(frame)`, which gets `panel_key`, `panel_resize` and `panel_close`."""
        self._on_key = function
        return function

    def _registering(
        self, where: dict[str, Function], name: str, frame: Frame
    ) -> Callable[[Function], Function]:
        def register(function: Function) -> Function:
            where[name] = function
            self._register(frame)
            return function

        return register

    def _register(self, frame: Frame) -> None:
        if self._output is None:
            self._registered.append(frame)
        else:
            self.send(frame)

    # --- messages -------------------------------------------------------------------------------

    def notify(self, message: str, level: str = "info", session: str = "") -> None:
        self.send({"type": "notify", "message": message, "level": level, "session": session})

    def log(self, message: str, level: str = "info") -> None:
        self.send({"type": "log", "message": message, "level": level})

    def render_panel(self, panel_id: str, lines: list[str], title: str = "", footer: str = "") -> None:
        self.send(
            {"type": "panel_render", "panel_id": panel_id, "title": title, "lines": lines, "footer": footer}
        )

    def close_panel(self, panel_id: str) -> None:
        self.send({"type": "panel_close", "panel_id": panel_id})

    # --- state of a session ----------------------------------------------------------------

    def get(self, key: str, default: Any = None, session: str = "") -> Any:
        value = self._ask({"type": "state_get", "key": key, "session": session}).get("value")
        return default if value is None else value

    def set(self, key: str, value: Any, session: str = "") -> None:
        """Returns when the value is stored."""
        self._ask({"type": "state_set", "key": key, "value": value, "session": session})

    def delete(self, key: str, session: str = "") -> None:
        self._ask({"type": "state_delete", "key": key, "session": session})

    def keys(self, session: str = "") -> list[str]:
        keys: list[str] = self._ask({"type": "state_list", "session": session})["keys"]
        return keys

    def _ask(self, frame: Frame) -> Frame:
        answer: queue.Queue[Frame] = queue.Queue()
        with self._lock:
            self._last_id += 1
            frame["id"] = f"{self.name}-{self._last_id}"
            self._answers[frame["id"]] = answer
        self.send(frame)
        result = answer.get()
        if error := result.get("error"):
            raise RuntimeError(error)
        return result

    # --- the protocol -------------------------------------------------------------------------------

    def send(self, frame: Frame) -> None:
        """Writes one line; it may be called from any thread."""
        line = json.dumps(frame, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with self._lock:
            try:
                self._output.write(line)
                self._output.flush()
            except (BrokenPipeError, ValueError):
                os._exit(0)

    def run(self) -> None:
        """Runs until Ostler sends `shutdown` or ends."""
        self._output = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)  # printed text must not mix with the frames
        self.send({"type": "hello", "name": self.name, "version": self.version, "capabilities": ["ready"]})
        for frame in self._registered:
            self.send(frame)
        self.send({"type": "ready"})
        threading.Thread(target=self._work, daemon=True).start()
        for line in sys.stdin.buffer:
            frame = json.loads(line)
            if frame["type"] == "shutdown":
                self.send({"type": "shutdown_ack"})
                break
            self._take(frame)
        os._exit(0)  # do not wait for running threads

    def _take(self, frame: Frame) -> None:
        match frame["type"]:
            case "hello_ack":
                self.host = frame
            case "tool_call":
                self._calls[frame["id"]] = call = Call(self, frame)
                threading.Thread(target=self._run_tool, args=(frame, call), daemon=True).start()
            case "tool_cancel":
                if call := self._calls.get(frame["id"]):
                    call.cancelled.set()
            case "command_invoked":
                threading.Thread(target=self._run_command, args=(frame,), daemon=True).start()
            case "event":
                self._ordered.put(lambda: self._observe(frame))
            case "event_intercept":
                self._ordered.put(lambda: self._intercept(frame))
            case "panel_key" | "panel_resize" | "panel_close":
                self._ordered.put(lambda: self._on_key(frame))
            case "state_result":
                if answer := self._answers.pop(frame["id"], None):
                    answer.put(frame)
            case "gap" | "problem":
                print(frame, file=sys.stderr, flush=True)

    def _work(self) -> None:
        while True:
            handle = self._ordered.get()
            try:
                handle()
            except Exception:
                traceback.print_exc()

    def _observe(self, frame: Frame) -> None:
        for function in self._observers.get(frame["event"], ()):
            function(frame)

    def _intercept(self, frame: Frame) -> None:
        try:
            answer = self._intercepts[frame["event"]](frame) or {}
        except Exception as error:
            traceback.print_exc()
            answer = block(f"the guard failed: {type(error).__name__}: {error}")
        self.send({"type": "event_intercept_response", "id": frame["id"], **answer})

    def _run_tool(self, frame: Frame, call: Call) -> None:
        failed = False
        try:
            content = self._tools[frame["name"]](frame["args"], call)
        except Exception as error:
            traceback.print_exc()
            content, failed = f"{type(error).__name__}: {error}", True
        blocks = content if isinstance(content, list) else [{"type": "text", "text": str(content)}]
        self.send({"type": "tool_result", "id": frame["id"], "content": blocks, "is_error": failed})
        self._calls.pop(frame["id"], None)

    def _run_command(self, frame: Frame) -> None:
        try:
            answer = self._commands[frame["name"]](frame["args"], frame["session"])
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        if not isinstance(answer, dict):
            answer = {"action": "noop"} if answer is None else {"action": "display", "display": str(answer)}
        self.send({"type": "command_response", "id": frame["id"], **answer})
