"""Requests that no client would send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


@asynccontextmanager
async def connected(
    base_url: str,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    at = urlsplit(base_url)
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def status_of(base_url: str, *lines: str, path: str = "/api/v1/health", body: bytes = b"") -> int:
    """What becomes of a request with these lines below the first."""
    async with asyncio.timeout(60), connected(base_url) as (reader, writer):
        writer.write(
            "\r\n".join([f"GET {path} HTTP/1.1", *lines, "Connection: close", "", ""]).encode() + body
        )
        answer = await reader.readline()
    return int(answer.split()[1])
