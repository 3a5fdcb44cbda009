"""The SDK: an agent in a Python program."""
# MERGED: What an agent of the SDK has opened, and how it is closed.

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import msgspec

from ostler.app.default_model import resolve_model
from ostler.app.settings import Settings, load_settings
from ostler.context.instructions import system_prompt
from ostler.context.session_context import NO_RULES, SessionContext
from ostler.core.harness import Harness, Span, Tag
from ostler.core.hooks import Hook, Hooks
from ostler.core.model import Model, ReasoningLevel
from ostler.core.questions import Asker
from ostler.core.store import Store
from ostler.core.tool import Tool, schema_of
from ostler.extensions.loader.extension_loader import EmbeddedExtension, EmbeddedExtensions
from ostler.models.factory import MakeModel, ModelFactory
from ostler.permissions.guard import permission_hook, remember_answer
from ostler.permissions.rules import PROFILES, Profile
from ostler.schema.errors import Failure, InvalidAnswer, UsageError
from ostler.schema.events import (
    AssistantMessage,
    Event,
    Limits,
    QuestionAsked,
    RunEnded,
    RunStatus,
    RunWaiting,
)
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.messages import Message, PlainBlock, as_content, text_of
from ostler.schema.requests import Pause, Steer
from ostler.schema.usage import NOTHING_USED, Usage
from ostler.sessions.run_tree import open_questions
from ostler.sessions.session import Session, create_session, open_session
from ostler.sessions.submit import answer_question

if TYPE_CHECKING:
    from ostler.context.policy import Rules
    from ostler.context.providers import ContextProvider, Rule
    from ostler.core.context import Tokenizer
    from ostler.store.sqlite import SqliteStore


class AgentResources:
    """What an agent has opened. Apart from the agent, so that it can be closed when the agent is gone."""

    def __init__(self) -> None:
        self.models: list[Model] = []
        self.store: SqliteStore | None = None
        self.session: Session | None = None
        self._runner: asyncio.Runner | None = None

    def keeping(self, make: MakeModel) -> MakeModel:
        """Makes models that are closed with the rest."""

        @wraps(make, assigned=(), updated=())
        def make_and_keep(name: str) -> Model:
            self.models.append(make(name))
            return self.models[-1]

        return make_and_keep

    def runner(self) -> asyncio.Runner:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner

    async def close(self) -> None:
        if self.session is not None:
            await self.session.close()
            self.session = None
        await self.close_store()
        for model in self.models:
            await model.aclose()

    async def close_store(self) -> None:
        store, self.store = self.store, None
        if store is not None:
            from ostler.app.stores import SHARED_STORES

            await SHARED_STORES.give_back(store)

    def close_at_last(self) -> None:
        """For agents that were used without an event loop: nobody else will close for them."""
        if self._runner is None:
            return
        if asyncio._get_running_loop() is None:
            self._close_in_own_loop(self._runner)
            return
        # The agent became garbage where another event loop is running. Not at the end of the program: Python
        # 3.12 starts no thread then.
        closing = threading.Thread(target=self._close_in_own_loop, args=(self._runner,))
        closing.start()
        closing.join()

    def _close_in_own_loop(self, runner: asyncio.Runner) -> None:
        runner.run(self.close())
        try:
            runner.close()
        except RuntimeError as error:
            # Nor does it start the thread with which asyncio ends others. They have ended by then.
            if "interpreter shutdown" not in str(error):
                raise


Returned = TypeVar("Returned")

Decoded = TypeVar("Decoded")

Prompt = str | Sequence[str | PlainBlock]


class Result(msgspec.Struct, frozen=True):
    """What came of a run. A run that failed is a result too: look at `status`, or call `check`."""

    text: str
    """The last answer."""
    status: RunStatus | None
    """None while the run waits for a person."""
    reason: str
    usage: Usage
    steps: int
    session: str
    failure: Failure | None = None
    questions: tuple[QuestionAsked, ...] = ()
    """What a waiting run and its children want to know; see `Agent.answer`."""

    def decoded(self, kind: type[Decoded]) -> Decoded:
        """The answer's text as a value of that type, for an agent that was told what to answer with."""
        try:
            return msgspec.json.decode(self.text, type=kind)
        except msgspec.DecodeError as error:
            raise InvalidAnswer(f"the answer is not what was asked for ({error}); ask again") from None

    def check(self) -> Result:
        """This result, if the run completed; else an exception that says why it did not."""
        if self.status == "completed":
            return self
        from ostler.schema.errors import ERRORS, OstlerError

        error = ERRORS.get(self.failure.kind, OstlerError) if self.failure else OstlerError
        raise error(f"the run {self.status or 'waits'}: {self.reason}")


class Agent:
    """A model with tools, and the conversation they have had.

    ```python
    from ostler import Agent, tool

    @tool
    def add(a: int, b: int) -> int:
        "Adds two numbers."
        return a + b

    agent = Agent("anthropic/claude-sonnet-5-5", tools=[add])
    print(agent.run_sync("What is 17 + 25?").text)
    ```

    Without a model's name, it is the one that the user configured (`OSTLER_MODEL`, the configuration
    files), or else what `ostler doctor` finds: a vendor whose key is known, a server on this machine.

    The conversation lives in memory, or in `store`: a path to a database file that also other
    processes can open. With `session` an agent goes on where that session stopped.

    `context` has the rules of what is told of a long conversation, as in `[context.…]` of a configuration
    file, and those given to `run` hold over them for one run; `fences` bring context of your own,
    `reminders` are said at the end of a request.

    `extensions` are paths of extensions, or functions as their `setup` is; functions come first.

    `limits` hold over a run and all of its children. `services` are handed to the tools, `tags` and
    `trace` say in the log what a run belongs to, and `span` wraps its work for telemetry.
    """

    def __init__(
        self,
        model: str | Model = "",
        *,
        tools: Iterable[Tool] = (),
        system: str | None = None,
        base_url: str = "",
        api_key: str = "",
        store: Store | Path | str | None = None,
        session: str = "",
        cwd: Path | str = ".",
        permissions: Profile = "full",
        max_steps: int | None = None,
        limits: Limits | None = None,
        reasoning: ReasoningLevel | None = None,
        fallback: Iterable[str | Model] = (),
        answer: type[msgspec.Struct] | dict[str, Any] | None = None,
        hooks: Iterable[Hook] = (),
        extensions: Iterable[EmbeddedExtension] = (),
        ask: Asker | None = None,
        waits_for_answers: bool = False,
        services: dict[str, Any] | None = None,
        tags: dict[str, Tag] | None = None,
        trace: str = "",
        span: Span | None = None,
        context: Rules | None = None,
        fences: Iterable[ContextProvider] = (),
        reminders: dict[str, Rule] | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        cwd = Path(cwd).resolve()
        _check_options(cwd, permissions, reasoning, max_steps)
        limits = limits or Limits()
        self._open_things = AgentResources()
        weakref.finalize(self, self._open_things.close_at_last)
        named = model if isinstance(model, str) else ""
        settings = _model_settings(named, base_url, api_key, cwd)
        if isinstance(model, str):
            settings = resolve_model(settings)
        make = self._open_things.keeping(ModelFactory(settings))
        self._harness = Harness(
            model=make(settings.model) if isinstance(model, str) else model,
            fallbacks=(fallback,) if isinstance(fallback, str) else tuple(fallback),
            make_model=make,
            answer_schema=_answer_schema(answer),
            system=system_prompt(cwd, date.today()) if system is None else system,
            hooks=Hooks(tuple(hooks)),
            permission_hook=permission_hook(permissions, cwd),
            remember=remember_answer,
            permission_profile=permissions,
            limits=msgspec.structs.replace(limits, steps=max_steps) if max_steps is not None else limits,
            reasoning=reasoning,
            cwd=cwd,
            asker=ask,
            waits_for_answers=waits_for_answers,
            services=services or {},
            tags=tags or {},
            trace=trace,
            span=span,
        )
        self._harness.set_tools(tools)
        self._context = SessionContext(
            settings.context,
            limits_of=ModelFactory(settings).limits,
            agent=context or NO_RULES,
            fences=tuple(fences),
            reminders=reminders or {},
            tokenizer=tokenizer,
        )
        self._use_context(self._context)
        self._extensions = EmbeddedExtensions(extensions)
        self._store = store
        self._session_id = session
        self._observers: list[Callable[[Sequence[Fact | Event]], None]] = []
        self._messages: tuple[Message, ...] | None = None
        self._seed: Usage | None = None

    # --- running ------------------------------------------------------------------------------------

    async def run(self, prompt: Prompt, *, context: Rules | None = None) -> Result:
        """Runs a prompt to its end. `context` has rules that hold for this run and its children."""
        session = await self._begun(context)
        with self._answer_shown() as shown:
            return await self._result(await session.prompt(as_content(prompt)), shown)

    def run_sync(self, prompt: Prompt, *, context: Rules | None = None) -> Result:
        """`run`, for programs without an event loop."""
        return self._in_own_loop(self.run(prompt, context=context))

    async def continue_(self, *, context: Rules | None = None) -> Result:
        """Runs on with the messages as they are, without a new one."""
        session = await self._begun(context)
        with self._answer_shown() as shown:
            return await self._result(await session.continue_(), shown)

    async def resume(self) -> Result | None:
        """Drives a run on that was paused or that its process did not finish; None when there is none."""
        session = await self.open()
        waiting = session.state.run.waiting if session.state.run else None
        with self._answer_shown() as shown:
            is_paused = waiting is not None and waiting.reason == "paused"
            quiet = await (session.resume() if is_paused else session.advance())
        return None if quiet is None else await self._result(quiet, shown)

    def continue_sync(self, *, context: Rules | None = None) -> Result:
        return self._in_own_loop(self.continue_(context=context))

    async def answer(self, answer: Any = None, *, question: str = "", declined: bool = False) -> Result:
        """Answers what a waiting run or a child of it asked (the only question, or the one named), and runs
        it on."""
        session = await self.open()
        asked = {one.asked.id: one for one in await open_questions(session.journal.store, session.state)}
        one = asked.get(question) if question or len(asked) != 1 else next(iter(asked.values()))
        if one is None:
            raise UsageError(f"name the question to answer; open are: {', '.join(asked) or 'none'}")
        with self._answer_shown() as shown:
            quiet = await answer_question(session, one, answer, declined=declined)
        if quiet is None:
            raise UsageError("no run waits for an answer")
        return await self._result(quiet, shown)

    async def stream(self, prompt: Prompt, *, context: Rules | None = None) -> AsyncIterator[Event]:
        """Runs a prompt and yields its events as they happen. Leaving the loop early cancels the run."""
        session = await self._begun(context)
        batches: asyncio.Queue[Sequence[Fact | Event] | None] = asyncio.Queue()
        stop = session.subscribe(batches.put_nowait)
        running = asyncio.ensure_future(session.prompt(as_content(prompt)))
        running.add_done_callback(lambda _: batches.put_nowait(None))
        try:
            while (batch := await batches.get()) is not None:
                for item in batch:
                    event = item.event if isinstance(item, Fact) else item
                    if not isinstance(event, UnknownEvent):
                        yield event
            await running
        finally:
            stop()
            if not running.done():
                session.cancel("nobody reads its events any more")
                await asyncio.wait({running})

    async def steer(self, text: Prompt) -> None:
        """Says something to the model while it works; it is told between two steps."""
        session = await self.open()
        if not session.is_running:
            raise UsageError("no run is under way: run a prompt instead")
        request = Steer(id=session.journal.world.new_id("req"), content=as_content(text))
        await session.journal.store.submit(session.id, request)

    async def pause(self) -> None:
        """Lets the run under way rest before its next step; `resume` drives it on."""
        session = await self.open()
        await session.journal.store.submit(session.id, Pause(id=session.journal.world.new_id("req")))

    def cancel(self, reason: str = "cancelled") -> None:
        """Ends the run under way, if there is one."""
        if self._session is not None and self._session.is_running:
            self._session.cancel(reason)

    def subscribe(self, observer: Callable[[Sequence[Fact | Event]], None]) -> None:
        """Shows every committed fact and every delta to `observer`, in batches."""
        self._observers.append(observer)
        if self._session is not None:
            self._session.subscribe(observer)

    # --- the conversation ---------------------------------------------------------------------------

    @property
    def session(self) -> str:
        """The id of the session; empty before the first run."""
        return self._session.id if self._session else self._session_id

    @property
    def messages(self) -> list[Message]:
        """What the model has been told."""
        if self._messages is not None:
            return list(self._messages)
        return list(self._session.state.transcript) if self._session else []

    @messages.setter
    def messages(self, messages: Iterable[Message]) -> None:
        """Replaces what the model is told from the next run on. The log keeps what was before."""
        self._messages = tuple(messages)

    @property
    def usage(self) -> Usage:
        """Of the whole session, in tokens and, where it is known, in dollars."""
        if self._seed is not None:
            return self._seed
        return self._session.state.usage if self._session else NOTHING_USED

    def seed_usage(self, usage: Usage) -> None:
        """Lets the count begin here, when a conversation moves in from elsewhere."""
        self._seed = usage

    @property
    def tools(self) -> list[Tool]:
        return list(self._harness.tools.values())

    @tools.setter
    def tools(self, tools: Iterable[Tool]) -> None:
        self._harness.set_tools(tools)
        self._context.equip(self._harness)
        self._extensions.apply()

    @property
    def model(self) -> Model:
        return self._harness.model

    @model.setter
    def model(self, model: str | Model) -> None:
        """Another model, from the next step on: the conversation is carried over."""
        if isinstance(model, str):
            self._harness.set_model(model)
        else:
            self._harness.model = model

    @property
    def hooks(self) -> Hooks:
        return self._harness.hooks

    @property
    def _session(self) -> Session | None:
        return self._open_things.session

    # --- opening and closing ------------------------------------------------------------------------

    async def close(self) -> None:
        """Gives the session back, and closes what the agent opened itself: the store, the connections."""
        self._session_id = self.session
        await self._open_things.close()

    async def __aenter__(self) -> Agent:
        if self._session_id:
            await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> Session:
        """Opens the session, or makes one. The first run does it; before, a session's messages are not
        known. `async with` does it for an agent that was given a session."""
        session = self._session
        if session is None:
            await self._extensions.equip(self._harness)
            store = self._open_store()
            try:
                if self._session_id:
                    session = await open_session(store, self._session_id, self._harness)
                else:
                    session = await create_session(store, self._harness)
            except BaseException:  # the agent has nothing to close then: nobody would give the store back
                await self._open_things.close_store()
                raise
            self._open_things.session = session
            for observer in self._observers:
                session.subscribe(observer)
        if self._messages is not None or self._seed is not None:
            messages = self._messages if self._messages is not None else tuple(session.state.transcript)
            await session.replace_history(messages, self._seed)
            self._messages = self._seed = None
        return session

    async def _begun(self, rules: Rules | None) -> Session:
        """The session, with the rules of the run that is about to begin: they hold until the next one."""
        session = await self.open()
        if not session.is_running and not (session.state.run and session.state.run.waiting):
            self._use_context(self._context.for_run(rules or NO_RULES))
        return session

    def _use_context(self, context: SessionContext) -> None:
        self._context = self._harness.context = context
        context.equip(self._harness)

    def _open_store(self) -> Store:
        if isinstance(self._store, Path | str):
            from ostler.app.stores import SHARED_STORES

            self._open_things.store = SHARED_STORES.borrow(Path(self._store))
            return self._open_things.store
        if self._store is None:
            from ostler.store.memory import MemoryStore

            self._store = MemoryStore()
        return self._store

    def _in_own_loop(self, work: Coroutine[Any, Any, Returned]) -> Returned:
        """One event loop for all calls without a loop: connections live on between them."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._open_things.runner().run(work)
        work.close()
        raise UsageError("an event loop is running here: await agent.run(…) instead of calling run_sync")

    @contextmanager
    def _answer_shown(self) -> Iterator[list[str]]:
        """Collects what people see of the answers, the last one last."""
        assert self._session is not None
        shown: list[str] = []

        def see(batch: Sequence[Fact | Event]) -> None:
            for item in batch:
                event = item.event if isinstance(item, Fact) else None
                if isinstance(event, AssistantMessage) and not event.suppressed:
                    shown.append(text_of(event.content if event.shown is None else event.shown))

        stop = self._session.subscribe(see)
        try:
            yield shown
        finally:
            stop()

    async def _result(self, quiet: RunEnded | RunWaiting, shown: list[str]) -> Result:
        assert self._session is not None
        text = shown[-1] if shown else ""
        if isinstance(quiet, RunWaiting):
            run = self._session.state.run
            assert run is not None
            open_ones = await open_questions(self._session.journal.store, self._session.state)
            questions = tuple(one.asked for one in open_ones)
            reason = "; ".join(asked.question.text for asked in questions) or quiet.reason
            return Result(text, None, reason, run.usage, run.steps, self._session.id, questions=questions)
        return Result(
            text,
            quiet.status,
            quiet.reason,
            quiet.own.usage,
            quiet.own.steps,
            self._session.id,
            quiet.failure,
        )


def _answer_schema(answer: Any) -> dict[str, Any] | None:
    if answer is None or isinstance(answer, dict):
        return answer
    if isinstance(answer, type) and issubclass(answer, msgspec.Struct):
        return schema_of(answer)
    raise UsageError(f"answer must be a msgspec.Struct type or a JSON Schema, not {answer!r:.60}")


def _check_options(cwd: Path, permissions: str, reasoning: str | None, max_steps: int | None) -> None:
    """Types are not checked at run time, and a permission that does not exist must not be taken for one."""
    if not cwd.is_dir():
        raise UsageError(f"there is no directory {cwd}")
    if permissions not in PROFILES:
        raise UsageError(f"permissions must be one of {', '.join(PROFILES)}, not {permissions!r}")
    if reasoning is not None and reasoning not in get_args(ReasoningLevel):
        raise UsageError(f"reasoning must be one of {', '.join(get_args(ReasoningLevel))}, not {reasoning!r}")
    if max_steps is not None and max_steps < 1:
        raise UsageError(f"max_steps must be at least 1, not {max_steps}")


def _model_settings(model: str, base_url: str, api_key: str, cwd: Path) -> Settings:
    """A program that names its model gets that one, whatever the user has configured."""
    given = {"model": model or None, "base_url": base_url or None, "api_key": api_key or None}
    configured = load_settings(cwd, given).settings
    if not model:
        return configured
    return Settings(
        model=model,
        base_url=base_url,
        api_key=api_key,
        providers=configured.providers,
        models=configured.models,
        aliases=configured.aliases,
        context=configured.context,
    )
