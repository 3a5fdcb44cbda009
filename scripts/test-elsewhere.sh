#!/bin/sh
# Runs the suite of `make test` in unusual surroundings: a copy in a long path with spaces, a long TMPDIR, another user
# (only root can become one), another time zone and language, and an order that the seed decides. Arguments go to pytest.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
surroundings=$(mktemp -d /tmp/elsewhere.XXXXXX)
trap 'rm -rf "$surroundings"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

copy="$surroundings/a folder with spaces, and a name that is longer than most people would choose/ostler"
temporary="$surroundings/a temporary folder with a long name of its own, beyond the length of a socket's address/tmp"
mkdir -p "$copy" "$temporary" "$surroundings/home"
cd "$top"
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --create --ignore-failed-read --file=- | tar --extract --directory="$copy" --file=-

become=
if [ "$(id -u)" = 0 ]; then
    chown -R nobody "$surroundings"
    become="setpriv --reuid=nobody --regid=$(id -g nobody) --clear-groups"
else
    echo "test-elsewhere: only root can become another user; running as $(id -un)" >&2
fi

cd "$copy"
exec </dev/null
umask 077
# shellcheck disable=SC2086  # $become is several words, or none
$become env HOME="$surroundings/home" USER=nobody LOGNAME=nobody TMPDIR="$temporary" XDG_CACHE_HOME="$surroundings/home/cache" \
    TZ=Pacific/Chatham LANG=POSIX LC_ALL=POSIX OSTLER_SEED="${OSTLER_SEED:-0}" \
    sh -c 'make --no-print-directory .venv/.dev && .venv/bin/python -m pytest --shuffle -p no:cacheprovider "$@"' sh "$@"
