#!/bin/sh
# Runs the tests of `make test` in an unusual environment: a copy in a long path with spaces, a long TMPDIR, another user
# (only as root), another time zone and language, and in an order that depends on the seed. Arguments go to pytest.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
base=$(mktemp -d /tmp/elsewhere.XXXXXX)
trap 'rm -rf "$base"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

copy="$base/a folder with spaces, and a name that is longer than most people would choose/ostler"
temporary="$base/a temporary folder with a long name of its own, beyond the length of a socket's address/tmp"
mkdir -p "$copy" "$temporary" "$base/home"
cd "$top"
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --create --ignore-failed-read --file=- | tar --extract --directory="$copy" --file=-

become=
if [ "$(id -u)" = 0 ]; then
    chown -R nobody "$base"
    become="setpriv --reuid=nobody --regid=$(id -g nobody) --clear-groups"
else
    echo "test-elsewhere: only root can switch to another user; running as $(id -un)" >&2
fi

cd "$copy"
exec </dev/null
umask 077
# shellcheck disable=SC2086  # $become is empty or several words
$become env HOME="$base/home" USER=nobody LOGNAME=nobody TMPDIR="$temporary" XDG_CACHE_HOME="$base/home/cache" \
    TZ=Pacific/Chatham LANG=POSIX LC_ALL=POSIX OSTLER_SEED="${OSTLER_SEED:-0}" \
    sh -c 'make --no-print-directory .venv/.dev && .venv/bin/python -m pytest --shuffle -p no:cacheprovider "$@"' sh "$@"
