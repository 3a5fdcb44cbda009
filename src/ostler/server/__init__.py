"""The server: sessions over HTTP, live streams, and a web page. Needs the extra `server`."""

from __future__ import annotations

from typing import Any


def create_app(*arguments: Any, **options: Any) -> Any:
    """The ASGI application, to serve or to mount; see `ostler.server.app.create_app`."""
    from ostler.server.app import create_app

    return create_app(*arguments, **options)
