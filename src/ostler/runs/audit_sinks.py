"""Where the audit goes while a session is open: a file, Python's logging, or whatever a host brings."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from ostler.kernel.journal import Journal
from ostler.kernel.user_paths import expand_home
from ostler.models.keys import without_keys
from ostler.runs.audit import Trail
from ostler.runs.audit_actions import AuditEntry
from ostler.vocabulary.errors import ConfigurationError
from ostler.vocabulary.events import Event, Warned
from ostler.vocabulary.facts import Fact

TYPE_CHECKING = False
if TYPE_CHECKING:  # whoever has no session to hand in needs none of this
    from logging import Logger

    from ostler.runs.session import Session

TO_LOG = "log"
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK  # a pipe that nobody reads is refused


class AuditSink(Protocol):
    """Takes entries in their order, on the event loop: it must not block.

    What it raises is reported once; from then on it is given nothing more, and the run goes on.
    """

    def write(self, entries: Sequence[AuditEntry]) -> None: ...


class FileAudit:
    """A file with one JSON object a line, that several processes may append to at once."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)

    def __repr__(self) -> str:
        return f"the audit file {self._path}"

    def write(self, entries: Sequence[AuditEntry]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Opened anew each time: a file that was moved away or rotated gets a successor.
        descriptor = os.open(self._path, _APPENDING, 0o600)
        try:
            for entry in entries:
                line = without_keys(msgspec.json.encode(entry).decode()).encode() + b"\n"
                if os.write(descriptor, line) < len(line):  # one write a line: none is torn by another's
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)


class LoggingAudit:
    """Python's logging: a line to read, and the entry's fields as `audit` of the record."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def __repr__(self) -> str:
        return f"the audit in the log {self._logger.name}"

    def write(self, entries: Sequence[AuditEntry]) -> None:
        for entry in entries:
            self._logger.info("%s", in_words(entry), extra={"audit": msgspec.to_builtins(entry)})


def in_words(entry: AuditEntry) -> str:
    """One line that can all be printed, without the keys that are known."""
    subject = " ".join(filter(None, (entry.tool or entry.model or entry.who, entry.what)))
    line = f"{entry.action}{' ' if subject else ''}{subject}: {entry.reason}"
    return without_keys("".join(c if c.isprintable() else "\ufffd" for c in line))


def audit_to(
    session: Session | Journal, sinks: Sequence[AuditSink], warn: Callable[[str], None] | None = None
) -> Callable[[], None]:
    """Gives the decisions of an open session to the sinks, one after the other, from now on.

    `warn` hears of a sink that failed; without it, those who follow the session do. Returns how to stop.
    """
    if not sinks:
        return lambda: None
    journal = session if isinstance(session, Journal) else session.journal
    trail, open_sinks = Trail(journal.state), list(sinks)

    def tell(text: str) -> None:
        journal.publish([Warned(text, about="store")])

    def see(batch: Sequence[Fact | Event]) -> None:
        taken = [trail.take(item) for item in batch if isinstance(item, Fact)]
        entries = [entry for entry in taken if entry]
        for sink in tuple(open_sinks) if entries else ():
            try:
                sink.write(entries)
            except Exception as error:
                open_sinks.remove(sink)
                problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                (warn or tell)(f"{sink!r} cannot be written ({problem}): it gets no more entries")

    return journal.observe(see)


def configured_sinks(audit: str) -> list[AuditSink]:
    """The sinks that the setting `audit` names: a file, or `log` for standard error."""
    if not audit:
        return []
    if audit == TO_LOG:
        return [LoggingAudit(_logger_to_stderr())]
    if not audit.startswith(("/", "~/")):
        raise ConfigurationError(
            f"audit must be a whole path, such as ~/ostler-audit.jsonl, or {TO_LOG}; it is {audit!r}"
        )
    return [FileAudit(expand_home(audit))]


def _logger_to_stderr() -> Logger:
    import logging

    logger = logging.getLogger("ostler.audit")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("ostler: audit: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    return logger
