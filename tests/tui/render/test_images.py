"""Pictures in a terminal: drawn where possible, described in a line everywhere."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from io import BytesIO

import pytest
from PIL import Image as Pixels

from ostler.history.items import image_text
from ostler.schema.messages import Image
from ostler.testkit.vendors import call, turn
from ostler.tui.plain.items import item_lines
from ostler.tui.render.images import Images, Way, cells_for, picture_rows, way_to_draw
from ostler.tui.render.items import ItemRenderer
from tests.support.command import Ostler
from tests.support.fixtures import Open, Serve
from tests.tui.rows import call_item, plain


def picture(width: int, height: int, kind: str = "PNG") -> Image:
    target = BytesIO()
    Pixels.new("RGB", (width, height), (200, 30, 30)).save(target, kind)
    return Image(f"image/{kind.lower()}", b64encode(target.getvalue()).decode())


@pytest.mark.parametrize(
    ("wanted", "environment", "way"),
    [
        ("auto", {"TERM": "xterm-kitty"}, "kitty"),
        ("auto", {"TERM": "xterm-256color", "TERM_PROGRAM": "ghostty"}, "kitty"),
        ("auto", {"TERM_PROGRAM": "iTerm.app"}, "iterm2"),
        ("auto", {"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "iterm2"),
        ("auto", {"TERM": "xterm-256color"}, ""),
        ("auto", {"TERM": "xterm-kitty", "TMUX": "/run/tmux,1,0"}, ""),
        ("auto", {"TERM": "screen-256color", "LC_TERMINAL": "iTerm2"}, ""),
        ("auto", {"TERM_PROGRAM": "vscode", "KITTY_WINDOW_ID": "1"}, ""),
        ("iterm2", {"TERM_PROGRAM": "vscode"}, "iterm2"),
        ("blocks", {"TERM": "tmux-256color", "TMUX": "/run/tmux,1,0"}, "blocks"),
        ("blocks", {"NO_COLOR": "1"}, ""),
        ("off", {"TERM": "xterm-kitty"}, ""),
    ],
)
def test_the_image_protocol_follows_the_terminal_unless_it_is_set(
    wanted: Images, environment: dict[str, str], way: Way
) -> None:
    assert way_to_draw(wanted, environment) == way


def test_a_picture_is_described_in_a_line() -> None:
    assert re.fullmatch(r"image · image/png · 640×480 · [\d.]+ KiB", image_text(picture(640, 480)))
    assert image_text(Image("image/png", url="https://x.test/a.png")) == (
        "image · image/png · https://x.test/a.png"
    )
    assert image_text(Image("image/png", "not base64")) == "image · image/png"


def test_a_picture_takes_no_more_cells_than_allowed_and_rows_are_rounded_up() -> None:
    assert cells_for((320, 200), 40, 12) == (39, 12)
    assert cells_for((4000, 200), 40, 12) == (40, 1)
    assert cells_for((200, 4000), 40, 12) == (2, 12)
    assert cells_for((16, 17), 40, 12) == (2, 2), "none is made larger than it is"
    assert cells_for((1, 1), 40, 12) == (1, 1)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_kitty_is_sent_a_small_png_in_pieces(kind: str) -> None:
    rows = picture_rows(picture(2000, 1000, kind), "kitty", 80)
    assert len(rows) == 10
    sent = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", rows[-1])
    assert sent[0][0].startswith("a=T,f=100,q=2,C=1,c=40,r=10,")
    assert [keys.split("m=")[1] for keys, _ in sent] == ["1"] * (len(sent) - 1) + ["0"]
    assert all(len(data) <= 4096 for _, data in sent)
    png = Pixels.open(BytesIO(b64decode("".join(data for _, data in sent))))
    assert (png.format, png.size) == ("PNG", (640, 320))


def test_iterm2_gets_the_size_in_cells() -> None:
    rows = picture_rows(picture(160, 160), "iterm2", 80)
    assert len(rows) == 10
    assert rows[-1].startswith("\x1b[9A\r\x1b7\x1b]1337;File=inline=1;size=")
    assert ";width=20;height=10;preserveAspectRatio=1:" in rows[-1]
    assert rows[-1].endswith("\x07\x1b8\x1b[9B")


def test_half_blocks_draw_two_pixels_per_cell() -> None:
    rows = picture_rows(picture(64, 48), "blocks", 80)
    assert plain(rows) == ["▀" * 8] * 3
    assert "38;2;200;30;30;48;2;200;30;30" in rows[0]


def test_invalid_pictures_are_not_drawn() -> None:
    for broken in (Image("image/png", "AAAA"), Image("image/png", ""), Image("image/svg+xml", "PHN2Zy8+")):
        assert picture_rows(broken, "kitty", 80) == []
        assert picture_rows(broken, "blocks", 80) == []


def test_a_result_with_a_picture_describes_it_also_in_plain_mode() -> None:
    block = call_item("read", "done", {"path": "a.png"}, "read", images=(picture(10, 10),))
    row = image_text(picture(10, 10))
    assert f"│ {row}" in plain(ItemRenderer().closed(block, 60))
    assert row in item_lines(block)


def test_a_picture_in_a_result_is_drawn_below_its_call(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    (ostler.work / "red.png").write_bytes(b64decode(picture(80, 64).data))
    vendor = serve(turn(call("read", {"path": "red.png"})), turn("It is red."))
    terminal = open_tui(vendor, "--yes", "Look.", OSTLER_IMAGES="blocks")
    screen = terminal.wait_for("completed")
    assert "│ image · image/png · 80×64 · " in screen
    between = screen[screen.index("╰") : screen.index("It is red.")]
    assert between.splitlines()[1:] == ["▀" * 10] * 4 + [""]
