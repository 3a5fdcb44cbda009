"""Draws docs/pictures/demo.svg: `ostler demo` in a terminal.

With --check, only reports whether the picture is current.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from html import escape
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "pictures" / "demo.svg"
QUESTION = b"yes or no? "
SECONDS = 60.0

COLOURS = {
    "": "#d6d9e0",
    "1": "#ffffff",
    "2": "#969cab",
    "31": "#ff8a80",
    "32": "#8fdc97",
    "33": "#ecc767",
    "36": "#7fd3e6",
}
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
COLUMN, LINE, SIZE = 7.8, 18, 13
SIDE, TOP, BOTTOM = 18, 52, 2

Span = tuple[int, str, str]
"""Column, text and style of a piece of a line."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is out of date")
    check = parser.parse_args().check
    drawn = draw(lines_of(masked(record())), "ostler demo")
    name = PICTURE.relative_to(ROOT)
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == drawn:
        return 0
    if check:
        print(f"{name} is out of date: run `make picture`", file=sys.stderr)
        return 1
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn, encoding="utf-8")
    print(f"wrote {name}")
    return 0


def record() -> str:
    """The output of the demo in a terminal, with its question answered."""
    with tempfile.TemporaryDirectory() as home:
        ours, theirs = pty.openpty()
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        demo = subprocess.Popen(
            [sys.executable, "-m", "ostler", "demo"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment | {"OSTLER_HOME": home, "TMPDIR": home, "TERM": "xterm", "PYTHONUTF8": "1"},
        )
        os.close(theirs)
        try:
            written = _converse(ours)
            demo.wait(SECONDS)
        finally:
            demo.kill()
            demo.wait()
            os.close(ours)
    if demo.returncode != 0:
        raise SystemExit(f"the demo ended with {demo.returncode}:\n{written}")
    return written.replace(home, "/tmp")


def _converse(terminal: int) -> str:
    written, answered, deadline = b"", False, time.monotonic() + SECONDS
    while select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # on Linux: the other end is closed
            piece = b""
        if not piece:
            return written.decode()
        written += piece
        if QUESTION in written and not answered:
            answered = True
            os.write(terminal, b"yes\n")
    raise SystemExit(f"the demo did not end within {SECONDS:g} s:\n{written.decode(errors='replace')}")


def masked(written: str) -> str:
    """Replaces everything that differs from run to run."""
    written = re.sub(r"ostler-demo-\w+", "ostler-demo-1", written)
    pids = dict.fromkeys(re.findall(r"process,? (\d+)", written))
    for number, pid in enumerate(pids, 4711):
        written = re.sub(rf"(process,?) {pid}\b", rf"\1 {number}", written)
    return re.sub(r"ses_\w+", "ses_…", written)


def lines_of(written: str) -> list[list[Span]]:
    """Lines of styled spans. Knows the codes that `cli/output.py` writes, and refuses others."""
    style = ""
    lines: list[list[tuple[str, str]]] = [[]]
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r?\n)", written):
        if part.startswith("\x1b"):
            code = re.fullmatch(r"\x1b\[(\d+)m", part)
            style = "" if part == "\x1b[0m" else code[1] if code else part
            if style not in COLOURS:
                raise SystemExit(f"there is no picture of the code {part!r}")
        elif part in ("\n", "\r\n"):
            lines.append([])
        elif part:
            lines[-1].extend((character, style) for character in part)
    while lines and not lines[-1]:
        lines.pop()
    return [_spans(line) for line in lines]


def _spans(line: list[tuple[str, str]]) -> list[Span]:
    """Joins neighbouring characters of one style."""
    spans: list[Span] = []
    column = 0
    for style, characters in groupby(line, key=lambda character: character[1]):
        text = "".join(character for character, _ in characters)
        if text.strip():
            spans.append((column + len(text) - len(text.lstrip()), text.strip(), style))
        column += len(text)
    return spans


def draw(lines: list[list[Span]], title: str) -> str:
    """A window with these lines. Each span has its length, so that any monospaced font fits."""
    columns = max(column + len(text) for line in lines for column, text, _ in line)
    body = []
    for number, line in enumerate(lines):
        for column, text, style in line:
            weight = ' font-weight="600"' if style == "1" else ""
            body.append(span(number, column, text, len(text), COLOURS[style], weight))
    return window(columns, len(lines), title, body)


def span(row: int, column: int, text: str, cells: int, colour: str, more: str = "") -> str:
    """Text in a window, as wide as its cells."""
    return (
        f'<text x="{SIDE + column * COLUMN:.1f}" y="{TOP + row * LINE}" textLength="{cells * COLUMN:.1f}"'
        f' fill="{colour}"{more} xml:space="preserve">{escape(text, quote=False)}</text>'
    )


def window(columns: int, rows: int, title: str, body: list[str]) -> str:
    width = round(columns * COLUMN + 2 * SIDE)
    height = rows * LINE + TOP + BOTTOM
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img" font-family="{FONT}" font-size="{SIZE}">',
        f"<title>{escape(title)}</title>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="9"'
        ' fill="#16181d" stroke="#3a3f4b"/>',
    ]
    for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        out.append(f'<circle cx="{20 + 18 * number}" cy="17" r="5.5" fill="{colour}"/>')
    out.append(f'<text x="{width / 2:g}" y="21" text-anchor="middle" fill="#969cab">{escape(title)}</text>')
    return "\n".join([*out, *body, "</svg>", ""])


if __name__ == "__main__":
    sys.exit(main())
