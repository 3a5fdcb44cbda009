"""What a person is told of a run: the answer on standard output, the rest on standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ostler.faces.cli.columns import printable
from ostler.faces.cli.own_output import own_output, print_own
from ostler.faces.cli.saying import counted, priced, say
from ostler.runs.run_tree import OpenQuestion
from ostler.vocabulary import events
from ostler.vocabulary.events import Event, RunEnded, RunWaiting, Totals
from ostler.vocabulary.facts import Fact, UnknownEvent
from ostler.vocabulary.messages import text_of


class Notices:
    """What a person should know while a run goes on and when it is over, on standard error."""

    shows_work = False
    """Calls and children are told of as they begin and end."""

    def __init__(self) -> None:
        self._asked = ""
        """The model that was asked last."""
        self._children: dict[str, str] = {}
        """The names of children, by their session."""
        self._told: dict[str, Totals] = {}
        """What other vendors' agents say that they have used."""

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for one in batch:
            if isinstance(one, Fact):
                self._see_fact(one.event)
            elif isinstance(one, events.Printed):
                from ostler.faces.cli.extension_face import say_printed

                say_printed(one)

    def _see_fact(self, event: Event | UnknownEvent) -> None:
        match event:
            case events.ToolResultFact(failed="call_refused", name=name, content=content):
                say(f"refused: {name}: {text_of(content)}")
            case events.ModelCalled(model=model):
                self._asked = model
            case events.ModelFailed(failure=failure, rescue=rescue) if rescue:
                say(f"{failure.message}; going on with {rescue} in place of {self._asked}")
            case events.ModelFailed(failure=failure, retry_in=float()) if failure.kind == "context_overflow":
                say(f"{failure.message}; what came before is summarised, and it is tried again")
            case events.ModelFailed(failure=failure, retry_in=float(delay)):
                say(f"{failure.message}; trying again in {delay:g} s")
            case events.Warned(text=text) | events.CommandRan(text=text, failed=True):
                say(text)
            case events.ChildUsed(child=child):
                self._told[child] = self._told.get(child, Totals()) + event.totals
            case events.ToolCalled() | events.ChildStarted() | events.ChildEnded() if self.shows_work:
                self._show_work(event)

    def _show_work(self, event: events.ToolCalled | events.ChildStarted | events.ChildEnded) -> None:
        match event:
            case events.ToolCalled(kind="agent"):
                pass  # told of when its child begins
            case events.ToolCalled(name=name):
                from ostler.faces.cli.about_call import about_call

                say(f"{name}: {about_call(event)}")
            case events.ChildStarted(child=child, agent=agent, task=task, extension=extension):
                self._children[child] = agent or extension or "delegate"
                say(f"{self._children[child]}: {task}")
            case events.ChildEnded(child=child, status=status, own=own, children=below):
                name = self._children.get(child, "delegate")
                price = priced((own + below + self._told.get(child, Totals())).usage.cost)
                steps = f"{counted(own.steps, 'step')}, " if own.steps else ""
                say(f"{name}: {status}, {steps}{price}")

    def say_end(
        self, quiet: RunEnded | RunWaiting, session: str, questions: Sequence[OpenQuestion] = ()
    ) -> None:
        if isinstance(quiet, RunWaiting):
            say_waiting(quiet, session, questions)
        elif quiet.status != "completed":
            has_reason = quiet.reason not in ("", quiet.status)
            say(f"{quiet.status}: {quiet.reason}" if has_reason else quiet.status)
        elif quiet.reason:
            say(quiet.reason)


class PlainOutput(Notices):
    """The last answer on standard output, beside the notices."""

    def __init__(self) -> None:
        super().__init__()
        self._answer = ""
        self._answering_call = ""
        self._sources: list[events.SourceCited] = []
        self.shows_work = sys.stderr.isatty()

    def _see_fact(self, event: Event | UnknownEvent) -> None:
        match event:
            case events.AssistantMessage(suppressed=False) as message:
                text = text_of(message.content if message.shown is None else message.shown)
                if text:
                    self._answer, self._answering_call = text, message.call
            case events.SourceCited() as source:
                self._sources.append(source)
            case events.CommandRan(text=text, failed=False):
                if text:
                    print_text(text)
            case _:
                super()._see_fact(event)

    def finish(
        self, quiet: RunEnded | RunWaiting, session: str, questions: Sequence[OpenQuestion] = ()
    ) -> None:
        """The end of a run; another one may follow."""
        if isinstance(quiet, RunEnded) and quiet.status != "failed" and self._answer:
            print_text(self._answer)
            self._say_sources()
        self.say_end(quiet, session, questions)
        if isinstance(quiet, RunEnded) and not (quiet.status != "completed" or quiet.reason or self._answer):
            say("the model's answer is empty")
        self._answer = ""

    def _say_sources(self) -> None:
        for source in self._sources:
            if source.call == self._answering_call:
                where = source.url or (f"document {source.id}" if source.id else "")
                say(f"source: {printable(', '.join(filter(None, (source.title, where))))}")


def print_text(text: str) -> None:
    """A terminal would obey what it is told; a file gets every byte."""
    print_own(printable(text) if own_output().isatty() else text)


def print_piece(text: str) -> None:
    """A part of a text that is still growing."""
    out = own_output()
    out.write(printable(text) if out.isatty() else text)
    out.flush()


def say_waiting(waiting: RunWaiting, session: str, questions: Sequence[OpenQuestion]) -> None:
    """What a run waits for, and how it goes on."""
    from ostler.faces.cli.question_words import in_words

    for one in questions:
        who = f" ({one.agent})" if one.agent else ""
        which = f" [{one.asked.id}]" if len(questions) > 1 else ""
        say(f"waiting for an answer{who}{which}: {in_words(one.asked.question)}")
    if waiting.reason == "paused":
        say(f"paused; `ostler resume {session}` goes on")
    elif questions:
        named = "--question ID " if len(questions) > 1 else ""
        is_permission = all(one.asked.question.kind == "permission" for one in questions)
        answer = "yes" if is_permission else "ANSWER"
        say(f"the run waits in session {session}; `ostler answer {session} {named}{answer}` goes on")
    else:
        say(f"the run waits in session {session} for a call that finishes later; `ostler runs` shows it")
