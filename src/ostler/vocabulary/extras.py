"""How to get a part of Ostler that is not installed by default."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """From the folder that it was installed from: another project has the name in the public index."""
    return f"in Ostler's folder say `.venv/bin/pip install -e '.[{extra}]'`"
