"""Fixtures for the tests of the transports."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator

import pytest

from ostler.models.transport import Transport
from tests.models.transport_servers import Authority, make_authority

TRANSPORTS = {"direct": ("http_client", "DirectTransport"), "httpx": ("httpx_transport", "HttpxTransport")}


@pytest.fixture(params=TRANSPORTS)
async def transport(request: pytest.FixtureRequest) -> AsyncIterator[Transport]:
    module, name = TRANSPORTS[request.param]
    made = getattr(importlib.import_module(f"ostler.models.{module}"), name)()
    yield made
    await made.aclose()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))
