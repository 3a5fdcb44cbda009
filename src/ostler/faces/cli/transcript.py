"""A session as a person reads it afterwards: who said what, which tools were called, what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import indent

from ostler.faces.cli.about_call import about_call
from ostler.faces.cli.columns import one_line, printable
from ostler.kernel.state import path_of
from ostler.kernel.store import SessionSummary
from ostler.vocabulary import events
from ostler.vocabulary.facts import Fact, UnknownEvent
from ostler.vocabulary.messages import Block, File, Image, Text

_RESULT_LENGTH = 200


def transcript(summary: SessionSummary, facts: Sequence[Fact]) -> Iterator[str]:
    """Lines to print. Entries carry their number, so that one can be named to fork at."""
    yield f"session {summary.id}{': ' + one_line(summary.title) if summary.title else ''}"
    yield f"{summary.status or 'not run yet'}, begun {facts[0].time}, in {printable(summary.cwd)}"
    if summary.forked_from:
        yield f"forked from {summary.forked_from}"
    path = path_of(facts)
    elsewhere = 0
    for fact in facts:
        if fact.parent is not None and fact.seq not in path:
            elsewhere += 1
            continue
        yield from _told(fact)
    if elsewhere:
        yield ""
        yield f"({elsewhere} entries on other branches are not shown; --json has them)"


def _told(fact: Fact) -> Iterator[str]:
    event, number = fact.event, f"#{fact.seq}"
    match event:
        case events.UserMessage(hidden=False, source=source, content=content):
            yield from _block_text(f"{number} {'you' if source == 'prompt' else source}:", content)
        case events.AssistantMessage(suppressed=True):
            yield from _block_text(f"{number} assistant: (withheld)", ())
        case events.AssistantMessage(content=content, shown=shown):
            yield from _block_text(f"{number} assistant:", content if shown is None else shown)
        case events.ToolCalled(name=name):
            yield ""
            yield f"{number} {one_line(name)}: {about_call(event)}"
        case events.ChildStarted(child=child, agent=agent):
            yield f"  {one_line(agent) or 'subagent'}: session {child}"
        case events.ToolResultFact() as result:
            yield f"{number} {one_line(result.name)} {_outcome(result)}"
        case events.HistoryReplaced(messages=messages):
            yield from _block_text(f"{number} (the history was replaced by {len(messages)} messages)", ())
        case events.Compacted(summary=summary) | events.BranchCollapsed(summary=summary):
            yield from _block_text(f"{number} (summary)", (Text(summary),))
        case events.TodoUpdated(items=items):
            yield from _block_text(
                f"{number} to do:", [Text(f"[{item.status}] {item.text}") for item in items]
            )
        case UnknownEvent(type=tag) if fact.parent is not None:
            yield from _block_text(f"{number} ({one_line(tag)}, written by a newer version)", ())
        case events.QuestionAsked(question=question):
            yield f"  asked: {one_line(question.text)}"
        case events.QuestionAnswered(outcome=outcome, answer=answer):
            yield f"  {one_line(str(answer)) if outcome == 'answered' and answer is not None else outcome}"
        case events.ModelFailed(failure=failure, retry_in=None):
            yield f"  the model failed: {one_line(failure.message)}"
        case events.ModelFailed(failure=failure, rescue=rescue) if rescue:
            yield f"  the model failed: {one_line(failure.message)}; {one_line(rescue)} went on"
        case events.RunWaiting(reason=reason):
            yield f"  the run waits: {reason}"
        case events.RunEnded(status=status, reason=reason) if status != "completed":
            yield f"  the run ended: {status}{': ' + one_line(reason) if reason else ''}"


def _block_text(title: str, content: Iterable[Block]) -> Iterator[str]:
    texts = [text for block in content if (text := _readable(block))]
    if not texts and title.endswith(":"):
        return
    yield ""
    yield title
    for text in texts:
        yield indent(printable(text), "  ")


def _readable(block: Block) -> str:
    match block:
        case Text(text=text):
            return text.strip("\n")
        case Image(media_type=media_type) | File(media_type=media_type):
            return f"[{media_type}]"
    return ""


def _outcome(result: events.ToolResultFact) -> str:
    first = next((text for block in result.content if (text := _readable(block))), "")
    said = one_line(result.summary if result.summary and not result.failed else first)
    said = said if len(said) <= _RESULT_LENGTH else said[: _RESULT_LENGTH - 1] + "…"
    verdict = f"failed ({result.failed})" if result.failed else "ok"
    return f"{verdict}: {said}" if said else verdict
