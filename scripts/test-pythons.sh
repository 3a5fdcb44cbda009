#!/bin/sh
# Checks the generated pages and runs the tests on every Python that find-pythons.sh finds, each in its own virtual
# environment .venv-VERSION. Arguments go to pytest.
set -u
cd "$(dirname "$0")/.." || exit
trap 'exit 130' INT
tab=$(printf '\t')

prepare() { # VENV PYTHON
    [ -e "$1/.dev" ] && [ -z "$(find requirements/dev.lock pyproject.toml -newer "$1/.dev")" ] && return
    "$2" -m venv --clear "$1" &&
        "$1/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock &&
        "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e . &&
        touch "$1/.dev"
}

pythons=$(scripts/find-pythons.sh)
if [ -z "$pythons" ]; then
    echo "no Python from 3.11 on was found: install one, or run make PYTHON=/path/to/python test-pythons" >&2
    exit 1
fi
summary=
failed=0
while IFS=$tab read -r version python <&3; do
    echo "== Python $version: $python"
    venv=.venv-$version
    if ! prepare "$venv" "$python"; then
        result="failed: installation"
    elif ! "$venv/bin/python" scripts/generate_docs.py --check; then
        result="failed: generated pages"
    elif ! "$venv/bin/python" -m pytest "$@"; then
        result="failed: tests"
    else
        result=passed
    fi
    [ "$result" = passed ] || failed=1
    summary="$summary$version$tab$result
"
done 3<<END
$pythons
END
printf '\n%s' "$summary"
exit "$failed"
