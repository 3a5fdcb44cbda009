"""Sessions: beginning, opening, naming, copying and sharing them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ostler.faces.tui.commands.command import Command
from ostler.faces.tui.pickers.picker import Choice, Picker
from ostler.faces.tui.pickers.sessions import SessionPages
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.events import RequestRefused
from ostler.vocabulary.requests import Rename

if TYPE_CHECKING:
    from ostler.faces.tui.tui import Tui


def commands(tui: Tui) -> list[Command]:
    group = _Sessions(tui)
    return [
        Command("new", "begin a new session", group.new, ("n",), "[prompt]", at_rest=True),
        Command(
            "clear", "begin anew, with nothing told to the model", group.clear, ("c", "cls"), at_rest=True
        ),
        Command("resume", "open another session", group.resume, ("r",), "[id]", at_rest=True),
        Command("sessions", "all sessions, to open or delete one", group.sessions, at_rest=True),
        Command("session", "which session this is", group.session),
        Command("rename", "give this session a title", group.rename, ("name",), "title"),
        Command("export", "write this session to a file", group.export, (), "[file.jsonl|.md|.html]"),
        Command("share", "write this session as an HTML page to read", group.share, (), "[file]"),
        Command("import", "open a session from a file", group.import_, (), "file", at_rest=True),
    ]


class _Sessions:
    def __init__(self, tui: Tui) -> None:
        self._tui = tui

    async def new(self, arguments: str) -> None:
        await self._tui.switching.wish("new", prompt=arguments)

    async def clear(self, arguments: str) -> None:
        await self._tui.switching.wish("clear")

    async def resume(self, arguments: str) -> None:
        if not arguments:
            await self._choose(only_here=True)
            return
        from ostler.runs.stores import find_session

        await self._tui.switching.wish("open", await find_session(self._tui.conversation.store, arguments))

    async def sessions(self, arguments: str) -> None:
        await self._choose(only_here=False, query=arguments)

    async def _choose(self, *, only_here: bool, query: str = "") -> None:
        tui = self._tui
        while True:
            conversation = tui.conversation
            cwd = str(conversation.harness.cwd) if only_here else None
            pages = SessionPages(conversation.store, cwd, conversation.session.id)
            other = "those of all folders" if only_here else "those of this folder"
            picker = Picker(
                "sessions here" if only_here else "sessions",
                await pages.more(),
                tui.colors,
                query=query,
                keys={"tab": other, "ctrl+d": "deletes"},
                more=pages.more,
                empty="there is no session; tab shows others",
            )
            picked = await picker.ask(tui.panels)
            if picked is None:
                return
            query = picked.query
            if picked.key == "enter":
                await tui.switching.wish("open", picked.choice.value)
                return
            if picked.key == "tab":
                only_here = not only_here
            else:
                await self._delete(picked.choice)

    async def _delete(self, chosen: Choice) -> None:
        from ostler.runs.session import delete_session

        conversation = self._tui.conversation
        if chosen.value == conversation.session.id:
            raise UsageError("this session is open here: leave it before it can be deleted")
        sure = [Choice("no, keep it"), Choice(f"yes, delete {chosen.text!r:.60} for good", "yes")]
        picked = await Picker("delete?", sure, self._tui.colors).ask(self._tui.panels)
        if picked is not None and picked.choice.value:
            await delete_session(conversation.store, chosen.value)

    async def session(self, arguments: str) -> None:
        conversation = self._tui.conversation
        summary = await conversation.store.summary(conversation.session.id)
        title = summary.title or summary.preview or "(no prompt)"
        where = f", forked from {summary.forked_from}" if summary.forked_from else ""
        self._tui.say(f"{summary.id}: {title} · {summary.last_seq} facts{where}")

    async def rename(self, arguments: str) -> None:
        title = " ".join(arguments.split())
        if not title:
            raise UsageError("say the title behind it: /rename TITLE")
        came = await self._tui.conversation.ask(lambda id: Rename(id=id, by="tui", title=title))
        if not isinstance(came, RequestRefused):
            self._tui.say(f"this session is called {title!r} now")

    async def export(self, arguments: str) -> None:
        from ostler.faces.cli.portable_file import format_of

        await self._write(arguments, format_of(arguments))

    async def share(self, arguments: str) -> None:
        await self._write(arguments, "html")

    async def _write(self, name: str, wanted: str) -> None:
        from ostler.faces.cli.session_copies import written

        conversation = self._tui.conversation
        target = self._path(name or ".")
        file = await written(conversation.store, conversation.session.id, target, wanted)
        self._tui.say(f"written to {file}")

    async def import_(self, arguments: str) -> None:
        from ostler.faces.cli.portable_file import reading
        from ostler.log.portable import import_session

        if not arguments:
            raise UsageError("say which file: /import FILE")
        conversation = self._tui.conversation
        world = conversation.session.journal.world
        with reading(str(self._path(arguments))) as lines:
            made = await import_session(conversation.store, lines, str(conversation.harness.cwd), world)
        await self._tui.switching.wish("import", made)

    def _path(self, name: str) -> Path:
        return self._tui.conversation.harness.cwd / Path(name).expanduser()
