"""Programs that run other programs: wrappers, interpreters, and package managers that run scripts.

Deny rules cannot see what they run, and a remembered rule with room for more words would allow anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ostler.permissions.plain_shell import word_set

WRAPPERS = word_set(
    "ash at bash batch bpython busybox chpst chroot chrt command coproc crontab csh daemonize dash "
    "dbus-launch dbus-run-session doas docker dosu dtach entr env eval exec expect faketime "
    "fakechroot fakeroot fish firejail flatpak flock gdb gosu incus ionice ksh ld.so linux32 "
    "linux64 ltrace lxc machinectl makepkg mosh multipass nice nohup nsenter numactl parallel perf "
    "pkexec podman prlimit proot proxychains proxychains4 pv reptyr rlwrap rsh run-parts "
    "runcon runuser runsv schroot screen script setarch setpriv setsid setuidgid sg sh "
    "source softlimit ssh ssh-agent sshpass start-stop-daemon stdbuf strace su sudo sudoedit "
    "systemd-inhibit systemd-nspawn systemd-run taskset tcsh time timeout tini tmux torify torsocks "
    "toybox trap trickle tsocks unbuffer unshare valgrind vagrant vglrun wasmtime watch "
    "watchexec wine wsl xargs xvfb-run yash zellij zsh . builtin npx bunx uvx pipx pnpx dlx "
    "corepack direnv mise asdf nix-shell"
)

INTERPRETERS = word_set(
    "awk bc bun clisp deno ed elixir emacs erl ex expect gawk gdb ghci guile iex ipython java "
    "julia lua luajit mawk nawk node nodejs nvim ocaml octave osascript perl php pry pwsh python "
    "python2 python3 R racket rake Rscript ruby runghc sbcl scala sed sqlite3 swift tclsh ts-node tsx "
    "vi view vim wish"
)

_CODE = re.compile(r"-[A-Za-z]*[ceEr]|--(?:eval|exec|print|command|run|expression)(?:=.*)?")
"""Options by which an interpreter takes its program from the command line."""

_MANAGERS = word_set(
    "apk apt apt-get brew bun bundle bundler cargo composer conda deno dnf dotnet flatpak gem go "
    "gradle gradlew hatch helm just kubectl mamba mix mvn nix npm nuget opkg pacman pdm pip "
    "pip3 pipenv pixi pnpm poetry port rails rye snap stack task tox uv yarn yum zypper docker podman "
    "nerdctl"
)
_RUNNING = word_set(
    "add build ci compose create dist-upgrade dlx exec generate global i init install install-test it "
    "reinstall run run-script rx script shell start sync tool up update upgrade upgrade-interactive x"
)

_GIT_RUNS = ("-c", "--config-env", "--exec-path", "--upload-pack", "--receive-pack", "--exec", "-x")
_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")


def name_of(word: str) -> str:
    """The program, wherever it lies; `python3.12` is `python3`."""
    return re.sub(r"(?<=\d)\.\d+\Z", "", word.rpartition("/")[2])


def is_wrapper(words: Sequence[str | None]) -> bool:
    """Whether a command runs another one that its words name."""
    if not words or words[0] is None:
        return True
    name = name_of(words[0])
    others = [word for word in words[1:] if word is not None]
    if name in WRAPPERS:
        return True
    if name in INTERPRETERS:
        return any(_CODE.fullmatch(word) for word in others) or name in (
            "awk",
            "gawk",
            "mawk",
            "nawk",
            "sed",
            "ed",
        )
    if name == "git":
        return any(word.partition("=")[0] in _GIT_RUNS or re.match(r"-c.", word) for word in others)
    return name == "find" and any(word in _FIND_RUNS for word in others)


def runs_what_it_is_given(words: Sequence[str | None]) -> bool:
    """Whether further words would say what else runs: then a question offers only the exact command."""
    if is_wrapper(words):
        return True
    assert words[0] is not None
    name = name_of(words[0])
    if name in INTERPRETERS:
        return True
    return name in _MANAGERS and any(word is None or word in _RUNNING for word in words[1:])
