"""Ostler's vocabulary as data: events, requests, messages, outcomes, usage, ids, errors. Nothing here
performs I/O or imports asyncio, so every other package can use it, and any tool that only reads logs."""
