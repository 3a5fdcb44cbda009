"""The demo model: a script that drives the real loop with the real tools. It is not a model, and says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ostler.kernel.model import ModelEvent, ModelRequest
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.vocabulary.messages import Message, Text
from ostler.vocabulary.usage import Usage

LABEL = "DEMO (scripted, not a model)"
JOB = "Write a small program that greets the world, run it, and tell me what it printed."

_PROGRAM = '''\
"""Greets the world, a little differently every time it counts."""


def greeting(name: str, times: int) -> list[str]:
    return [f"{number}. Hello, {name}!" for number in range(1, times + 1)]


if __name__ == "__main__":
    print("\\n".join(greeting("world", 3)))
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

_FREE = Usage(input_tokens=0, output_tokens=0, cost=0.0)


class DemoModel:
    """Plays the demo job step by step, as far as the transcript has got."""

    name = "demo/script"

    def __init__(self, pause: float = 0.0) -> None:
        self._pause = pause

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        turn = _turn(list(request.transcript), self._pause)
        async for batch in ScriptedModel([turn], name=self.name).stream(request):
            yield batch

    async def aclose(self) -> None:
        pass


def _turn(messages: list[Message], pause: float) -> Turn:
    last_prompt = max((i for i, message in enumerate(messages) if message.role == "user"), default=-1)
    if last_prompt < 0 or JOB not in messages[last_prompt].text:
        return Turn(text=f"{LABEL}\n\n{_NO_SCRIPT}", usage=_FREE, pause=pause)
    results = [message for message in messages[last_prompt + 1 :] if message.role == "tool"]
    if not results:
        write = Call("write", {"path": "hello.py", "content": _PROGRAM})
        return Turn(
            text=f"{LABEL}: I write the program first.", calls=(write,), usage=_FREE, piece=4, pause=pause
        )
    if _failed(results[-1]):
        text = f"{LABEL}: that call did not go through, so I stop here. Nothing else was changed."
        return Turn(text=text, usage=_FREE, pause=pause)
    if len(results) == 1:
        run = Call("bash", {"command": "python3 hello.py"})
        text = f"{LABEL}: now I run it. That needs your permission."
        return Turn(text=text, calls=(run,), usage=_FREE, piece=4, pause=pause)
    printed = _text(results[-1]).strip()
    text = f"{LABEL}: done. `hello.py` exists, and it printed:\n\n{printed}"
    return Turn(text=text, usage=_FREE, piece=4, pause=pause)


def _failed(message: Message) -> bool:
    return any(getattr(result, "failed", False) for result in message.content)


def _text(message: Message) -> str:
    return "\n".join(
        block.text
        for result in message.content
        for block in getattr(result, "content", ())
        if isinstance(block, Text)
    )
