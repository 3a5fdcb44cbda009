"""How a class becomes a tool: its fields are the parameters, its method `run` is what it does."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Self

import msgspec

from ostler.kernel.arguments import checked
from ostler.kernel.parameters import schema_of
from ostler.kernel.tool import ToolContext, ToolOptions, ToolSpec, as_outcome
from ostler.vocabulary.outcomes import Failed, Ok, Outcome


class _Declared(msgspec.StructMeta):
    """Takes a tool's options out of the class's keywords; msgspec refuses what it does not know."""

    def __new__(
        cls, class_name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **keywords: Any
    ) -> Any:
        of_struct = {word: value for word, value in keywords.items() if word not in _OPTIONS}
        return super().__new__(cls, class_name, bases, namespace, **of_struct)

    def __init__(
        cls, class_name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **keywords: Any
    ) -> None:
        super().__init__(class_name, bases, namespace)
        options: Any = {word: value for word, value in keywords.items() if word in _OPTIONS}
        if bases != (msgspec.Struct,):
            _declare(cls, _inherited(bases) | options)


_OPTIONS = ToolOptions.__annotations__
_TAKEN = ("spec", "validate", "run", "summarise")


class ToolClass(msgspec.Struct, metaclass=_Declared):
    """A class that is a tool. Options are class keywords, those of `tool`.

    class Weather(ToolClass, kind="read"):
        "The weather in a city."

        city: str
        days: Annotated[int, Meta(ge=1, le=7)] = 1

        async def run(self, context: ToolContext) -> str:
            return f"sunny in {self.city} for {self.days} days"

    - The class is what an agent is given, `tools=[Weather]`; each call makes an instance.
    - The docstring is read as that of a function is. `__post_init__` may raise `ValueError`: the arguments
      do not fit, and the model is told why.
    """

    spec: ClassVar[ToolSpec]

    @classmethod
    def validate(cls, arguments: dict[str, Any]) -> Self:
        return checked(arguments, cls, cls.spec.name)

    async def run(self, context: ToolContext) -> Any:
        raise NotImplementedError

    def summarise(self, outcome: Ok | Failed) -> str:
        """What people are told of an outcome without a summary; when empty, the runtime says something."""
        return ""


def _inherited(bases: tuple[type, ...]) -> Any:
    """The options of the tool that a tool is derived from; not what it is called."""
    specs = [vars(base)["spec"] for base in bases if "spec" in vars(base)]
    words = _OPTIONS.keys() - {"name", "description"}
    return {word: getattr(specs[0], word) for word in words} if specs else {}


def _declare(declared: Any, options: ToolOptions) -> None:
    taken = [name for name in declared.__struct_fields__ if name in _TAKEN]
    if taken:
        raise TypeError(
            f"{declared.__name__}: the tool itself has {taken[0]!r}; call the field something else, "
            f"with msgspec.field(name={taken[0]!r})"
        )
    if not inspect.iscoroutinefunction(declared.run):
        raise TypeError(f"{declared.__name__}.run must be async: async def run(self, context)")
    schema = schema_of(declared)
    about = schema.pop("description", "")
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", declared.__name__).lower()
    declared.spec = ToolSpec(schema=schema, **({"name": name, "description": about} | options))
    if "run" in vars(declared):
        declared.run = _summarised(declared.run)


def _summarised(run: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Outcome]]:
    @functools.wraps(run)
    async def summarised(self: ToolClass, context: ToolContext) -> Outcome:
        outcome = as_outcome(await run(self, context))
        if not isinstance(outcome, Ok | Failed) or outcome.summary:
            return outcome
        try:
            summary = str(self.summarise(outcome))
        except Exception as error:  # what the call did is done: it must not be told as failed
            summary = f"no summary: {type(error).__name__}: {error}"
        return msgspec.structs.replace(outcome, summary=summary)

    return summarised
