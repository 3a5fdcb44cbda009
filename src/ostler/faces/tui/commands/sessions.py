"""Sessions: beginning, opening, naming, copying and sharing them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.faces.cli.columns import aligned
from ostler.faces.tui.commands.command import Command
from ostler.faces.tui.commands.lines import print_lines
from ostler.faces.tui.drawing.path_spans import quoted
from ostler.faces.tui.drawing.pieces import one_line
from ostler.faces.tui.pickers.picker import NOTHING, Choice, Picker
from ostler.faces.tui.pickers.sessions import SessionPages
from ostler.kernel.user_paths import expand_home
from ostler.vocabulary.errors import NotFound, OstlerError, UsageError
from ostler.vocabulary.events import SessionRenamed
from ostler.vocabulary.requests import Rename

if TYPE_CHECKING:
    from ostler.faces.tui.desk import Desk

_SHOWN = 40


def session_commands(desk: Desk) -> list[Command]:
    group = _Sessions(desk)
    return [
        Command("new", "begin a new session", group.new, ("n",), "[prompt]", at_rest=True),
        Command(
            "clear", "begin anew, with nothing told to the model", group.clear, ("c", "cls"), at_rest=True
        ),
        Command("resume", "open another session", group.resume, ("r",), "[id]", at_rest=True),
        Command(
            "sessions", "all sessions, to open or delete one", group.sessions, (), "[words]", at_rest=True
        ),
        Command("session", "which session this is", group.session, (), "[export|import|fork|tree]"),
        Command("rename", "give this session a title", group.rename, ("name",), "title"),
        Command("export", "write this session to a file", group.export, (), "[file.jsonl|.md|.html]"),
        Command("share", "write this session as an HTML page to read", group.share, (), "[file]"),
        Command("import", "open a session from a file", group.import_, (), "file", at_rest=True),
    ]


class _Sessions:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def new(self, arguments: str) -> None:
        await self._desk.switching.wish("new", prompt=arguments)

    async def clear(self, arguments: str) -> None:
        await self._desk.switching.wish("clear")

    async def resume(self, arguments: str) -> None:
        if not arguments:
            await self._choose(only_here=True)
            return
        from ostler.runs.stores import find_session

        try:
            found = await find_session(self._desk.conversation.store, arguments)
        except NotFound:
            raise NotFound(f"no session {arguments!r}; /sessions lists those there are") from None
        await self._desk.switching.wish("open", found)

    async def sessions(self, arguments: str) -> None:
        await self._choose(only_here=False, query=arguments)

    async def _choose(self, *, only_here: bool, query: str = "") -> None:
        desk = self._desk
        is_titled, place = False, None
        while True:
            conversation = desk.conversation
            cwd = str(conversation.harness.cwd) if only_here else None
            pages = SessionPages(conversation.store, cwd, conversation.session.id, is_titled=is_titled)
            picker = Picker(
                "sessions here" if only_here else "sessions",
                await pages.more(),
                desk.colors,
                query=query,
                keys={
                    "tab": "those of all folders" if only_here else "those of this folder",
                    "ctrl+t": "those without a title too" if is_titled else "only those with a title",
                    "ctrl+d": "deletes",
                },
                more=pages.more,
                elsewhere=pages.saying,
                place=place,
                empty="there is no such session",
            )
            picked = await picker.ask(desk.panels)
            if picked is None:
                return
            query, place = picked.query, None
            if picked.key == "enter":
                await desk.switching.wish("open", picked.choice.value)
                return
            if picked.key == "tab":
                only_here = not only_here
            elif picked.key == "ctrl+t":
                is_titled = not is_titled
            elif picked.choice is not NOTHING:
                place = picker.place
                await self._delete(picked.choice)

    async def _delete(self, chosen: Choice) -> None:
        from ostler.runs.session import delete_session

        conversation = self._desk.conversation
        if chosen.value == conversation.session.id:
            self._desk.say("this session is open here: leave it before it can be deleted", "error")
            return
        title = one_line(chosen.text)[:_SHOWN]
        sure = [
            Choice("no, keep it", about="nothing happens"),
            Choice("yes, delete it", "yes", about="for good, with all that was said and done in it"),
        ]
        picked = await Picker(f"delete {title!r}?", sure, self._desk.colors).ask(self._desk.panels)
        if picked is None or not picked.choice.value:
            return
        try:
            await delete_session(conversation.store, chosen.value)
        except OstlerError as error:
            self._desk.say(error.message, "error")
        else:
            self._desk.say(f"{title!r} is deleted")

    async def session(self, arguments: str) -> None:
        if arguments:
            verb = arguments.split()[0]
            if verb not in ("export", "import", "fork", "tree"):
                raise UsageError("say /session, or what to do with it: export, import, fork or tree")
            await self._desk.commands.run(f"/{arguments}")
            return
        conversation = self._desk.conversation
        state = conversation.session.state
        summary = await conversation.store.summary(conversation.session.id)
        begun = datetime.fromtimestamp(summary.created_ms / 1000).strftime("%Y-%m-%d %H:%M")
        rows = [
            ("session", summary.id),
            ("title", summary.title or summary.preview or "(no prompt)"),
            ("folder", summary.cwd),
            ("begun", begun),
            ("messages", str(len(state.transcript))),
            ("facts", str(summary.last_seq)),
            *([("forked from", summary.forked_from)] if summary.forked_from else ()),
        ]
        print_lines(self._desk, list(aligned(rows)))

    async def rename(self, arguments: str) -> None:
        title = " ".join(arguments.split())
        if not title:
            raise UsageError("say the title behind it: /rename TITLE")
        came = await self._desk.conversation.ask(lambda id: Rename(id=id, by="tui", title=title))
        if isinstance(came, SessionRenamed):
            self._desk.say(f"this session is called {came.title!r} now")

    async def export(self, arguments: str) -> None:
        from ostler.faces.cli.portable_file import format_of

        await self._write(arguments, format_of(arguments))

    async def share(self, arguments: str) -> None:
        await self._write(arguments, "html")

    async def _write(self, name: str, wanted: str) -> None:
        from ostler.faces.cli.session_copies import written

        conversation = self._desk.conversation
        target = self._path(name or ".")
        file = await written(conversation.store, conversation.session.id, target, wanted)
        self._desk.say(f"written to {quoted(file)}")

    async def import_(self, arguments: str) -> None:
        from ostler.faces.cli.portable_file import reading
        from ostler.log.portable import import_session

        if not arguments:
            raise UsageError("say which file: /import FILE")
        conversation = self._desk.conversation
        world = conversation.session.journal.world
        file = self._path(arguments)
        with reading(str(file)) as lines:
            try:
                made = await import_session(conversation.store, lines, str(conversation.harness.cwd), world)
            except UsageError as error:
                raise UsageError(f"{quoted(file)}: {error.message}") from None
        await self._desk.switching.wish("import", made)

    def _path(self, name: str) -> Path:
        return self._desk.conversation.harness.cwd / expand_home(name)
