"""`python -m ostler.testkit.vendors`: a fake vendor in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import get_args

import msgspec

from ostler.models.providers import Wire
from ostler.testkit.vendors.script import read_script
from ostler.testkit.vendors.server import FakeVendor


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ostler.testkit.vendors",
        description="Answer model requests from a script until killed. Print the base URL first.",
    )
    parser.add_argument("--wire", choices=get_args(Wire), required=True)
    parser.add_argument("--script", type=Path, required=True, help="a JSON list of answers")
    parser.add_argument("--port", type=int, default=0, help="0 for any free port")
    parser.add_argument("--api-key", default="", help="refuse requests without this key")
    options = parser.parse_args()
    try:
        script = read_script(options.script)
    except (OSError, msgspec.DecodeError) as error:
        print(f"cannot read the script {options.script}: {error}", file=sys.stderr)
        return 2
    vendor = FakeVendor(script, api_key=options.api_key, port=options.port)
    try:
        asyncio.run(_serve(vendor, options.wire))
    except KeyboardInterrupt:
        return 130
    return 0


async def _serve(vendor: FakeVendor, wire: Wire) -> None:
    async with vendor:
        print(vendor.base_url(wire), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
