"""Runs agents of one side in this process and prints how long they took.

Arguments: the side, its store, an address for a warm-up run, then one address for each agent.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from time import perf_counter


async def measured(side: str, store: str, warm_up: str, urls: list[str]) -> float:
    async with importlib.import_module(f"bench.programs.{side}").agents(store) as run:
        await run(warm_up)
        begin = perf_counter()
        async with asyncio.TaskGroup() as group:
            for url in urls:
                group.create_task(run(url))
        return perf_counter() - begin


def main() -> None:
    _, side, store, warm_up, *urls = sys.argv
    print(json.dumps({"seconds": asyncio.run(measured(side, store, warm_up, urls))}))
