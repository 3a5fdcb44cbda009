"""Transcripts that the tests of all wires send."""

from __future__ import annotations

from ostler.schema.messages import (
    File,
    Image,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    user,
)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CALLS = Message(
    "assistant",
    (
        Text("Looking."),
        ToolCall("call_a", "read", '{"path":"a"}'),
        ToolCall("call_b", "read", '{"path":"b"}'),
    ),
)
RESULTS = Message(
    "tool",
    (
        ToolResult("call_a", "read", (Text("alpha"),)),
        ToolResult("call_b", "read", (Text("no b"),), failed=True),
    ),
)
AWKWARD = {
    "broken arguments": [
        user("Hi"),
        Message("assistant", (ToolCall("c1", "read", '{"path": "a'), ToolCall("c2", "read", "[1]"))),
        Message("tool", (ToolResult("c1", "read", failed=True), ToolResult("c2", "read"))),
    ],
    "a name no vendor takes": [
        user("Hi"),
        Message("assistant", (ToolCall("c1", "functions.read file", "{}"), ToolCall("c2", "", "{}"))),
        Message("tool", (ToolResult("c1", "x", failed=True), ToolResult("c2", "x", failed=True))),
    ],
    "ids of another vendor": [
        user("Hi"),
        Message("assistant", (ToolCall("functions.read:0", "read", "{}"), ToolCall("x" * 90, "read", "{}"))),
        Message("tool", (ToolResult("functions.read:0", "read"), ToolResult("x" * 90, "read"))),
    ],
    "reasoning alone": [user("Hi"), Message("assistant", (Reasoning("Hm."),)), user("And?")],
    "an empty answer": [user("Hi"), Message("assistant", ()), user("And?")],
    "thinking that was cut": [
        user("Hi"),
        Message(
            "assistant", (Reasoning("Hm.", Opaque("anthropic", {"type": "thinking", "signature": "s"})),)
        ),
        user("And?"),
    ],
    "blank text": [
        user(Text(""), Text(" \n"), Text("Hi")),
        Message("assistant", (Text("\n"), Text("Yes"))),
        user("Go on"),
    ],
    "pictures": [
        user("Look", Image("image/png", PIXEL), Image("image/jpeg", url="https://example.org/a.jpg"))
    ],
    "a picture no vendor takes": [user("Look", Image("image/svg+xml", "PHN2Zy8+"))],
    "documents": [
        user(
            "Read",
            File("application/pdf", "a.pdf", "JVBERi0="),
            File("text/plain", "a.txt", "aGVsbG8="),
            File("application/zip", "a.zip", "UEsDBA=="),
        )
    ],
    "a picture from a tool": [
        user("Hi"),
        Message("assistant", (ToolCall("c1", "read", "{}"), ToolCall("c2", "read", "{}"))),
        Message(
            "tool",
            (ToolResult("c1", "read", (Image("image/png", PIXEL),)), ToolResult("c2", "read", (Text("b"),))),
        ),
        user("steered"),
    ],
    "pictures and documents from a tool that failed": [
        user("Hi"),
        Message("assistant", (ToolCall("c1", "shoot", "{}"), ToolCall("c2", "shoot", "{}"))),
        Message(
            "tool",
            (
                ToolResult("c1", "shoot", (Text("no"), Image("image/png", PIXEL)), failed=True),
                ToolResult("c2", "shoot", (File("application/pdf", "a.pdf", "JVBERi0="),), failed=True),
            ),
        ),
    ],
    "a steered step": [user("Hi"), CALLS, RESULTS, user("Stop that."), user("Do this.")],
}
