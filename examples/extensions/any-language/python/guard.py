"""Refuses `rm -rf`, counts refused calls, and adds a tool that counts words."""

from __future__ import annotations

from typing import Any

from ostler_extension import Call, Extension, block

extension = Extension("python-guard", "1.0.0")


@extension.intercept("tool_call")
def guard(event: dict[str, Any]) -> dict[str, Any] | None:
    command = str(event["tool_args"].get("command", ""))
    if "rm -rf" not in command:
        return None
    session = event["session"]
    extension.set("refused", extension.get("refused", 0, session) + 1, session)
    return block("rm -rf is not allowed here: name the files")


@extension.command("refused", "How many calls were refused in this session")
def refused(args: str, session: str) -> str:
    return f"{extension.get('refused', 0, session)} refused"


@extension.tool(
    "word_count",
    "Counts the words of a text.",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    kind="read",
)
def word_count(args: dict[str, Any], call: Call) -> str:
    words = args["text"].split()
    for number, word in enumerate(words, 1):
        if call.cancelled.is_set():
            return "cancelled"
        call.output(f"{number} {word}\n")
    return f"{len(words)} words"


extension.run()
