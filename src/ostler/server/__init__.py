"""The server: sessions over HTTP, live streams, and a web page. Needs the extra `server`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ostler.core.lazy import lazy_exports

if TYPE_CHECKING:
    from ostler.server.app import create_app as create_app

__getattr__, __dir__, __all__ = lazy_exports(__name__, {"ostler.server.app": ("create_app",)})
