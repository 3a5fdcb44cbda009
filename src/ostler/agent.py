"""The SDK: an agent in a Python program."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ostler.app.agent_setup import AgentResources, agent_settings, answer_schema, check_options
from ostler.app.default_model import resolve_model
from ostler.app.stores import open_store
from ostler.context.instructions import system_prompt
from ostler.context.session_context import NO_RULES, SessionContext
from ostler.core.harness import Harness, Span, Tag
from ostler.core.hooks import Hook, Hooks
from ostler.core.model import Model, ReasoningLevel
from ostler.core.questions import Asker
from ostler.core.store import Store
from ostler.core.tool import Tool
from ostler.extensions.loader.extension_loader import EmbeddedExtension, EmbeddedExtensions
from ostler.models.factory import ModelFactory
from ostler.permissions.guard import permission_hook, remember_answer
from ostler.permissions.rules import Profile
from ostler.schema.errors import ERRORS, Failure, InvalidAnswer, OstlerError, UsageError
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


Returned = TypeVar("Returned")
Decoded = TypeVar("Decoded")
Prompt = str | Sequence[str | PlainBlock]


class Result(msgspec.Struct, frozen=True):
    """The result of a run. A run that failed has one too: look at `status`, or call `check`."""

    text: str
    """The last answer."""
    status: RunStatus | None
    """None while the run waits for an answer or is paused."""
    reason: str
    usage: Usage
    steps: int
    session: str
    failure: Failure | None = None
    questions: tuple[QuestionAsked, ...] = ()
    """The open questions of a waiting run and its children; see `Agent.answer`."""

    def decoded(self, kind: type[Decoded]) -> Decoded:
        """The answer decoded as that type, for an agent with an `answer` schema."""
        try:
            return msgspec.json.decode(self.text, type=kind)
        except msgspec.DecodeError as error:
            raise InvalidAnswer(f"the answer does not have the requested form ({error}); ask again") from None

    def check(self) -> Result:
        """Returns this result if the run completed; raises an exception with the reason if not."""
        if self.status == "completed":
            return self
        error = ERRORS.get(self.failure.kind, OstlerError) if self.failure else OstlerError
        raise error(f"the run {self.status or 'waits'}: {self.reason}")


class Agent:
    """A model with tools, and their conversation.

    ```python
    from ostler import Agent, tool

    @tool
    def add(a: int, b: int) -> int:
        "Adds two numbers."
        return a + b

    agent = Agent("anthropic/claude-sonnet-5-5", tools=[add])
    print(agent.run_sync("What is 17 + 25?").text)
    ```

    Without a `model`, the agent uses the one that the user configured (`OSTLER_MODEL`, the configuration
    files), or the default that `ostler doctor` shows: a vendor with a key, a server on this machine.

    The conversation is kept in memory, or in `store`: a path to a database file that other processes can
    open, too. With `session`, the agent continues that session.

    `context` has rules for long conversations, as in `[context.…]` of a configuration file; the rules given
    to `run` override them for one run. `context_providers` add your own context, `reminders` are added to the
    end of each request.

    `extensions` are paths of extensions, or functions like their `setup`; functions are loaded first.

    `limits` apply to a run and all its children together. Tools get the `services`, the log records `tags`
    and `trace` with each run, and `span` wraps runs, steps and calls for telemetry.
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
        wait_for_answers: bool = False,
        services: dict[str, Any] | None = None,
        tags: dict[str, Tag] | None = None,
        trace: str = "",
        span: Span | None = None,
        context: Rules | None = None,
        context_providers: Iterable[ContextProvider] = (),
        reminders: dict[str, Rule] | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        cwd = Path(cwd).resolve()
        check_options(cwd, permissions, reasoning, max_steps)
        limits = limits or Limits()
        self._resources = AgentResources()
        weakref.finalize(self, self._resources.close_at_last)
        named = model if isinstance(model, str) else ""
        settings = agent_settings(named, base_url, api_key, cwd)
        if isinstance(model, str):
            settings = resolve_model(settings)
        make = self._resources.closing(ModelFactory(settings))
        self._harness = Harness(
            model=make(settings.model) if isinstance(model, str) else model,
            fallbacks=(fallback,) if isinstance(fallback, str) else tuple(fallback),
            make_model=make,
            answer_schema=answer_schema(answer),
            system=system_prompt(cwd, date.today()) if system is None else system,
            hooks=Hooks(tuple(hooks)),
            permission_hook=permission_hook(permissions, cwd),
            remember=remember_answer,
            permission_profile=permissions,
            limits=msgspec.structs.replace(limits, steps=max_steps) if max_steps is not None else limits,
            reasoning=reasoning,
            cwd=cwd,
            confine_harmless=settings.confine_harmless,
            process_limits=settings.tool_limits,
            asker=ask,
            wait_for_answers=wait_for_answers,
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
            fences=tuple(context_providers),
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
        """Runs a prompt to its end. The rules of `context` apply to this run and its children."""
        session = await self._open_for_run(context)
        with self._collect_answers() as answers:
            return await self._result(await session.prompt(as_content(prompt)), answers)

    def run_sync(self, prompt: Prompt, *, context: Rules | None = None) -> Result:
        """`run`, for programs without an event loop."""
        return self._in_own_loop(self.run(prompt, context=context))

    async def continue_(self, *, context: Rules | None = None) -> Result:
        """Runs the model on the messages as they are, without a new one."""
        session = await self._open_for_run(context)
        with self._collect_answers() as answers:
            return await self._result(await session.continue_(), answers)

    async def resume(self) -> Result | None:
        """Continues a run that was paused or whose process died; None if there is none."""
        session = await self.open()
        waiting = session.state.run.waiting if session.state.run else None
        with self._collect_answers() as answers:
            is_paused = waiting is not None and waiting.reason == "paused"
            outcome = await (session.resume() if is_paused else session.advance())
        return None if outcome is None else await self._result(outcome, answers)

    def continue_sync(self, *, context: Rules | None = None) -> Result:
        return self._in_own_loop(self.continue_(context=context))

    async def answer(self, answer: Any = None, *, question: str = "", declined: bool = False) -> Result:
        """Answers the only open question of a waiting run and its children, or the one named, and continues
        the run."""
        session = await self.open()
        questions = {one.asked.id: one for one in await open_questions(session.journal.store, session.state)}
        is_clear = not question and len(questions) == 1
        chosen = next(iter(questions.values())) if is_clear else questions.get(question)
        if chosen is None:
            raise UsageError(f"name the question to answer; open: {', '.join(questions) or 'none'}")
        with self._collect_answers() as answers:
            outcome = await answer_question(session, chosen, answer, declined=declined)
        if outcome is None:
            raise UsageError("no run waits for an answer")
        return await self._result(outcome, answers)

    async def stream(self, prompt: Prompt, *, context: Rules | None = None) -> AsyncIterator[Event]:
        """Runs a prompt and yields its events as they happen. Leaving the loop early cancels the run."""
        session = await self._open_for_run(context)
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
                session.cancel("the reader of its events stopped")
                await asyncio.wait({running})

    async def steer(self, text: Prompt) -> None:
        """Sends a message to the model while it works; it gets it before its next step."""
        session = await self.open()
        if not session.is_running:
            raise UsageError("no run is active: run a prompt instead")
        request = Steer(id=session.journal.world.new_id("req"), content=as_content(text))
        await session.journal.store.submit(session.id, request)

    async def pause(self) -> None:
        """Pauses the active run before its next step; `resume` continues it."""
        session = await self.open()
        await session.journal.store.submit(session.id, Pause(id=session.journal.world.new_id("req")))

    def cancel(self, reason: str = "cancelled") -> None:
        """Cancels the active run, if there is one."""
        if self._session is not None and self._session.is_running:
            self._session.cancel(reason)

    def subscribe(self, observer: Callable[[Sequence[Fact | Event]], None]) -> None:
        """Calls `observer` with every committed fact and every delta, in batches."""
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
        """The messages that the model gets."""
        if self._messages is not None:
            return list(self._messages)
        return list(self._session.state.transcript) if self._session else []

    @messages.setter
    def messages(self, messages: Iterable[Message]) -> None:
        """Replaces the messages from the next run on. The log keeps the earlier ones."""
        self._messages = tuple(messages)

    @property
    def usage(self) -> Usage:
        """The usage of the whole session, in tokens and, where the price is known, in dollars."""
        if self._seed is not None:
            return self._seed
        return self._session.state.usage if self._session else NOTHING_USED

    def seed_usage(self, usage: Usage) -> None:
        """Sets the usage to start from, for a conversation that began elsewhere."""
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
        """Changes the model from the next step on; the conversation continues."""
        if isinstance(model, str):
            self._harness.set_model(model)
        else:
            self._harness.model = model

    @property
    def hooks(self) -> Hooks:
        return self._harness.hooks

    @property
    def _session(self) -> Session | None:
        return self._resources.session

    # --- opening and closing ------------------------------------------------------------------------

    async def close(self) -> None:
        """Releases the session, and closes what the agent opened itself: the store, the connections."""
        self._session_id = self.session
        await self._resources.close()

    async def __aenter__(self) -> Agent:
        if self._session_id:
            await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> Session:
        """Opens the session with its messages, or creates one. The first run does this, and so does `async
        with` for an agent with a `session`."""
        session = self._session
        if session is None:
            await self._extensions.equip(self._harness)
            store = self._open_store()
            try:
                if self._session_id:
                    session = await open_session(store, self._session_id, self._harness)
                else:
                    session = await create_session(store, self._harness)
            except BaseException:  # without a session, nothing else would close the store
                await self._resources.close_store()
                raise
            self._resources.session = session
            for observer in self._observers:
                session.subscribe(observer)
        if self._messages is not None or self._seed is not None:
            messages = self._messages if self._messages is not None else tuple(session.state.transcript)
            await session.replace_history(messages, self._seed)
            self._messages = self._seed = None
        return session

    async def _open_for_run(self, rules: Rules | None) -> Session:
        """The session, with the context rules of the run that is about to start."""
        session = await self.open()
        if not session.is_running and not (session.state.run and session.state.run.waiting):
            self._use_context(self._context.for_run(rules or NO_RULES))
        return session

    def _use_context(self, context: SessionContext) -> None:
        self._context = self._harness.context = context
        context.equip(self._harness)

    def _open_store(self) -> Store:
        if isinstance(self._store, Path | str):
            return self._resources.open_store(Path(self._store))
        if self._store is None:
            self._store = open_store(in_memory=True)
        return self._store

    def _in_own_loop(self, work: Coroutine[Any, Any, Returned]) -> Returned:
        """Runs in one event loop for all synchronous calls, so that connections stay open between them."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._resources.runner().run(work)
        work.close()
        raise UsageError("an event loop is running here: use `await agent.run(…)` instead of run_sync")

    @contextmanager
    def _collect_answers(self) -> Iterator[list[str]]:
        """Collects the answers as people see them."""
        assert self._session is not None
        answers: list[str] = []

        def see(batch: Sequence[Fact | Event]) -> None:
            for item in batch:
                event = item.event if isinstance(item, Fact) else None
                if isinstance(event, AssistantMessage) and not event.suppressed:
                    answers.append(text_of(event.content if event.shown is None else event.shown))

        stop = self._session.subscribe(see)
        try:
            yield answers
        finally:
            stop()

    async def _result(self, outcome: RunEnded | RunWaiting, answers: list[str]) -> Result:
        assert self._session is not None
        text = answers[-1] if answers else ""
        if isinstance(outcome, RunWaiting):
            run = self._session.state.run
            assert run is not None
            open_ones = await open_questions(self._session.journal.store, self._session.state)
            questions = tuple(one.asked for one in open_ones)
            reason = "; ".join(asked.question.text for asked in questions) or outcome.reason
            return Result(text, None, reason, run.usage, run.steps, self._session.id, questions=questions)
        own = outcome.own
        return Result(
            text, outcome.status, outcome.reason, own.usage, own.steps, self._session.id, outcome.failure
        )
