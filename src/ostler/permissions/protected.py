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
from functools import cache, lru_cache
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


PROTECTIONS: tuple[Protection, ...] = (
    Protection(
        "Ostler's settings and extensions in a project",
        "Ostler's configuration or an extension, which decides what runs",
        (".ostler", "ostler.toml"),
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
        "scheduled jobs, services and autostart entries",
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
    text = str(path)
    plain, own = _plain(text), _own_places()
    why = own.reason(plain, writes=writes) or _listed_reason(plain, own.home, writes=writes)
    if not why and writes:
        why = _LOADED if any(path == one or one in path.parents for one in _used) else ""
        why = why or (_LISTED_GIT if _is_in_git_folder(path) else "")
    elif not why and _is_hard_link(text, own):
        why = _OWN_KEYS
    return f"{path} is protected: it is {why}" if why else ""


def is_key_file(path: Path) -> bool:
    """Whether this is the file with the keys that `ostler key set` stores: no tool reads it."""
    keys = _own_places().keys
    return bool(keys) and (_plain(str(path)) == _plain(keys) or _is_same_file(str(path), keys))


def contains_keys(folder: Path) -> bool:
    """Whether Ostler's keys are somewhere below this resolved folder."""
    keys = _own_places().keys
    return bool(keys) and Path(keys).is_relative_to(folder)


class _OwnPlaces(msgspec.Struct, frozen=True):
    """Ostler's own files and folders, resolved and plain."""

    home: str = ""
    keys: str = ""
    """The file with the keys."""
    guarded: frozenset[str] = frozenset()
    """Asked about when changed."""
    secret: frozenset[str] = frozenset()
    """Asked about when read, too."""
    stores: tuple[str, ...] = ()

    def reason(self, plain: str, *, writes: bool) -> str:
        for store in (*self.stores, *(_plain(str(one)) for one in paths.opened_stores())):
            if plain.startswith(store):  # its journal and its lock have names that begin with the store's
                return _OWN_KEYS
            if writes and plain.startswith(f"{store.rpartition('/')[0]}/live/"):
                return _OWN
        at = len(plain)
        while at > 0:
            place = plain[:at]
            if place in self.secret:
                return _OWN_KEYS
            if writes and place in self.guarded:
                return _OWN
            at = plain.rfind("/", 0, at)
        return ""


def _own_places() -> _OwnPlaces:
    names = ("HOME", "OSTLER_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
    return _places_with(tuple(os.environ.get(name, "") for name in names))


@cache
def _places_with(variables: tuple[str, ...]) -> _OwnPlaces:
    """The places while these variables, which decide where they are, have these values."""
    home_folder = paths.home_folder()
    home = str(home_folder.resolve()) if home_folder else ""
    try:
        state = paths.state_folder().resolve()
        configuration = paths.configuration_file().parent.resolve()
    except (ConfigurationError, OSError, RuntimeError):
        return _OwnPlaces(home)
    return _OwnPlaces(
        home,
        str(paths.key_file().resolve()),
        frozenset(
            _plain(str(folder / name))
            for folder, names in ((state, _STATE_FILES), (configuration, _CONFIGURATION))
            for name in names
        ),
        frozenset(_plain(str(state / name)) for name in _STATE_SECRETS),
        (_plain(str(paths.store_file().resolve())),),
    )


def _is_same_file(path: str, other: str) -> bool:
    """Whether both are the same file, as hard links are."""
    try:
        return os.path.samestat(os.lstat(path), os.lstat(other))
    except OSError:
        return False


def _is_hard_link(path: str, own: _OwnPlaces) -> bool:
    """Whether it is another name of a file of Ostler's own, or of a key in the home folder."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    if status.st_nlink < 2 or not S_ISREG(status.st_mode):
        return False
    files = [*map(str, paths.opened_stores())]
    if own.keys:
        state = Path(own.keys).parent
        files += [str(state / name) for name in (*_STATE_SECRETS, paths.store_file().name)]
    for name in (".ssh", ".aws", ".gnupg") if own.home else ():
        with suppress(OSError):
            files += [entry.path for entry in os.scandir(f"{own.home}/{name}")]
    return any(_is_same_file(path, file) for file in files)


def _is_in_git_folder(path: Path) -> bool:
    """Whether a folder above looks like a repository without `.git`, which git would use."""
    return any(
        (folder / "HEAD").is_file() and ((folder / "objects").is_dir() or (folder / "commondir").is_file())
        for folder in path.parents
    )


_LISTED_GIT = next(one.why for one in PROTECTIONS if ".git" in one.patterns)
_IGNORABLE = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""macOS ignores these characters in names: with one of them, `.git` is still `.git`."""


@lru_cache(maxsize=1024)
def _plain(path: str) -> str:
    """The path as the most lenient file system reads it: no case, no trailing dots and blanks."""
    plain = path.casefold()
    if not plain.isascii():
        plain = _IGNORABLE.sub("", plain)
    if ". " in plain or "./" in plain or " /" in plain or plain.endswith((".", " ")):
        plain = "/".join(part.rstrip(". ") or part for part in plain.split("/"))
    return plain


def _listed_reason(plain: str, home: str, *, writes: bool) -> str:
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
def _any_pattern(writes: bool, home: str) -> re.Pattern[str]:
    applying = [one for one in PROTECTIONS if (one.changes if writes else one.reads)]
    return _expression(tuple(pattern for one in applying for pattern in one.patterns), home)


@cache
def _expression(patterns: tuple[str, ...], home: str) -> re.Pattern[str]:
    placed = [_translated(pattern.replace("~", home, 1)) for pattern in patterns if pattern[0] in "/~"]
    anywhere = [_translated(pattern) for pattern in patterns if pattern[0] not in "/~"]
    forms = [f"^(?:{'|'.join(placed)})"] if placed else []
    forms += [f"/(?:{'|'.join(anywhere)})"] if anywhere else []
    return re.compile(f"(?:{'|'.join(forms)})(?:/|$)", re.DOTALL)


def _translated(pattern: str) -> str:
    return "[^/]*".join(re.escape(part) for part in pattern.casefold().split("*"))


def protection_table() -> Iterator[tuple[str, tuple[str, ...], str, tuple[str, ...]]]:
    """For the documentation: each kind of file, its patterns, what is asked about, and exceptions."""
    yield _OWN_TITLE, (), "changes; keys, tokens and the store also reading", ()
    yield _LOADED_TITLE, (), "changes", ()
    for one in PROTECTIONS:
        yield one.title, one.patterns, _ASKED[one.changes, one.reads], one.except_for


_ASKED = {(True, False): "changes", (False, True): "reading", (True, True): "changes and reading"}
