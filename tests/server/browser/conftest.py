"""A real browser and a real server. Without a browser these tests are skipped, or fail with OSTLER_CI."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.server.browser.pictures import IS_RENEWED
from tests.server.browser.serving import Served
from tests.server.browser.visitor import Visitor
from tests.support.command import Ostler
from tests.support.fixtures import Serve
from tests.support.needed import program

WINDOW = {"width": 1280, "height": 800}


@pytest.fixture
def chromium() -> Iterator[Browser]:
    """One for each test, because Playwright's event loop runs as long as the browser and would disturb async
    tests in between."""
    path = program("chromium", "chromium-browser", "google-chrome")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


@pytest.fixture
def ostler(tmp_path: Path) -> Iterator[Ostler]:
    """In a folder whose name may appear in a picture."""
    with tempfile.TemporaryDirectory() as short:
        folder = (Path(short) if IS_RENEWED else tmp_path).resolve() / "yard"
        folder.mkdir()
        ostler = Ostler(folder)
        ostler.work = ostler.work.rename(ostler.work.with_name("stable"))
        yield ostler


Start = Callable[..., Served]


@pytest.fixture
def start(ostler: Ostler, serve: Serve) -> Iterator[Start]:
    """Starts `ostler serve` with a vendor that answers from a list, or by a function."""
    with ExitStack() as running:

        def begin(*answers: Any, by: Any = None, options: tuple[str, ...] = ()) -> Served:
            served = Served(ostler, serve(*answers, by=by), *(options or ("--permissions", "ask")))
            running.callback(served.stop)
            served.start()
            return served

        yield begin


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visit]:
    """Opens a logged-in window; or, `beside` another, a tab with the same page."""
    with ExitStack() as opened:
        visitors: list[Visitor] = []

        def come(served: Served, *, beside: Visitor | None = None, **options: Any) -> Visitor:
            if beside is not None:
                context, place = beside.page.context, beside.page.url
            else:
                defaults = {
                    "viewport": WINDOW,
                    "color_scheme": "light",
                    "device_scale_factor": 1 + IS_RENEWED,
                }
                context, place = chromium.new_context(**{**defaults, **options}), served.link
                opened.callback(context.close)
            visitor = Visitor(context, served.address)
            visitors.append(visitor)
            # From the start, because a test may press a key before Playwright handles file choosers.
            visitor.page.on("filechooser", lambda chooser: None)
            visitor.enter(place)
            return visitor

        yield come
        for visitor in visitors:
            visitor.check()
