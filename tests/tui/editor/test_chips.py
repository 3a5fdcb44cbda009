"""Chips: what a paste becomes, what is sent for it, and what the history stores."""

from __future__ import annotations

from base64 import b64decode, b64encode
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from ostler.schema.errors import UsageError
from ostler.schema.messages import Image
from ostler.tools.read import MAX_IMAGE
from ostler.tui.editor.chips import MOST_KEPT, Chips, ChipText, SavedChips
from ostler.tui.editor.paste import Picture, picture_from


def lines(count: int) -> str:
    return "\n".join(f"line {number}" for number in range(1, count + 1))


def png(width: int, height: int) -> bytes:
    target = BytesIO()
    Pillow.new("RGB", (width, height), "teal").save(target, "PNG")
    return target.getvalue()


@pytest.mark.parametrize(
    ("pasted", "chip"),
    [
        (lines(11), "[pasted text #1 +11 lines]"),
        (lines(11) + "\n", "[pasted text #1 +11 lines]"),
        ("x" * 1500, "[pasted text #1 1500 chars]"),
        ("x" * 1001, "[pasted text #1 1001 chars]"),
        ("é" * 501, "[pasted text #1 501 chars]"),
        ("\n".join(["y" * 200] * 12), "[pasted text #1 +12 lines]"),
    ],
)
def test_a_long_paste_becomes_a_chip_and_is_sent_in_full(pasted: str, chip: str) -> None:
    chips = Chips()
    assert chips.paste(pasted) == chip
    assert chips.text_with_chips(f"See {chip}, please") == ChipText(f"See {pasted}, please")


@pytest.mark.parametrize("pasted", [lines(10), lines(10) + "\n", "x" * 1000, "é" * 500, "", "\n"])
def test_a_short_paste_stays_text(pasted: str) -> None:
    chips = Chips()
    assert chips.paste(pasted) == pasted
    assert list(chips.spans(pasted)) == []


def test_line_ends_become_plain_ones_and_undecodable_bytes_question_marks() -> None:
    chips = Chips()
    assert chips.paste("a\r\nb\rc\udce9") == "a\nb\nc?"
    assert chips.text_with_chips(chips.paste("a\r\n" * 11)).text == "a\n" * 11


def test_any_typed_text_can_be_sent_and_stored() -> None:
    assert Chips().text_with_chips("caf\udce9") == ChipText("caf?")
    assert Chips().to_save("caf\udce9") == SavedChips("caf?")


def test_chips_are_numbered_and_clear_restarts_the_numbers() -> None:
    chips = Chips()
    first, second = chips.paste(lines(11)), chips.paste(lines(12))
    assert (first, second) == ("[pasted text #1 +11 lines]", "[pasted text #2 +12 lines]")
    assert chips.text_with_chips(f"{second}{first}").text == lines(12) + lines(11)
    chips.clear()
    assert chips.text_with_chips(first).text == first
    assert chips.paste(lines(13)) == "[pasted text #1 +13 lines]"


def test_an_edited_chip_is_ordinary_text() -> None:
    chips = Chips()
    chip = chips.paste(lines(11))
    for edited in (chip[:-1], chip.replace("11", "12"), chip.replace(" ", "\n", 1), chip.upper()):
        assert chips.text_with_chips(edited) == ChipText(edited)
        assert list(chips.spans(edited)) == []


def test_a_deleted_chip_can_be_restored() -> None:
    chips = Chips()
    chip = chips.paste(lines(11))
    assert chips.text_with_chips("").text == ""
    assert chips.text_with_chips(chip + chip).text == lines(11) * 2


def test_pasted_text_is_not_searched_for_chips() -> None:
    chips = Chips()
    first = chips.paste(lines(11))
    second = chips.paste(f"{first}\n" * 11)
    assert chips.text_with_chips(second).text == f"{first}\n" * 11


def test_spans_returns_the_positions_of_chips() -> None:
    chips = Chips()
    chip = chips.paste(lines(11))
    text = f"a {chip} b {chip}"
    assert [text[begin:end] for begin, end in chips.spans(text)] == [chip, chip]


@given(st.lists(st.text("ab\n[]# ", min_size=1, max_size=30).map(lambda text: text * 60)), st.text("xy \n"))
def test_every_paste_is_sent_unchanged(pasted: list[str], between: str) -> None:
    chips = Chips()
    typed = between.join(map(chips.paste, pasted))
    assert chips.text_with_chips(typed).text == between.join(pasted)


# --- pictures ------------------------------------------------------------------------------------------


def test_a_picture_becomes_a_chip_and_is_sent_after_the_text() -> None:
    chips = Chips()
    first = chips.add_picture(picture_from(png(640, 480)))
    second = chips.add_picture(picture_from(png(3, 5)))
    assert (first, second) == ("[image #1 PNG 640x480]", "[image #2 PNG 3x5]")
    content = chips.text_with_chips(f"{second} is a part of {first}, {first}")
    assert content.text == f"{second} is a part of {first}, {first}"
    assert [b64decode(image.data) for image in content.images] == [png(3, 5), png(640, 480)]
    assert chips.text_with_chips(f"only {second[:-1]}").images == ()


def test_a_large_picture_is_scaled_down_and_named_by_its_original_size() -> None:
    picture = picture_from(png(4000, 1000))
    assert picture.about == "PNG 4000x1000"
    with Pillow.open(BytesIO(b64decode(picture.block.data))) as sent:
        assert sent.size == (2000, 500)


def test_unsupported_image_formats_are_refused() -> None:
    with pytest.raises(UsageError, match="PNG, JPEG, GIF or WebP"):
        picture_from(b"%PDF-1.7")
    with pytest.raises(UsageError, match="make a smaller copy"):
        picture_from(png(10, 10) + bytes(MAX_IMAGE))


def test_a_picture_without_a_size_is_named_by_its_format() -> None:
    assert picture_from(b"\xff\xd8\xff\xe0").about == "JPEG"


# --- for a history ---------------------------------------------------------------------------------------


def test_a_line_is_restored_from_the_history_with_its_chips() -> None:
    chips = Chips()
    typed = f"Explain {chips.paste(lines(11))} and {chips.paste('z' * 2000)}"
    chips.paste(lines(40))
    saved = chips.to_save(typed)
    assert set(saved.pasted.values()) == {lines(11), "z" * 2000}
    other = Chips()
    draft = other.paste(lines(99))
    restored = other.restored(saved)
    assert restored == "Explain [pasted text #2 +11 lines] and [pasted text #3 2000 chars]"
    assert other.text_with_chips(restored) == chips.text_with_chips(typed)
    assert other.text_with_chips(draft).text == lines(99)
    assert other.restored(saved) == restored


def test_chips_that_are_not_stored_become_text() -> None:
    chips = Chips()
    image = chips.add_picture(Picture(Image("image/png", data=b64encode(b"x").decode()), "PNG 1x1"))
    fits = f"{image} {chips.paste('z' * MOST_KEPT)}"
    assert chips.to_save(fits).text == f"[image PNG 1x1] [pasted text #1 {MOST_KEPT} chars]"
    too_long = chips.paste("z" * (MOST_KEPT + 1))
    assert chips.to_save(f"{image} {too_long}") == SavedChips(
        f"[image PNG 1x1] [pasted text {MOST_KEPT + 1} chars]"
    )
    assert chips.to_save("plain") == SavedChips("plain")
