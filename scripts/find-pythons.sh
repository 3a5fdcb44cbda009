#!/bin/sh
# Prints every CPython from 3.11 on that can create a virtual environment, one of each version, as VERSION<TAB>PATH.
# Looks at PYTHON, at PATH, and at the installations of pyenv and uv.
set -u

check='
import ensurepip, platform, sys, sysconfig, venv
if sys.version_info < (3, 11) or sys.implementation.name != "cpython":
    sys.exit(1)
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit(1)  # dependencies have no wheels for it
print(platform.python_version(), sys.executable, sep="\t")
'
pyenv=${PYENV_ROOT:-${HOME:-}/.pyenv}/versions
uv=${UV_PYTHON_INSTALL_DIR:-${XDG_DATA_HOME:-${HOME:-}/.local/share}/uv/python}

for candidate in "${PYTHON:-}" python3.11 python3.12 python3.13 python3.14 python3 \
    "$pyenv"/*/bin/python3 "$uv"/*/bin/python3; do
    [ -n "$candidate" ] && "$candidate" -c "$check" 2>/dev/null
done | awk -F '\t' '!seen[$1]++' | sort -t . -k 1,1n -k 2,2n -k 3,3n
