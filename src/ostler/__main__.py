"""`python -m ostler` is the `ostler` command."""

from __future__ import annotations

from ostler.main import main

if __name__ == "__main__":
    main()
