"""Every example runs, as a program of its own, and prints what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ostler.testkit.vendors import FakeVendor, call, say, turn
from tests.support.paths import ROOT

CITIES = ("Bergen", "Faro")
EXAMPLES = ROOT / "examples"


def answers_to(request: dict[str, Any]) -> Any:
    """What the fake vendor says to the prompt of each example."""
    messages = request["messages"]
    prompt = next(message["content"] for message in reversed(messages) if message["role"] == "user")
    results = [message["content"] for message in messages if message["role"] == "tool"]
    match prompt:
        case "How many people live in Lisbon?":
            return turn(f"{results[0]} people.") if results else turn(call("population", {"city": "Lisbon"}))
        case "Is it warmer in Oslo or in Faro?":
            calls = [call("temperature", {"city": city}) for city in ("Oslo", "Faro")]
            return turn(say("It is ", "the same.")) if results else turn(*calls)
        case "Pay the rent, and something for the ice cream.":
            rent = call("pay", {"account": "rent", "euros": 1200})
            return (
                turn("Done, in part.") if results else turn(rent, call("pay", {"account": "ice", "euros": 3}))
            )
        case "My name is Ada.":
            return turn("Hello, Ada.")
        case "What is my name?":
            assert messages[1]["content"] == "My name is Ada."
            return turn("You are Ada.")
        case "Write a haiku into haiku.txt":
            haiku = "An old silent pond\nA frog jumps into the pond\nSplash! Silence again 🐸"
            return (
                turn("Saved.")
                if results
                else turn(call("save", {"path": "haiku.txt", "content": haiku}, size=3))
            )
        case "Does it rain more in Bergen or in Faro? Delegate each city.":
            tasks = [call("delegate", {"task": f"How much rain falls in {city}?"}) for city in CITIES]
            return turn("In Bergen, by far.") if results else turn(*tasks)
        case "How much rain falls in Bergen?" | "How much rain falls in Faro?":
            city = prompt.removesuffix("?").split()[-1]
            return turn(results[0]) if results else turn(call("rainfall", {"city": city}))
    raise AssertionError(prompt)


PRINTED = {
    "five_lines.py": "545796 people.\n",
    "stream_events.py": (
        "\n→ temperature {'city': 'Oslo'}\n\n→ temperature {'city': 'Faro'}\n← 12 degrees\n← 12 degrees\n"
        "It is the same.\ncompleted after 2 steps, 30 tokens\n"
    ),
    "guard.py": "Done, in part.\npay: paid 900 euros to rent\npay: only the rent may be paid\n",
    "go_on_later.py": "You are Ada.\n4 messages, 30 tokens in ses_…\n",
    "growing_file.py": (
        "An old silent pond\nA frog jumps into the pond\nSplash! Silence again 🐸\n"
        "saved 69 characters as haiku.txt\n"
    ),
    "children.py": (
        "→ How much rain falls in Bergen?\n→ How much rain falls in Faro?\n"
        "In Bergen, by far.\ncompleted: 2 steps, and 4 in 2 children\n"
    ),
    "supervisor.py": (
        "Sweep the yard. completed\nWatch the gate. paused\nBuy hay. question Where shall I buy hay?\n"
        "Buy hay. completed: I go to the mill.\nWatch the gate. completed: As you say: Come in.\n"
    ),
}


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_prints_what_it_promises(name: str, tmp_path: Path) -> None:
    with FakeVendor(answers_to) as vendor:
        environment = {
            **os.environ,
            "OSTLER_HOME": str(tmp_path),
            "OSTLER_MODEL": "openai/fake",
            "OSTLER_BASE_URL": vendor.chat_url,
            "TMPDIR": str(tmp_path),
        }
        done = subprocess.run(
            [sys.executable, "-W", "error", str(EXAMPLES / name)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == PRINTED[name]
