"""Commands that open, name, export and import sessions, and the rows of sessions to choose from."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.app.console import aligned
from ostler.app.stores import find_session
from ostler.core.lazy import lazy_module
from ostler.core.store import SessionSummary, Store
from ostler.schema.errors import NotFound, OstlerError, UsageError
from ostler.schema.events import SessionRenamed
from ostler.schema.requests import Rename
from ostler.schema.text import age, one_line
from ostler.sessions.run_tree import current_status
from ostler.sessions.session import delete_session
from ostler.store.paths import expand_home
from ostler.store.portable import import_session
from ostler.tui.commands.registry import Command, print_lines
from ostler.tui.panels.picker import NOTHING, Choice, Picker
from ostler.tui.render.spans import quoted

if TYPE_CHECKING:
    from ostler.history import export as exports
    from ostler.tui.command_context import CommandContext
else:
    exports = lazy_module("ostler.history.export")

PAGE = 200
MOST_HITS = 60


class SessionPages:
    """Sessions with a prompt, newest first, without those of children."""

    def __init__(self, store: Store, cwd: str | None, present: str, *, is_titled: bool = False) -> None:
        self._store = store
        self._cwd = cwd
        self._present = present
        self._is_titled = is_titled
        self._limit = PAGE
        self._read = 0
        self._seen: dict[str, SessionSummary] = {}

    async def more(self) -> list[Choice]:
        """The next page; empty at the end. Pages get longer: few people scroll far."""
        page: list[SessionSummary] = []
        while not page and self._limit:
            summaries = await self._store.sessions(cwd=self._cwd, limit=self._limit)
            new = [one for one in summaries[self._read :] if one.id not in self._seen]
            self._seen.update((one.id, one) for one in new)
            page = [one for one in new if self._is_listed(one)]
            self._read = len(summaries)
            self._limit = self._limit * 4 if len(summaries) == self._limit else 0
        return [await self._choice(one) for one in page]

    async def with_messages(self, query: str) -> list[Choice]:
        """Sessions with all words of a query in their messages; very short words would match everywhere."""
        words = [word for word in query.split() if len(word) > 2 or not word.isascii()]
        choices: dict[str, Choice] = {}
        for hit in await self._store.search(" ".join(words), limit=MOST_HITS) if words else ():
            if hit.session in choices:
                continue
            with suppress(NotFound):  # deleted since the search
                summary = self._seen.get(hit.session) or await self._store.summary(hit.session)
                if self._is_listed(summary) and self._cwd in (None, summary.cwd):
                    choices[hit.session] = await self._choice(summary, f"#{hit.seq} says: {hit.snippet}")
        return list(choices.values())

    def _is_listed(self, one: SessionSummary) -> bool:
        text = one.title if self._is_titled else one.preview or one.title or one.status
        return bool(text) and not one.child_of

    async def _choice(self, one: SessionSummary, about: str = "") -> Choice:
        text = one.title or one.preview or "(no prompt)"
        status = (await current_status(self._store, one)).status or "new"
        cells = [age(time.time() - one.updated_ms / 1000), status]
        if self._cwd is None:
            cells.append(Path(one.cwd).name)
        is_present = one.id == self._present
        about = about or ("this session" if is_present else f"opens {one.id} in {one.cwd}")
        return Choice(text, one.id, tuple(cells), f"{one.id} {one.cwd}", about, is_present)


_LONGEST_TITLE = 40


def session_commands(context: CommandContext) -> list[Command]:
    group = _Sessions(context)
    about_clear = "start a new session with an empty context"
    about_sessions = "list all sessions, to open or delete one"
    return [
        Command("new", "start a new session", group.new, ("n",), "[prompt]", only_idle=True),
        Command("clear", about_clear, group.clear, ("c", "cls"), only_idle=True),
        Command("resume", "open another session", group.resume, ("r",), "[id]", only_idle=True),
        Command("sessions", about_sessions, group.sessions, (), "[words]", only_idle=True),
        Command("session", "show details of this session", group.session, (), "[export|import|fork|tree]"),
        Command("rename", "rename this session", group.rename, ("name",), "title"),
        Command("export", "export this session to a file", group.export, (), "[file.jsonl|.md|.html]"),
        Command("share", "export this session as an HTML page", group.share, (), "[file]"),
        Command("import", "import a session from a file", group.import_, (), "file", only_idle=True),
    ]


class _Sessions:
    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def new(self, arguments: str) -> None:
        await self._context.session_switch.request("new", prompt=arguments)

    async def clear(self, arguments: str) -> None:
        await self._context.session_switch.request("clear")

    async def resume(self, arguments: str) -> None:
        if not arguments:
            await self._choose(only_here=True)
            return
        try:
            session = await find_session(self._context.conversation.store, arguments)
        except NotFound:
            raise NotFound(f"no session {arguments!r}; /sessions lists all sessions") from None
        await self._context.session_switch.request("open", session)

    async def sessions(self, arguments: str) -> None:
        await self._choose(only_here=False, query=arguments)

    async def _choose(self, *, only_here: bool, query: str = "") -> None:
        context = self._context
        is_titled, place = False, None
        while True:
            conversation = context.conversation
            cwd = str(conversation.harness.cwd) if only_here else None
            pages = SessionPages(conversation.store, cwd, conversation.session.id, is_titled=is_titled)
            keys = {
                "tab": "sessions of all folders" if only_here else "sessions of this folder",
                "ctrl+t": "also those without a title" if is_titled else "only those with a title",
                "ctrl+d": "deletes",
            }
            picker = Picker(
                "sessions here" if only_here else "sessions",
                await pages.more(),
                context.colors,
                query=query,
                keys=keys,
                more=pages.more,
                elsewhere=pages.with_messages,
                place=place,
                empty="no session matches",
            )
            picked = await picker.ask(context.panels)
            if picked is None:
                return
            query, place = picked.query, None
            if picked.key == "enter":
                await context.session_switch.request("open", picked.choice.value)
                return
            if picked.key == "tab":
                only_here = not only_here
            elif picked.key == "ctrl+t":
                is_titled = not is_titled
            elif picked.choice is not NOTHING:
                place = picker.place
                await self._delete(picked.choice)

    async def _delete(self, chosen: Choice) -> None:
        conversation = self._context.conversation
        if chosen.value == conversation.session.id:
            self._context.say("this session is open here: open another one before you delete it", "error")
            return
        title = one_line(chosen.text)[:_LONGEST_TITLE]
        answers = [
            Choice("no, keep it", about="keeps the session"),
            Choice("yes, delete it", "yes", about="deletes it permanently, with its whole history"),
        ]
        picked = await Picker(f"delete {title!r}?", answers, self._context.colors).ask(self._context.panels)
        if picked is None or not picked.choice.value:
            return
        try:
            await delete_session(conversation.store, chosen.value)
            self._context.say(f"{title!r} is deleted")
        except OstlerError as error:
            self._context.say(error.message, "error")

    async def session(self, arguments: str) -> None:
        if arguments:
            verb = arguments.split()[0]
            if verb not in ("export", "import", "fork", "tree"):
                raise UsageError("use /session, or /session export, import, fork or tree")
            await self._context.commands.run(f"/{arguments}")
            return
        conversation = self._context.conversation
        state = conversation.session.state
        summary = await conversation.store.summary(conversation.session.id)
        created = datetime.fromtimestamp(summary.created_ms / 1000).strftime("%Y-%m-%d %H:%M")
        rows = [
            ("session", summary.id),
            ("title", summary.title or summary.preview or "(no prompt)"),
            ("folder", summary.cwd),
            ("created", created),
            ("messages", str(len(state.transcript))),
            ("events", str(summary.last_seq)),
            *([("forked from", summary.forked_from)] if summary.forked_from else ()),
        ]
        print_lines(self._context, list(aligned(rows)))

    async def rename(self, arguments: str) -> None:
        title = " ".join(arguments.split())
        if not title:
            raise UsageError("add a title: /rename TITLE")
        outcome = await self._context.conversation.ask(lambda id: Rename(id=id, by="tui", title=title))
        if isinstance(outcome, SessionRenamed):
            self._context.say(f"this session is now called {outcome.title!r}")

    async def export(self, arguments: str) -> None:
        await self._write(arguments, exports.format_of(arguments))

    async def share(self, arguments: str) -> None:
        await self._write(arguments, "html")

    async def _write(self, name: str, wanted: str) -> None:
        conversation = self._context.conversation
        target = self._path(name or ".")
        file = await exports.write_export(conversation.store, conversation.session.id, target, wanted)
        self._context.say(f"written to {quoted(file)}")

    async def import_(self, arguments: str) -> None:
        if not arguments:
            raise UsageError("name a file: /import FILE")
        conversation = self._context.conversation
        world = conversation.session.journal.world
        file = self._path(arguments)
        with exports.read_export_file(str(file)) as lines:
            try:
                imported = await import_session(
                    conversation.store, lines, str(conversation.harness.cwd), world
                )
            except UsageError as error:
                raise UsageError(f"{quoted(file)}: {error.message}") from None
        for line in imported.dropped:
            self._context.say(f"dropped {one_line(line)}")
        await self._context.session_switch.request("import", imported.session)

    def _path(self, name: str) -> Path:
        return self._context.conversation.harness.cwd / expand_home(name)
