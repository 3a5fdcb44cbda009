"""Fake vendors: servers on loopback that speak the vendors' wires and answer from a script.

    async with FakeVendor([turn("Hello ", "world"), turn(call("read", {"path": "a.txt"}))]) as vendor:
        model = make_model("anthropic/claude-x", base_url=vendor.anthropic_url)

For other processes: `python -m ostler.testkit.vendors --wire chat --script FILE.json --port 0`.
"""

from ostler.testkit.vendors.script import (
    Answer,
    Call,
    Cite,
    Refusal,
    Say,
    Script,
    Think,
    Trouble,
    Turn,
    call,
    read_script,
    say,
    turn,
)
from ostler.testkit.vendors.server import FakeVendor, Received

__all__ = [
    "Answer",
    "Call",
    "Cite",
    "FakeVendor",
    "Received",
    "Refusal",
    "Say",
    "Script",
    "Think",
    "Trouble",
    "Turn",
    "call",
    "read_script",
    "say",
    "turn",
]
