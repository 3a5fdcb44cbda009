"""The demo model: a script that drives the real loop with the real tools. It is not a model, and says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ostler.kernel.model import ModelEvent, ModelRequest
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.vocabulary.messages import Message, Text
from ostler.vocabulary.usage import Usage

LABEL = "DEMO (scripted, not a model)"
JOB = "Write a small program that greets the world, run it, and tell me what it printed."

RUNS = "runs.log"
QUICK_RUN = "python3 hello.py"
SLOW_RUN = "python3 hello.py --slowly"

_PROGRAM = f'''\
"""Greets the world, and writes down each time that it is run."""

import sys
import time

with open("{RUNS}", "a") as log:
    print("python3", *sys.argv, file=log)

if "--slowly" in sys.argv:
    time.sleep(60)
print("Hello, world!")
'''

WAYS = (
    "give a vendor's key: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or say `ostler key set anthropic`",
    "start a local server such as Ollama: it is found by itself, or named with --model ollama/NAME",
    "name any OpenAI-compatible server: --model openai/NAME --base-url http://HOST:PORT/v1",
)
"""How to connect a model."""

_NO_SCRIPT = "\n".join(
    (
        "I am only a script and cannot answer that. To connect a model:",
        "",
        *(f"{number}. {way[0].upper()}{way[1:]}." for number, way in enumerate(WAYS, 1)),
        "",
        "What I can show is `ostler demo`; what was looked for on this machine is in `ostler doctor`.",
    )
)

_INTERRUPTED = "The process ended while this call ran"
"""As the result says it of a call that was under way when its process died."""
_FREE = Usage(input_tokens=0, output_tokens=0, cost=0.0)


class DemoModel:
    """Plays the demo job step by step, as far as the transcript has got. If it `is_slow`, it also runs a
    command that takes a minute: there is time to kill it."""

    name = "demo/script"

    def __init__(self, pause: float = 0.0, *, is_slow: bool = False) -> None:
        self._pause = pause
        self._is_slow = is_slow

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        turn = _turn(list(request.transcript), self._is_slow, self._pause)
        async for batch in ScriptedModel([turn], name=self.name).stream(request):
            yield batch

    async def aclose(self) -> None:
        pass


def _turn(messages: list[Message], is_slow: bool, pause: float) -> Turn:
    last_prompt = max((i for i, message in enumerate(messages) if message.role == "user"), default=-1)
    if last_prompt < 0 or JOB not in messages[last_prompt].text:
        return Turn(text=f"{LABEL}\n\n{_NO_SCRIPT}", usage=_FREE, pause=pause)
    results = [message for message in messages[last_prompt + 1 :] if message.role == "tool"]
    text, call = _step(results, is_slow)
    calls = (call,) if call else ()
    return Turn(text=f"{LABEL}: {text}", calls=calls, usage=_FREE, piece=4, pause=pause)


def _step(results: list[Message], is_slow: bool) -> tuple[str, Call | None]:
    """What comes after so many results: what is said, and what is called."""
    if not results:
        write = Call("write", {"path": "hello.py", "content": _PROGRAM})
        return "I write the program first.", write
    if _INTERRUPTED in _text(results[-1]):
        text = "the slow run was interrupted. I do not just start it again: I look at what it left."
        return text, Call("bash", {"command": f"cat {RUNS}"})
    if _failed(results[-1]):
        return "that call did not go through, so I stop here. Nothing else was changed.", None
    if len(results) == 1:
        return "now I run it. That needs your permission.", Call("bash", {"command": QUICK_RUN})
    if len(results) == 2 and is_slow:
        return "it works. Now slowly, which takes a minute.", Call("bash", {"command": SLOW_RUN})
    text = f"done. `hello.py` exists, and it printed: {_text(results[1]).strip()}"
    if any(_INTERRUPTED in _text(result) for result in results):
        text += "\nIts slow run was interrupted. If you still want it, I start it again."
    return text, None


def _failed(message: Message) -> bool:
    return any(getattr(result, "failed", False) for result in message.content)


def _text(message: Message) -> str:
    return "\n".join(
        block.text
        for result in message.content
        for block in getattr(result, "content", ())
        if isinstance(block, Text)
    )
