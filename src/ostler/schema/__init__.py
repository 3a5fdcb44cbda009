"""Ostler's vocabulary as data: events, requests, messages, outcomes, usage, ids, errors.

Nothing here performs I/O or imports asyncio, so every other layer, and any tool that only reads logs,
can use it.
"""
