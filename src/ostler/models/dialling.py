"""From a host's name to a connected socket."""

from __future__ import annotations

import asyncio
import socket
from collections import defaultdict, deque
from collections.abc import Iterator
from itertools import count
from typing import Any

HEAD_START_SECONDS = 0.25
"""How long an address is tried alone before the next is tried beside it, as RFC 8305 recommends."""

Address = tuple[socket.AddressFamily, Any]


async def connected_socket(host: str, port: int) -> socket.socket:
    """Tries all addresses of the host; the first that answers wins."""
    untried = deque(_in_turns(await _addresses(host, port)))
    if len(untried) == 1:
        return await _connected(untried[0])
    attempts: list[asyncio.Task[socket.socket]] = []
    winner: socket.socket | None = None
    failure: Exception = OSError(f"{host} has no address")
    try:
        open_attempts: set[asyncio.Task[socket.socket]] = set()
        while untried or open_attempts:
            if untried:
                attempts.append(asyncio.create_task(_connected(untried.popleft())))
                open_attempts.add(attempts[-1])
            done, open_attempts = await asyncio.wait(
                open_attempts,
                timeout=HEAD_START_SECONDS if untried else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in done:
                try:
                    winner = attempt.result()
                    return winner
                except OSError as error:
                    failure = error
        raise failure
    finally:
        for attempt in attempts:
            if not attempt.cancel() and attempt.exception() is None and attempt.result() is not winner:
                attempt.result().close()


async def _addresses(host: str, port: int) -> list[Address]:
    try:
        # An address in figures needs no thread to look it up.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def _in_turns(addresses: list[Address]) -> list[Address]:
    """Families take turns, so that one of them without a route does not hold up the other."""
    places: defaultdict[int, Iterator[int]] = defaultdict(count)
    return sorted(addresses, key=lambda address: next(places[address[0]]))


async def _connected(address: Address) -> socket.socket:
    family, place = address
    endpoint = socket.socket(family, socket.SOCK_STREAM)
    try:
        endpoint.setblocking(False)
        await asyncio.get_running_loop().sock_connect(endpoint, place)
    except BaseException:
        endpoint.close()
        raise
    return endpoint
