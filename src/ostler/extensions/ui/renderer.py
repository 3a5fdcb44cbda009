"""Calls render functions of extensions within a time limit, and publishes live values, throttled."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.extensions.executor import ExtensionError, ExtensionTimeout, Worker, call_within
from ostler.extensions.extension import Extension
from ostler.extensions.ui.types import MAX_HZ, RenderFunction, Rendering, as_data
from ostler.schema.errors import UsageError
from ostler.schema.events import LiveValue
from ostler.schema.facts import storage_problem

if TYPE_CHECKING:
    from ostler.extensions.extension_session import ExtensionSession

RENDER_SECONDS = 0.2
"""How long a front end waits for lines before it renders the default."""
MAX_TIMEOUTS = 3
"""A function that timed out this often in a row is not called again: each timeout costs a thread."""
_MAX_WIDTHS = 8


class Renderer:
    """Calls the render functions of one session. They run in their own thread, not in that of the extension's
    handlers: a widget is rendered while a handler works. An exception is reported once."""

    def __init__(self, extension_session: ExtensionSession) -> None:
        self._extension_session = extension_session
        self._functions: dict[str, _Rendered] = {}
        self._numbers = itertools.count(1)
        self._workers: dict[str, Worker] = {}
        self._timeouts: Counter[tuple[str, str]] = Counter()
        self._reported: set[tuple[str, str]] = set()

    def keep(self, name: str, extension: Extension, function: RenderFunction, hz: float) -> Rendering:
        """Adds a function; replaces one of the same name."""
        if not callable(function):
            raise UsageError(f"{name}: render is a function that gets a width, not {function!r:.60}")
        if not isinstance(hz, int | float) or not 0 <= hz <= MAX_HZ:
            raise UsageError(f"{name}: hz is 0, or from 1 to {MAX_HZ:g}, not {hz!r:.60}")
        self.drop(name)
        rendering = Rendering(f"{name}#{next(self._numbers)}", max(1.0, hz) if hz else 0)
        self._functions[rendering.id] = _Rendered(extension, function, rendering.hz)
        return rendering

    def drop(self, name: str) -> None:
        for one in [one for one in self._functions if one.rpartition("#")[0] == name]:
            del self._functions[one]

    async def lines(self, name: str, width: int) -> str | None:
        """The lines of a registered function: empty to hide it, None for the default."""
        rendered = self._functions.get(name)
        if rendered is None:
            return None
        now = self.now()
        if width in rendered.texts:
            text, since = rendered.texts[width]
            if not rendered.hz or now - since < 1 / rendered.hz:
                return text
        text = await self.ask(rendered.extension, name, rendered.function, width)
        if len(rendered.texts) >= _MAX_WIDTHS:
            rendered.texts.clear()
        rendered.texts[width] = text, now
        return text

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def ask(
        self, extension: Extension, what: str, function: Callable[..., Any], *arguments: Any
    ) -> str | None:
        """The text that it returns; None if it returns none, raises or times out."""
        text = await self.guarded(extension, what, function, *arguments)
        if text is None or isinstance(text, str):
            return text
        await self.report(extension, what, f"it returned {text!r:.60}, not a string")
        return None

    async def guarded(
        self, extension: Extension, what: str, function: Callable[..., Any], *arguments: Any
    ) -> Any:
        """What it returns; None if it raises, times out, or timed out too often."""
        key = (extension.name, what)
        if self._timeouts[key] >= MAX_TIMEOUTS:
            return None
        worker = self._workers.setdefault(extension.name, Worker(f"{extension.name}-renderer"))
        try:
            result = await call_within(RENDER_SECONDS, worker, function, *arguments)
        except ExtensionError as failure:
            self._timeouts[key] += isinstance(failure, ExtensionTimeout)
            await self.report(extension, what, str(failure))
            return None
        finally:
            await self._extension_session.commit()
        self._timeouts.pop(key, None)
        return result

    async def report(self, extension: Extension, what: str, problem: str) -> None:
        """Reports a problem once, as the function is called for each frame."""
        if (extension.name, what) not in self._reported:
            self._reported.add((extension.name, what))
            self._extension_session.report(extension, what, problem)
            await self._extension_session.commit()

    def forget(self, extension: Extension) -> None:
        """Removes all functions of an extension, and what was reported of them."""
        functions = self._functions.items()
        self._functions = {name: one for name, one in functions if one.extension is not extension}
        self._reported = {key for key in self._reported if key[0] != extension.name}
        for key in [key for key in self._timeouts if key[0] == extension.name]:
            del self._timeouts[key]
        if worker := self._workers.pop(extension.name, None):
            worker.abandon()


class _Rendered:
    """A function, and its latest texts by width."""

    def __init__(self, extension: Extension, function: RenderFunction, hz: float) -> None:
        self.extension = extension
        self.function = function
        self.hz = hz
        self.texts: dict[int, tuple[str | None, float]] = {}


BEAT_SECONDS = 1 / 60


class LiveValues:
    """Publishes the first change at once, and further ones together after an interval. However fast values
    change, the last one of each name is published. Call everything on the loop."""

    def __init__(self, publish: Callable[[Sequence[LiveValue]], None]) -> None:
        self._publish = publish
        self._values: dict[str, tuple[object, Any]] = {}
        self._published: dict[str, Any] = {}
        self._changed: dict[str, None] = {}
        self._places: dict[str, int] = {}
        self._next_place = 0
        self._beat: asyncio.TimerHandle | None = None

    def place_of(self, name: str) -> int:
        """The position of a value among those of the same priority: a replaced one keeps its position."""
        if name not in self._places:
            self._next_place += 1
            self._places[name] = self._next_place
        return self._places[name]

    def put(self, name: str, value: msgspec.Struct, owner: object) -> None:
        if problem := storage_problem(value):
            raise UsageError(f"{name} cannot be displayed: {problem}")
        self._values[name] = (owner, as_data(value))
        self._note(name)

    def remove(self, name: str) -> None:
        if self._values.pop(name, None) is not None:
            self._places.pop(name, None)
            self._note(name)

    def forget(self, owner: object) -> None:
        """Removes all values of an owner."""
        for name in [name for name, (other, _) in self._values.items() if other is owner]:
            self.remove(name)
        self.flush()

    def values(self) -> dict[str, Any]:
        """The current values, for a front end that has just opened."""
        return {name: value for name, (_, value) in self._values.items()}

    def _note(self, name: str) -> None:
        self._changed.pop(name, None)
        self._changed[name] = None
        if self._beat is None:
            self.flush()
            self._beat = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._tick)

    def _tick(self) -> None:
        self._beat = None
        if self._changed:
            self.flush()
            self._beat = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._tick)

    def flush(self) -> None:
        """Publishes changes now."""
        changed, self._changed = self._changed, {}
        values = []
        for name in changed:
            value = self._values[name][1] if name in self._values else None
            if self._published.get(name) != value:
                values.append(LiveValue(name, value))
                self._published[name] = value
                if value is None:
                    del self._published[name]
        if values:
            self._publish(values)

    def stop(self) -> None:
        self.flush()
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
