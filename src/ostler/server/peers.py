"""The process at the other end of a TCP connection, if it runs on this machine: agents give no consent.

Linux only. A proxy or a tunnel on this machine is such a process itself; who uses it is not visible.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.types import Scope

from ostler.core.store import Store
from ostler.schema.errors import ConsentRefused

CONNECTION = "ostler.connection"
"""In the scope of a request: the addresses of the client and of this end, before a proxy's headers count."""

Address = tuple[IPv4Address | IPv6Address, int]

GONE = "the program that sent this has ended: send it again, and wait for the answer"


class _Socket(msgspec.Struct, frozen=True):
    """A row of /proc/net/tcp."""

    own: Address
    other: Address
    uid: int
    inode: int


async def refuse_agents(store: Store, request: Request) -> None:
    """Raises `ConsentRefused` if an agent of the store has started the process that sends this request."""
    for process in await asyncio.to_thread(processes_of, request.scope):
        if problem := store.consent_problem(process):
            raise ConsentRefused(problem)


def processes_of(scope: Scope) -> list[int]:
    """The processes that have the client's end of the connection; none if it is on another machine. If no
    process can be seen with it, those of its user that cannot be looked into. Raises `ConsentRefused` if it
    was closed: then nobody can tell."""
    if sys.platform != "linux" or (ends := _ends(scope)) is None:
        return []
    peer = next((one for one in _sockets() if (one.own, one.other) == ends), None)
    if peer is not None and peer.inode:
        return _owners(peer)
    (client, _), (server, _) = ends
    if peer is not None or client.is_loopback or client == server:
        raise ConsentRefused(GONE)  # our own end may be closed by now, too
    return []


def _ends(scope: Scope) -> tuple[Address, Address] | None:
    """The addresses of the client and of this end."""
    client, server = scope.get(CONNECTION) or (scope.get("client"), scope.get("server"))
    if not client or not server:
        return None
    try:
        return _address(*client[:2]), _address(*server[:2])
    except (TypeError, ValueError):  # a Unix socket, or a test without a connection
        return None


def _address(host: str, port: int) -> Address:
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address, int(port)


def _sockets() -> Iterator[_Socket]:
    for name in ("tcp", "tcp6"):
        with suppress(OSError):  # a system without IPv6
            for line in Path(f"/proc/self/net/{name}").read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                yield _Socket(_decoded(fields[1]), _decoded(fields[2]), int(fields[7]), int(fields[9]))


def _decoded(text: str) -> Address:
    """Each 32-bit word is written as a number of this machine."""
    digits, _, port = text.partition(":")
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    address = ip_address(packed)
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address, int(port, 16)


def _owners(peer: _Socket) -> list[int]:
    owners: list[int] = []
    hidden: list[int] = []
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                if _has_socket(entry.path, peer.inode):
                    owners.append(int(entry.name))
            except PermissionError:
                if _user_of(entry.path) == peer.uid:
                    hidden.append(int(entry.name))
    return owners or hidden


def _has_socket(process: str, inode: int) -> bool:
    """Whether a process has the socket open. Raises `PermissionError` if it cannot be looked into."""
    try:
        descriptors = os.listdir(f"{process}/fd")  # noqa: PTH208  # many: faster than a `Path` for each
    except PermissionError:
        raise
    except OSError:
        return False  # it has exited
    for descriptor in descriptors:
        with suppress(OSError):
            if os.readlink(f"{process}/fd/{descriptor}") == f"socket:[{inode}]":  # noqa: PTH115
                return True
    return False


def _user_of(process: str) -> int:
    """The real user, which is visible even if the process hides everything else."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(process, "status").read_text(encoding="utf-8", errors="replace").splitlines()
        return int(next(line for line in lines if line.startswith("Uid:")).split()[1])
    return -1
