"""Pictures of the page for the documentation. `make screens` takes them anew."""

from __future__ import annotations

import io
import os

from tests.server.browser.visitor import Visitor
from tests.support.paths import DOCS

IMAGES = DOCS / "images"
IS_RENEWED = bool(os.environ.get("OSTLER_RENEW_SCREENS"))
LARGEST = 200_000


def picture(visitor: Visitor, name: str) -> None:
    """What is seen now, as docs/images/web-NAME.webp."""
    if not IS_RENEWED:
        return
    from PIL import Image

    visitor.page.evaluate("document.fonts.ready")
    shot = visitor.page.screenshot(animations="disabled", caret="hide", scale="device")
    made = io.BytesIO()
    Image.open(io.BytesIO(shot)).save(made, "webp", quality=86, method=6)
    assert made.tell() < LARGEST, f"{name} has {made.tell()} bytes"
    (IMAGES / f"web-{name}.webp").write_bytes(made.getvalue())
