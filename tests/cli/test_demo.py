"""`ostler demo`: works anywhere, and what it says at the end is true."""

from __future__ import annotations

import re
import shlex

from tests.cli.command import Ostler


def test_without_a_terminal_the_demo_keeps_its_store_to_itself(ostler: Ostler) -> None:
    ostler.home.mkdir()
    ostler.store.write_text("this is no database, " * 100)
    ran = ostler("demo")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("def greeting") == 1, "what was seen as it was written is not shown again"
    (hint,) = re.findall("`(OSTLER_HOME=.*)`", ran.out)
    variable, command, *arguments = shlex.split(hint)
    assert command == "ostler"
    shown = ostler(*arguments, OSTLER_HOME=variable.removeprefix("OSTLER_HOME="))
    assert shown.code == 0 and "hello.py" in shown.out


def test_on_a_terminal_the_demo_is_kept_where_its_user_keeps_everything(ostler: Ostler) -> None:
    ran = ostler.on_terminal("demo", typed=b"yes\n")
    assert ran.code == 0 and "OSTLER_HOME" not in ran.out
    (session,) = ostler("sessions", "--all", "--json").lines
    assert f"`ostler sessions show {session['id']}`" in ran.out
