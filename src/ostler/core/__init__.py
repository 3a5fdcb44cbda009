"""The loop, and the contracts that it drives: models, tools, hooks, stores.

Implementations live in the layers below and are handed in by `ostler.sessions`.
"""
