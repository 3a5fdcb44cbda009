"""Serves one GGUF file on loopback for the process that started it, and ends with it.

A program of its own: the library holds the interpreter's lock while it loads a model, and a fault in native
code ends the process it happens in. The order comes as the first line of standard input; standard output
gets what went wrong or, once the model can be asked, a `Served`. Run it with `python -m`.
"""

from __future__ import annotations

import os
import sys
from http.client import HTTPConnection
from importlib import import_module

import msgspec


class Order(msgspec.Struct, frozen=True):
    path: str
    key: str
    """Whoever asks the server has to know it."""
    template: str = ""
    """A chat template in place of the file's own."""
    context: int = 0
    """How many tokens it shall hold; 0 for as many as the model knows and the memory has room for."""


class Served(msgspec.Struct, frozen=True):
    address: str
    knows_tools: bool
    """Whether the model's chat template has a place for tools; without one it is told of none."""


class Capabilities(msgspec.Struct, frozen=True):
    supports_tools: bool = True


class Properties(msgspec.Struct, frozen=True):
    chat_template_caps: Capabilities = Capabilities()


def main() -> None:
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    xllamacpp = import_module("xllamacpp")  # which has no types
    parameters = xllamacpp.CommonParams()
    parameters.model.path = order.path
    parameters.api_keys = [order.key]
    parameters.chat_template = order.template
    parameters.n_ctx = order.context
    parameters.ui = False
    parameters.verbosity = 1  # errors
    # Its threads wait for each other without sleeping: where one has to share its core, all of them crawl.
    threads = max(1, _cores() // 2)
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(parameters)
    served = Served(server.listening_address, _knows_tools(server.listening_address, order.key))
    os.write(sys.stdout.fileno(), msgspec.json.encode(served) + b"\n")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(nowhere, descriptor)
    sys.stdin.buffer.read()
    os._exit(0)


def _cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _knows_tools(address: str, key: str) -> bool:
    connection = HTTPConnection(address.removeprefix("http://"), timeout=10)
    connection.request("GET", "/props", headers={"authorization": f"Bearer {key}"})
    reply = connection.getresponse()
    if reply.status != 200:
        return True  # it does not say
    return msgspec.json.decode(reply.read(), type=Properties).chat_template_caps.supports_tools


if __name__ == "__main__":
    main()
