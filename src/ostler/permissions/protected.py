"""The one list of protected files: what is never changed, and which credentials are never read, unasked.

A pattern names a file or folder, with everything below it, in any folder; `*` stands for any part of a name.
One that begins with `/` or `~` names one place. Upper and lower case are the same, because some file systems
think so. `docs/permissions.md` is generated from this list.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from stat import S_ISREG

import msgspec

from ostler.schema.errors import ConfigurationError
from ostler.store import paths


class Protection(msgspec.Struct, frozen=True):
    """Files of one kind, and what happens to them unasked."""

    title: str
    why: str
    """Completes: `… is protected: it is …`."""
    patterns: tuple[str, ...]
    changes: bool = True
    """Whether a change is asked about."""
    reads: bool = False
    """Whether reading is asked about."""
    except_for: tuple[str, ...] = ()


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


OSTLER_NAMES = (".ostler", "ostler.toml")
"""Besides these, `protected_reason` knows the files in Ostler's own folders, wherever those are."""

PROTECTIONS: tuple[Protection, ...] = (
    Protection(
        "Ostler's settings and extensions in a project",
        "Ostler's configuration or an extension, which decides what runs",
        OSTLER_NAMES,
    ),
    Protection(
        "instructions, skills, hooks and settings of agents",
        "an instruction or settings file of agents, which decides what they do",
        _words(
            "AGENTS.md AGENTS.override.md AGENT.md CLAUDE.md CLAUDE.local.md GEMINI.md .mcp.json .claude "
            ".claude.json .agents .codex .gemini .cursor .cursorrules .windsurf .windsurfrules .clinerules "
            ".roo .roorules .continue .aider.conf.yml .opencode .github/copilot-instructions.md "
            ".github/instructions SKILL.md"
        ),
    ),
    Protection(
        "git's own files and hooks",
        "git's own file or a git hook, and git runs what it names",
        _words(
            ".git .gitconfig .config/git .gitmodules .githooks .husky .lefthook lefthook.yml lefthook.yaml "
            ".pre-commit-config.yaml .jj .hg/hgrc .hgrc"
        ),
    ),
    Protection(
        "start-up files of shells and interpreters",
        "a start-up file, and programs run what is in it",
        _words(
            ".profile .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .zshrc .zshenv .zprofile "
            ".zlogin .zlogout .zsh .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .envrc .tmux.conf "
            ".screenrc .xinitrc .xsession .xsessionrc .xprofile .pam_environment .config/fish .config/zsh "
            ".config/tmux .config/environment.d .config/direnv .pythonrc .pythonrc.py .pdbrc .gdbinit "
            ".lldbinit .irbrc .pryrc .Rprofile sitecustomize.py usercustomize.py .cargo/config "
            ".cargo/config.toml .pnpmfile.cjs ~/bin ~/.local/bin ~/.cargo/bin /etc/profile /etc/profile.d "
            "/etc/bash.bashrc /etc/bashrc /etc/zsh /etc/zshrc /etc/zshenv /etc/environment /etc/ld.so.preload"
        ),
    ),
    Protection(
        "tasks of editors",
        "a settings or task file of an editor, and editors run what it names",
        _words(
            ".vscode .idea .zed .fleet .helix .devcontainer .devcontainer.json *.code-workspace .vim .vimrc "
            ".gvimrc .nvimrc .exrc .nvim.lua .lvimrc .config/nvim .emacs .emacs.d .config/emacs .spacemacs "
            ".dir-locals.el .sublime-project .config/Code .config/zed .config/helix"
        ),
    ),
    Protection(
        "what runs by itself: schedules, services and autostart",
        "a schedule, service or autostart file, and the system runs what it names",
        _words(
            ".config/systemd .local/share/systemd .config/autostart .local/share/applications "
            "Library/LaunchAgents /Library/LaunchAgents /Library/LaunchDaemons /etc/systemd /etc/init.d "
            "/etc/rc.local /etc/crontab /etc/cron.d /etc/cron.hourly /etc/cron.daily /etc/cron.weekly "
            "/etc/cron.monthly /var/spool/cron /var/at /etc/sudoers /etc/sudoers.d /etc/pam.d "
            "/tmp/ostler-*-*/*.sock"
        ),
    ),
    Protection(
        "keys and passwords of programs",
        "a file with keys or passwords",
        _words(
            ".ssh .gnupg .aws .azure .kube .docker/config.json .config/gcloud .config/gh .config/hub "
            ".config/op .config/sops .config/rclone .netrc _netrc .npmrc .yarnrc .yarnrc.yml .pypirc .pgpass "
            ".my.cnf .git-credentials .config/git/credentials .cargo/credentials .cargo/credentials.toml "
            ".gem/credentials .terraform.d/credentials.tfrc.json .terraformrc .vault-token .password-store "
            ".local/share/keyrings Library/Keychains .mozilla .config/google-chrome .config/chromium "
            ".codex/auth.json .claude/.credentials.json .gemini/oauth_creds.json /etc/shadow /etc/gshadow "
            "/run/secrets /var/run/secrets"
        ),
        reads=True,
    ),
    Protection(
        "secrets of a project, private keys, and the histories of shells",
        "a file that may contain secrets",
        _words(
            ".env .env.* *.env .envrc secrets.json secrets.yml secrets.yaml credentials.json *.pem *.key "
            "*.p12 *.pfx *.jks *.keystore *.ppk *.kdbx *.tfstate id_rsa id_dsa id_ecdsa id_ecdsa_sk "
            "id_ed25519 id_ed25519_sk .*_history .lesshst .htpasswd"
        ),
        changes=False,
        reads=True,
        except_for=_words(
            ".env.example .env.sample .env.template .env.dist .env.defaults .env.test.example example.env "
            "sample.env"
        ),
    ),
    Protection(
        "the memory and environment of processes",
        "the memory or environment of a process, which may contain keys",
        _words(
            "/proc/*/environ /proc/*/mem /proc/*/task/*/environ /proc/*/task/*/mem /proc/kcore /proc/kmem "
            "/dev/mem /dev/kmem /dev/port"
        ),
        reads=True,
    ),
)

_OWN_TITLE = "Ostler's own configuration, store, socket, keys, trust, tokens and permissions"
_LOADED_TITLE = "extensions that Ostler has loaded, also those named with `-e`"
_OWN = "Ostler's own file, which decides what is allowed"
_OWN_KEYS = "Ostler's own file, which contains keys, tokens or other sessions"
_LOADED = "code or a file that Ostler has loaded"

_STATE_FILES = _words(
    "config.toml trust.json permissions.json servers.json extensions.json packages models extensions skills "
    "prompts agents themes live AGENTS.md CLAUDE.md"
)
_STATE_SECRETS = _words("keys.json tokens.json prompts.jsonl")
_CONFIGURATION = _words("config.toml extensions skills prompts agents themes AGENTS.md CLAUDE.md")

_used: set[Path] = set()


def protect_used(files: Iterable[Path]) -> None:
    """Protects files that this process uses: extensions that it has loaded, wherever they lie."""
    _used.update(file.resolve() for file in files)


def protected_reason(path: Path, *, writes: bool) -> str:
    """Why a call that changes (or reads) what is at this path is asked about; empty if it is not.

    The path is absolute and resolved; ask for the path as given too. A folder that contains something
    protected is not protected itself.
    """
    why = _own_reason(path, writes=writes) or _listed_reason(str(path), writes=writes)
    if not why and writes and _is_in_git_folder(path):
        why = _LISTED_GIT
    if not why and not writes and _is_link_to_own(path):
        why = _OWN_KEYS
    return f"{path} is protected: it is {why}" if why else ""


def is_key_file(path: Path) -> bool:
    """Whether this is the file with the keys that `ostler key set` stores: no tool reads it."""
    with suppress(ConfigurationError):
        return _same_name(path, paths.key_file().resolve()) or _is_same_file(path, paths.key_file())
    return False


def contains_keys(folder: Path) -> bool:
    """Whether Ostler's keys are somewhere below this resolved folder."""
    with suppress(ConfigurationError):
        return paths.key_file().resolve().is_relative_to(folder)
    return False


def _own_reason(path: Path, *, writes: bool) -> str:
    name = _plain(str(path))
    with suppress(ConfigurationError):
        for own, why in _own_places(paths.state_folder(), paths.configuration_file().parent):
            if (writes or why is _OWN_KEYS) and (name == own or name.startswith(f"{own}/")):
                return why
    for store in (*paths.opened_stores(), *_default_store()):
        # Its journal and its lock have names that begin with the store's.
        if name.startswith(_plain(str(store))):
            return _OWN_KEYS
        if writes and path.is_relative_to(store.with_name("live")):
            return _OWN
    if writes and any(path == one or path.is_relative_to(one) for one in _used):
        return _LOADED
    return ""


@cache
def _own_places(state: Path, configuration: Path) -> tuple[tuple[str, str], ...]:
    """Files and folders of Ostler's own, each with its reason."""
    groups = (
        (state, _STATE_SECRETS, _OWN_KEYS),
        (state, _STATE_FILES, _OWN),
        (configuration, _CONFIGURATION, _OWN),
    )
    return tuple(
        (f"{_plain(str(folder.resolve()))}/{_plain(name)}", why)
        for folder, names, why in groups
        for name in names
    )


def _default_store() -> set[Path]:
    with suppress(ConfigurationError):
        return {_resolved(paths.store_file())}
    return set()


@cache
def _resolved(path: Path) -> Path:
    return path.resolve()


def _same_name(path: Path, other: Path) -> bool:
    return _plain(str(path)) == _plain(str(other))


def _is_same_file(path: Path, other: Path) -> bool:
    """Whether both are the same file, as hard links are."""
    try:
        status = path.lstat()
        return status.st_nlink > 1 and os.path.samestat(status, other.lstat())
    except OSError:
        return False


def _is_link_to_own(path: Path) -> bool:
    """Whether it is a hard link to a file of Ostler's own, or to a key in the home folder's `.ssh`."""
    try:
        status = path.lstat()
    except OSError:
        return False
    if status.st_nlink < 2 or not S_ISREG(status.st_mode):
        return False
    with suppress(ConfigurationError, OSError):
        state, home = paths.state_folder(), paths.home_folder()
        files = [state / name for name in _STATE_SECRETS] + [*_default_store(), *paths.opened_stores()]
        folders = [home / name for name in (".ssh", ".aws", ".gnupg")] if home else []
        files += [file for folder in folders if folder.is_dir() for file in folder.iterdir()]
        return any(_is_same_file(path, file) for file in files)
    return False


def _is_in_git_folder(path: Path) -> bool:
    """Whether a folder above looks like a repository without `.git`, which git would use."""
    return any(
        (folder / "HEAD").is_file() and ((folder / "objects").is_dir() or (folder / "commondir").is_file())
        for folder in path.parents
    )


_LISTED_GIT = next(one.why for one in PROTECTIONS if ".git" in one.patterns)
_IGNORABLE = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""macOS ignores these characters in names: with one of them, `.git` is still `.git`."""


def _plain(path: str) -> str:
    """The path as the most lenient file system reads it: no case, no trailing dots and blanks."""
    plain = path.casefold()
    if not plain.isascii():
        plain = _IGNORABLE.sub("", plain)
    if ". " in plain or "./" in plain or " /" in plain or plain.endswith((".", " ")):
        plain = "/".join(part.rstrip(". ") or part for part in plain.split("/"))
    return plain


def _listed_reason(path: str, *, writes: bool) -> str:
    plain, home = _plain(path), paths.home_folder()
    if not _any_pattern(writes, home).search(plain):  # almost always: one search decides
        return ""
    for protection in PROTECTIONS:
        applies = protection.changes if writes else protection.reads
        if not applies or not _expression(protection.patterns, home).search(plain):
            continue
        if not protection.except_for or not _expression(protection.except_for, home).search(plain):
            return protection.why
    return ""


@cache
def _any_pattern(writes: bool, home: Path | None) -> re.Pattern[str]:
    applying = [one for one in PROTECTIONS if (one.changes if writes else one.reads)]
    return _expression(tuple(pattern for one in applying for pattern in one.patterns), home)


@cache
def _expression(patterns: tuple[str, ...], home: Path | None) -> re.Pattern[str]:
    placed = [_placed(pattern, home) for pattern in patterns if pattern.startswith(("/", "~"))]
    anywhere = [_translated(pattern) for pattern in patterns if not pattern.startswith(("/", "~"))]
    forms = [f"^(?:{'|'.join(placed)})"] if placed else []
    forms += [f"/(?:{'|'.join(anywhere)})"] if anywhere else []
    return re.compile(f"(?:{'|'.join(forms)})(?:/|$)", re.DOTALL)


def _placed(pattern: str, home: Path | None) -> str:
    if not pattern.startswith("~"):
        return _translated(pattern)
    return _translated(pattern.replace("~", str(home.resolve()) if home else "/nobody", 1))


def _translated(pattern: str) -> str:
    return "[^/]*".join(re.escape(part) for part in pattern.casefold().split("*"))


def protection_table() -> Iterator[tuple[str, tuple[str, ...], str, tuple[str, ...]]]:
    """For the documentation: each kind of file, its patterns, what is asked about, and exceptions."""
    yield _OWN_TITLE, (), "changes; keys, tokens and the store also reading", ()
    yield _LOADED_TITLE, (), "changes", ()
    for one in PROTECTIONS:
        yield one.title, one.patterns, _ASKED[one.changes, one.reads], one.except_for


_ASKED = {(True, False): "changes", (False, True): "reading", (True, True): "changes and reading"}
