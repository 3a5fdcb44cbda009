"""Help reads the same on every version of Python: what argparse prints differently is pinned here."""

from __future__ import annotations

import argparse
from textwrap import dedent

import pytest

from ostler.app.options import Parser, RawHelpFormatter
from tests.support.command import Ostler


def parser() -> Parser:
    made = Parser(prog="paint", description="Paints\na house.")
    made.add_argument("-c", "--colour", metavar="NAME", action="append", help="may be repeated")
    made.add_argument("--hidden", help=argparse.SUPPRESS)
    which = made.add_mutually_exclusive_group(required=True)
    which.add_argument("wall", metavar="WALL", nargs="?", help="one wall")
    which.add_argument("--all", action="store_true", help="all of them")
    how = made.add_mutually_exclusive_group()
    how.add_argument("--coats", metavar="N")
    how.add_argument("--between", metavar=("A", "B"), nargs=2)
    made.add_argument("words", metavar="WORD", nargs="*")
    return made


@pytest.mark.parametrize(
    ("columns", "usage"),
    [
        (
            100,
            """\
            usage: paint [-h] [-c NAME] (--all | WALL) [--coats N | --between A B] [WORD ...]
            """,
        ),
        (
            50,
            """\
            usage: paint [-h] [-c NAME] (--all | WALL)
                         [--coats N | --between A B]
                         [WORD ...]
            """,
        ),
        (
            17,
            """\
            usage: paint
                   [-h]
                   [-c NAME]
                   (--all | WALL)
                   [--coats N | --between A B]
                   [WORD ...]
            """,
        ),
    ],
)
def test_a_usage_is_broken_between_options(monkeypatch: pytest.MonkeyPatch, columns: int, usage: str) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert parser().format_usage() == dedent(usage)


def test_without_options_positionals_follow_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "26")
    made = Parser(prog="paint", add_help=False)
    for name in ("WALL", "COLOUR", "BRUSH"):
        made.add_argument(name)
    assert made.format_usage() == "usage: paint WALL COLOUR\n             BRUSH\n"


def test_an_option_names_its_value_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert parser().format_help().partition("\n\n")[2] == dedent("""\
        Paints a house.

        positional arguments:
          WALL               one wall
          WORD

        options:
          -h, --help         show this help message and exit
          -c, --colour NAME  may be repeated
          --all              all of them
          --coats N
          --between A B
        """)


def test_a_value_without_a_name_takes_no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    made = Parser(prog="paint", add_help=False)
    made.add_argument("-q", "--quick-drying", metavar="", help="or --quick-drying=false")
    assert made.format_help() == dedent("""\
        usage: paint [-q]

        options:
          -q, --quick-drying  or --quick-drying=false
        """)


def test_the_longest_command_has_its_help_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    made = Parser(prog="paint")
    commands = made.add_subparsers(metavar="COMMAND")
    commands.add_parser("wall", help="one wall")
    commands.add_parser("everything", help="all of them")
    assert made.format_help() == dedent("""\
        usage: paint [-h] COMMAND ...

        positional arguments:
          COMMAND
            wall        one wall
            everything  all of them

        options:
          -h, --help    show this help message and exit
        """)


def test_the_usage_has_the_full_name_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    made = Parser(prog="paint")
    made.add_subparsers(metavar="COMMAND").add_parser("wall")
    with pytest.raises(SystemExit):
        made.parse_args(["wall", "--help"])
    assert capsys.readouterr().out.startswith("usage: paint wall [-h]\n")


def test_raw_descriptions_keep_their_lines() -> None:
    made = Parser(prog="paint", description="Paints\na house.", formatter_class=RawHelpFormatter)
    assert "\n\nPaints\na house.\n\n" in made.format_help()


def test_help_has_no_colours(ostler: Ostler) -> None:
    ran = ostler("sessions", "--help", FORCE_COLOR="1")
    assert ran.out.startswith("usage: ostler sessions ")
    assert "\x1b" not in ran.out
