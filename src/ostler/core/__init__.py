"""The loop, and the contracts that it uses: models, tools, hooks, stores. Their implementations are in other
packages, and `ostler.sessions` passes them in."""
