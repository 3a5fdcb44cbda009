"""`ostler serve`: sessions over HTTP, live streams and a web page."""

from __future__ import annotations

import argparse
import sys

from ostler.faces.cli.arguments import Parser, add_model_options, add_work_options
from ostler.vocabulary.errors import ConfigurationError
from ostler.vocabulary.extras import how_to_install

DEFAULT_PORT = 8420


def run(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        import starlette
        import uvicorn
    except ImportError:
        raise ConfigurationError(f"serving needs starlette and uvicorn: {how_to_install('server')}") from None
    del starlette, uvicorn
    if options.openapi:
        from ostler.faces.web.app import OPERATIONS, PREFIX
        from ostler.faces.web.openapi import openapi
        from ostler.faces.web.operations import encode

        sys.stdout.buffer.write(encode(openapi(OPERATIONS, PREFIX)) + b"\n")
        return 0
    from ostler.faces.web.serving import serve

    return serve(options)


def _parser() -> Parser:
    parser = Parser(
        prog="ostler serve",
        description="Serves the sessions of this machine over HTTP: an API, live streams and a web page.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=_port, default=DEFAULT_PORT, help=f"0 takes any ({DEFAULT_PORT})")
    parser.add_argument(
        "--allow-host", metavar="NAME", action="append", default=[], help="a name it may be asked for by"
    )
    parser.add_argument(
        "--allow-origin", metavar="URL", action="append", default=[], help="pages from there may ask"
    )
    parser.add_argument(
        "--behind-proxy",
        metavar="ADDRESS",
        type=_network,
        action="append",
        default=[],
        help="a proxy, or a network of them, whose word on its clients (X-Forwarded-For, -Proto) counts",
    )
    parser.add_argument("--openapi", action="store_true", help="print the OpenAPI document, and end")
    add_model_options(parser)
    add_work_options(parser)
    return parser


def _port(given: str) -> int:
    if not given.isdecimal() or int(given) > 65535:
        raise argparse.ArgumentTypeError(f"{given!r} is not a port: take one from 0 to 65535")
    return int(given)


def _network(given: str) -> str:
    from ipaddress import ip_network

    try:
        return str(ip_network(given, strict=False))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{given!r} is not an address like 127.0.0.1 or 10.0.0.0/8"
        ) from None
