"""`python -m ostler` is the `ostler` command."""

from __future__ import annotations

from ostler.faces.cli import main

if __name__ == "__main__":
    main()
