"""The programs that only read, each with the options that neither write nor run anything, from its manual.

`-x` is an option, `-x=NUM` one with a value (attached, or the next word), `-x[NUM]` and `--name[=TEXT]` one
whose value may be attached, `-NUM` a number. After `|` stand the operands. A FILE is judged like a call of
`read`.
"""

from __future__ import annotations

_SUMS = "-b -t -z --binary --text --tag --zero | FILE..."

_GREP = (
    "-a -b -c -E -F -G -P -h -H -i -I -l -L -n -o -q -r -R -s -T -U -v -w -x -y -z -Z -NUM -A=NUM -B=NUM "
    "-C=NUM -m=NUM -e=TEXT -f=FILE --after-context=NUM --basic-regexp --before-context=NUM "
    "--binary-files=TEXT --byte-offset --color[=TEXT] --colour[=TEXT] --context=NUM --count "
    "--dereference-recursive --exclude=TEXT --exclude-dir=TEXT --extended-regexp --file=FILE "
    "--files-with-matches --files-without-match --fixed-strings --ignore-case --include=TEXT --initial-tab "
    "--invert-match --line-buffered --line-number --line-regexp --max-count=NUM --no-filename "
    "--no-messages --null --null-data --only-matching --perl-regexp --quiet --recursive --regexp=TEXT "
    "--silent --text --with-filename --word-regexp | PATTERN FILE..."
)

PROGRAMS: dict[str, str] = {
    ":": "| ANY...",
    "basename": "-a -s=TEXT -z --multiple --suffix=TEXT --zero | TEXT...",
    "cat": "-A -b -e -E -n -s -t -T -u -v --number --number-nonblank --show-all --show-ends "
    "--show-nonprinting --show-tabs --squeeze-blank | FILE...",
    "cmp": "-b -l -s -i=NUM -n=NUM --bytes=NUM --ignore-initial=NUM --print-bytes --quiet --silent "
    "--verbose | FILE...",
    "comm": "-1 -2 -3 -i -z --check-order --nocheck-order --output-delimiter=TEXT --total "
    "--zero-terminated | FILE...",
    "command": "-v | TEXT",
    "cut": "-b=TEXT -c=TEXT -d=TEXT -f=TEXT -n -s -z --bytes=TEXT --characters=TEXT --complement "
    "--delimiter=TEXT --fields=TEXT --only-delimited --output-delimiter=TEXT --zero-terminated | "
    "FILE...",
    "date": "-u -R -I[TEXT] --date=TEXT --iso-8601[=TEXT] --rfc-3339=TEXT --rfc-email --universal --utc | "
    "+FORMAT",
    "df": "-a -h -H -i -k -l -P -T --all --human-readable --inodes --local --portability --print-type --si "
    "--total | FILE...",
    "diff": "-a -b -B -c -C=NUM -d -E -e -i -I=TEXT -L=TEXT -n -N -p -q -r -s -t -T -u -U=NUM -w -W=NUM "
    "-x=TEXT -y -Z --brief --color[=TEXT] --context[=NUM] --exclude=TEXT --expand-tabs "
    "--ignore-all-space --ignore-blank-lines --ignore-case --ignore-space-change "
    "--ignore-trailing-space --label=TEXT --left-column --minimal --new-file --no-dereference "
    "--normal --recursive --report-identical-files --show-c-function --side-by-side "
    "--strip-trailing-cr --suppress-common-lines --text --unified[=NUM] --width=NUM | FILE...",
    "dirname": "-z --zero | TEXT...",
    "du": "-0 -a -b -c -d=NUM -D -h -H -k -l -L -m -P -s -S -x --all --apparent-size --block-size=TEXT "
    "--bytes --count-links --dereference --exclude=TEXT --human-readable --inodes --max-depth=NUM "
    "--null --one-file-system --separate-dirs --si --summarize --time[=TEXT] --total | FILE...",
    "echo": "| ANY...",
    "egrep": _GREP,
    "expand": "-i -t=TEXT --initial --tabs=TEXT | FILE...",
    "false": "| ANY...",
    "fgrep": _GREP,
    "file": "-0 -b -h -i -k -L -N --brief --dereference --extension --keep-going --mime --mime-encoding "
    "--mime-type --no-dereference --no-pad --print0 | FILE...",
    "find": "-H -L -P -a -and -o -or -not -true -false -daystart -depth -empty -executable -follow -ls "
    "-mount -noleaf -print -print0 -prune -quit -readable -writable -xdev -name=TEXT -iname=TEXT "
    "-path=TEXT -ipath=TEXT -wholename=TEXT -regex=TEXT -iregex=TEXT -regextype=TEXT -lname=TEXT "
    "-ilname=TEXT -type=TEXT -xtype=TEXT -fstype=TEXT -user=TEXT -group=TEXT -printf=TEXT "
    "-perm=TEXT -size=NUM -mtime=NUM -mmin=NUM -atime=NUM -amin=NUM -ctime=NUM -cmin=NUM -used=NUM "
    "-uid=NUM -gid=NUM -inum=NUM -links=NUM -maxdepth=NUM -mindepth=NUM -newer=FILE -anewer=FILE "
    "-cnewer=FILE -samefile=FILE | FILE...",
    "fold": "-b -s -w=NUM --bytes --spaces --width=NUM | FILE...",
    "grep": _GREP,
    "head": "-c=NUM -n=NUM -q -v -z -NUM --bytes=NUM --lines=NUM --quiet --silent --verbose "
    "--zero-terminated | FILE...",
    "hostname": "-s |",
    "id": "-g -G -n -r -u -z --group --groups --name --real --user --zero | TEXT...",
    "join": "-1=NUM -2=NUM -a=NUM -e=TEXT -i -j=NUM -o=TEXT -t=TEXT -v=NUM -z --check-order --header "
    "--ignore-case --nocheck-order --zero-terminated | FILE...",
    "jq": "-a -c -C -e -j -M -n -r -R -s -S --ascii-output --color-output --compact-output --exit-status "
    "--indent=NUM --join-output --monochrome-output --null-input --raw-input --raw-output --slurp "
    "--sort-keys --stream --tab | FILTER FILE...",
    "ls": "-1 -a -A -b -B -c -C -d -f -F -g -G -h -H -i -k -l -L -m -n -N -o -p -q -Q -r -R -s -S -t -u -U "
    "-v -w=NUM -x -X -Z --all --almost-all --author --block-size=TEXT --classify[=TEXT] "
    "--color[=TEXT] --dereference --directory --escape --file-type --format=TEXT --full-time "
    "--group-directories-first --hide=TEXT --human-readable --hyperlink[=TEXT] --ignore=TEXT "
    "--ignore-backups --indicator-style=TEXT --inode --literal --no-group --numeric-uid-gid "
    "--quote-name --quoting-style=TEXT --recursive --reverse --show-control-chars --si --size "
    "--sort=TEXT --time=TEXT --time-style=TEXT --width=NUM --zero | FILE...",
    "md5sum": _SUMS,
    "nl": "-b=TEXT -d=TEXT -f=TEXT -h=TEXT -i=NUM -l=NUM -n=TEXT -p -s=TEXT -v=NUM -w=NUM "
    "--body-numbering=TEXT --number-format=TEXT --number-separator=TEXT --number-width=NUM "
    "--starting-line-number=NUM | FILE...",
    "nproc": "--all --ignore=NUM |",
    "od": "-a -A=TEXT -b -c -d -f -i -j=NUM -l -N=NUM -o -s -S=NUM -t=TEXT -v -w[NUM] -x "
    "--address-radix=TEXT --endian=TEXT --format=TEXT --output-duplicates --read-bytes=NUM "
    "--skip-bytes=NUM --strings[=NUM] --width[=NUM] | FILE...",
    "paste": "-d=TEXT -s -z --delimiters=TEXT --serial --zero-terminated | FILE...",
    "printf": "| FORMAT TEXT...",
    "pwd": "-L -P |",
    "readlink": "-e -f -m -n -q -s -v -z --canonicalize --canonicalize-existing --canonicalize-missing "
    "--no-newline --quiet --silent --verbose --zero | FILE...",
    "realpath": "-e -L -m -P -q -s -z --canonicalize-existing --canonicalize-missing --logical "
    "--no-symlinks --physical --quiet --relative-base=FILE --relative-to=FILE --strip --zero | "
    "FILE...",
    "rev": "| FILE...",
    "rg": "-a -b -c -F -H -i -I -l -L -n -N -o -p -P -q -s -S -u -U -v -w -x -0 -. -A=NUM -B=NUM -C=NUM "
    "-d=NUM -e=TEXT -f=FILE -g=TEXT -j=NUM -m=NUM -M=NUM -r=TEXT -t=TEXT -T=TEXT --after-context=NUM "
    "--before-context=NUM --byte-offset --case-sensitive --color=TEXT --column --context=NUM --count "
    "--count-matches --crlf --debug --engine=TEXT --file=FILE --files --files-with-matches "
    "--files-without-match --fixed-strings --follow --glob=TEXT --glob-case-insensitive --heading "
    "--hidden --iglob=TEXT --ignore-case --include-zero --invert-match --json --line-buffered "
    "--line-number --line-regexp --max-columns=NUM --max-count=NUM --max-depth=NUM "
    "--max-filesize=NUM --multiline --multiline-dotall --no-column --no-config --no-filename "
    "--no-heading --no-ignore --no-ignore-parent --no-ignore-vcs --no-line-number --no-messages "
    "--null --null-data --one-file-system --only-matching --passthru --pcre2 --pretty --quiet "
    "--regexp=TEXT --replace=TEXT --smart-case --sort=TEXT --sortr=TEXT --stats --text --threads=NUM "
    "--trim --type=TEXT --type-list --type-not=TEXT --unrestricted --vimgrep --with-filename "
    "--word-regexp | PATTERN FILE...",
    "sed": "-n -E -r | RANGE FILE...",
    "seq": "-w -s=TEXT --equal-width --separator=TEXT | NUMBER...",
    "sha1sum": _SUMS,
    "sha256sum": _SUMS,
    "sha512sum": _SUMS,
    "sleep": "| SECONDS",
    "sort": "-b -c -C -d -f -g -h -i -k=TEXT -m -M -n -r -R -s -t=TEXT -u -V -z --check[=TEXT] --debug "
    "--dictionary-order --field-separator=TEXT --general-numeric-sort --human-numeric-sort "
    "--ignore-case --ignore-leading-blanks --ignore-nonprinting --key=TEXT --merge --month-sort "
    "--numeric-sort --random-sort --reverse --sort=TEXT --stable --unique --version-sort "
    "--zero-terminated | FILE...",
    "stat": "-c=TEXT -f -L -t --dereference --file-system --format=TEXT --printf=TEXT --terse | FILE...",
    "tac": "-b -r -s=TEXT --before --regex --separator=TEXT | FILE...",
    "tail": "-c=NUM -n=NUM -q -v -z -NUM --bytes=NUM --lines=NUM --quiet --silent --verbose "
    "--zero-terminated | FILE...",
    "test": "| TEST",
    "tr": "-c -C -d -s -t --complement --delete --squeeze-repeats --truncate-set1 | TEXT...",
    "tree": "-a -A -C -d -D -f -F -g -h -i -I=TEXT -l -L=NUM -n -N -p -P=TEXT -q -Q -r -s -S -t -u -U -v "
    "-x -X -J --dirsfirst --du --filelimit=NUM --gitignore --ignore-case --inodes --matchdirs "
    "--noreport --prune --si --sort=TEXT --timefmt=TEXT | FILE...",
    "true": "| ANY...",
    "tsort": "| FILE...",
    "type": "| TEXT...",
    "uname": "-a -i -m -n -o -p -r -s -v --all --kernel-name --kernel-release --kernel-version --machine "
    "--nodename --operating-system --processor |",
    "unexpand": "-a -t=TEXT --all --first-only --tabs=TEXT | FILE...",
    "uniq": "-c -d -D -f=NUM -i -s=NUM -u -w=NUM -z --all-repeated[=TEXT] --check-chars=NUM --count "
    "--group[=TEXT] --ignore-case --repeated --skip-chars=NUM --skip-fields=NUM --unique "
    "--zero-terminated | FILE",
    "uptime": "-p -s --pretty --since |",
    "wc": "-c -l -L -m -w --bytes --chars --lines --max-line-length --words | FILE...",
    "which": "-a | TEXT...",
    "whoami": "|",
}
"""Options and operands. FILE is one file at most, FILE... any number; TEXT is not read."""

_DIFF = (
    "-a -b -p -R -s -u -w -W -z -C[NUM] -G=TEXT -M[NUM] -S=TEXT -U=NUM --abbrev[=NUM] --check "
    "--color[=TEXT] --color-words[=TEXT] --compact-summary --diff-algorithm=TEXT --diff-filter=TEXT "
    "--dirstat[=TEXT] --exit-code --find-copies[=TEXT] --find-renames[=TEXT] --full-index "
    "--function-context --histogram --ignore-all-space --ignore-blank-lines --ignore-space-at-eol "
    "--ignore-space-change --inter-hunk-context=NUM --minimal --name-only --name-status --no-color "
    "--no-ext-diff --no-patch --no-prefix --no-renames --no-textconv --numstat --patch --patch-with-stat "
    "--patience --pickaxe-all --pickaxe-regex --quiet --raw --relative[=TEXT] --shortstat --stat[=TEXT] "
    "--summary --text --unified=NUM --word-diff[=TEXT] --word-diff-regex=TEXT "
)
_LOG = _DIFF + (
    "-c -E -F -g -i -L=TEXT -m -n=NUM -NUM --abbrev-commit --after=TEXT --all --all-match --ancestry-path "
    "--author=TEXT --author-date-order --before=TEXT --boundary --branches[=TEXT] --cc --cherry "
    "--cherry-mark --cherry-pick --committer=TEXT --date=TEXT --date-order --decorate[=TEXT] "
    "--first-parent --follow --format=FORMAT --full-history --graph --grep=TEXT --invert-grep --left-only "
    "--left-right --max-count=NUM --merges --no-abbrev-commit --no-decorate --no-merges --oneline "
    "--pretty[=FORMAT] --remotes[=TEXT] --reverse --right-only --simplify-by-decoration --since=TEXT "
    "--skip=NUM --source --tags[=TEXT] --topo-order --until=TEXT --walk-reflogs | FILE..."
)

GIT: dict[str, str] = {
    "blame": "-b -c -C[NUM] -e -f -l -L=TEXT -M[NUM] -n -p -s -t -w --abbrev=NUM --date=TEXT "
    "--line-porcelain --porcelain --root --show-email --show-name --show-number --since=TEXT | "
    "FILE...",
    "branch": "-a -r -v --all --color[=TEXT] --list --no-color --remotes --show-current --sort=TEXT "
    "--verbose |",
    "cat-file": "-e -p -s -t | FILE...",
    "describe": "--abbrev=NUM --all --always --candidates=NUM --contains --exact-match --exclude=TEXT "
    "--first-parent --long --match=TEXT --tags | FILE...",
    "diff": _DIFF + "--cached --merge-base --staged | FILE...",
    "grep": "-a -A=NUM -B=NUM -c -C=NUM -e=TEXT -E -F -G -h -H -i -I -l -L -n -o -P -q -v -w -W -z "
    "--all-match --and --break --cached --color[=TEXT] --column --count --exclude-standard "
    "--extended-regexp --files-with-matches --files-without-match --fixed-strings --heading "
    "--ignore-case --invert-match --line-number --max-depth=NUM --name-only --no-color --not "
    "--null --only-matching --or --perl-regexp --quiet --show-function --text --untracked "
    "--word-regexp | PATTERN FILE...",
    "log": _LOG,
    "ls-files": "-c -d -f -i -k -m -o -s -t -u -v -x=TEXT -z --abbrev[=NUM] --cached --deduplicate "
    "--deleted --directory --error-unmatch --exclude=TEXT --exclude-standard --full-name "
    "--ignored --killed --modified --no-empty-directory --others --stage --unmerged | FILE...",
    "ls-tree": "-d -l -r -t -z --abbrev[=NUM] --full-name --full-tree --long --name-only --name-status "
    "--object-only | FILE...",
    "merge-base": "-a --all --fork-point --independent --is-ancestor --octopus | FILE...",
    "remote": "-v --verbose |",
    "rev-list": "-n=NUM -NUM --all --author=TEXT --before=TEXT --branches[=TEXT] --count --first-parent "
    "--grep=TEXT --left-right --max-count=NUM --merges --no-merges --reverse --since=TEXT "
    "--skip=NUM --tags[=TEXT] --until=TEXT | FILE...",
    "rev-parse": "-q --abbrev-ref[=TEXT] --absolute-git-dir --all --branches[=TEXT] --git-common-dir "
    "--git-dir --is-bare-repository --is-inside-git-dir --is-inside-work-tree --quiet "
    "--short[=NUM] --show-cdup --show-prefix --show-toplevel --symbolic --symbolic-full-name "
    "--tags[=TEXT] --verify | FILE...",
    "shortlog": "-c -e -n -s --all --committer --email --no-merges --numbered --since=TEXT --summary "
    "--until=TEXT | FILE...",
    "show": _LOG,
    "stash list": "|",
    "status": "-b -s -u[TEXT] -v -z --ahead-behind --branch --find-renames[=TEXT] --ignored[=TEXT] --long "
    "--no-ahead-behind --no-renames --porcelain[=TEXT] --renames --short --show-stash "
    "--untracked-files[=TEXT] --verbose | FILE...",
    "tag": "-l -n[NUM] --color[=TEXT] --list --sort=TEXT |",
    "worktree list": "-v -z --porcelain --verbose |",
}
"""The subcommands of git, in the repository of the working directory only."""
