"""Serves one GGUF file on loopback for the process that started it, and exits with it.

It is a separate program because the library holds the interpreter's lock while it loads a model, and a fault
in native code ends the process. The `Order` comes as the first line of standard input; standard output gets
error messages or, once the server is ready, a `Served`. Run it with `python -m`.
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
    """The key that clients of the server need."""
    template: str = ""
    """A chat template that replaces the file's own."""
    context: int = 0
    """The context window in tokens; 0 for as many as the model and the memory allow."""


class Served(msgspec.Struct, frozen=True):
    address: str
    knows_tools: bool
    """Whether the model's chat template supports tools."""


class Capabilities(msgspec.Struct, frozen=True):
    supports_tools: bool = True


class Properties(msgspec.Struct, frozen=True):
    chat_template_caps: Capabilities = Capabilities()


def main() -> None:
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    xllamacpp = import_module("xllamacpp")  # it has no types
    parameters = xllamacpp.CommonParams()
    parameters.model.path = order.path
    parameters.api_keys = [order.key]
    parameters.chat_template = order.template
    parameters.n_ctx = order.context
    parameters.ui = False
    parameters.verbosity = 1  # errors
    # Its threads wait for each other without sleeping: if one shares its core, all of them are slow.
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    threads = max(1, cores // 2)
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(parameters)
    served = Served(server.listening_address, _knows_tools(server.listening_address, order.key))
    os.write(sys.stdout.fileno(), msgspec.json.encode(served) + b"\n")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(nowhere, descriptor)
    sys.stdin.buffer.read()
    os._exit(0)


def _knows_tools(address: str, key: str) -> bool:
    connection = HTTPConnection(address.removeprefix("http://"), timeout=10)
    connection.request("GET", "/props", headers={"authorization": f"Bearer {key}"})
    reply = connection.getresponse()
    if reply.status != 200:
        return True  # it does not say
    return msgspec.json.decode(reply.read(), type=Properties).chat_template_caps.supports_tools


if __name__ == "__main__":
    main()
