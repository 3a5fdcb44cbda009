#!/bin/sh
# Prints the first interpreter of at least Python 3.11 that can make a virtual environment.
# A name on PATH proves nothing (it may be a shim without a version behind it), so each one is asked.
set -u

set -- python3.11 python3.12 python3.13 python3.14 python3 python
[ -z "${PYTHON:-}" ] || set -- "$PYTHON" "$@" # quoted: a path may have spaces in it

too_bare=
for candidate in "$@"; do
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue
    if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        printf '%s\n' "$candidate"
        exit 0
    fi
    too_bare=${too_bare:-$candidate}
done

if [ -n "$too_bare" ]; then
    echo "$too_bare cannot make a virtual environment (no ensurepip): install python3-venv, or say make PYTHON=/path/to/python" >&2
else
    echo "Ostler needs Python 3.11 or newer, and none was found: install one, or say make PYTHON=/path/to/python" >&2
fi
exit 1
