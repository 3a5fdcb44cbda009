#!/bin/sh
# Prints the first interpreter of Python 3.11 or newer that can create a virtual environment; with PYTHON, that one or none.
# Runs each one, because a name on PATH may be a shim without a version behind it.
set -u

set -- python3.11 python3.12 python3.13 python3.14 python3 python
[ -z "${PYTHON:-}" ] || set -- "$PYTHON" # quoted: a path may contain spaces

without_venv=
for candidate in "$@"; do
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue
    if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        printf '%s\n' "$candidate"
        exit 0
    fi
    without_venv=${without_venv:-$candidate}
done

if [ -n "$without_venv" ]; then
    echo "$without_venv cannot create a virtual environment (no ensurepip): install python3-venv, or run make PYTHON=/path/to/python" >&2
elif [ -n "${PYTHON:-}" ]; then
    echo "$PYTHON is not a working Python 3.11 or newer: choose another with make PYTHON=/path/to/python" >&2
else
    echo "Ostler needs Python 3.11 or newer, and none was found: install one, or run make PYTHON=/path/to/python" >&2
fi
exit 1
