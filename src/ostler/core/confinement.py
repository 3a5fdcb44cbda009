"""Confinement: how a command runs that was only judged harmless. It may read and compute, and write to
`/dev/null` and a private temporary folder, and nothing else.

On Linux this is Landlock and seccomp. Both apply to a *thread* and to what it starts: a thread of its own is
restricted for each command, starts the command and ends. So nothing runs between fork and exec, the quick
`vfork` of `subprocess` stays, and the rest of our process keeps its rights.
"""

from __future__ import annotations

import _thread
import ctypes
import fcntl
import gc
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from ostler.core import seccomp
from ostler.core.lazy import lazy_module
from ostler.schema.errors import UsageError

shutil: Any = lazy_module("shutil")
T = TypeVar("T")


class Confinement(Protocol):
    """Confines one command. Another implementation may put a program such as bubblewrap before it.

    - `start` calls `spawn` exactly once, with the command or with one that runs it, and returns its result.
      What `spawn` raises is raised. If the command cannot be confined, `UsageError` is raised and nothing
      was started.
    - `remove` is called when nothing of the command runs any more. It never raises.
    """

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that the command gets."""

    def start(self, spawn: Callable[[Sequence[str]], T], command: Sequence[str]) -> T: ...

    def remove(self) -> None: ...


class ConfinementStatus(msgspec.Struct, frozen=True):
    """Whether commands can be confined here."""

    is_active: bool
    text: str


@cache
def confinement_status() -> ConfinementStatus:
    """Whether commands can be confined here; tried out once, in a thread."""
    problem = _problem()
    if problem:
        return ConfinementStatus(False, problem)
    return ConfinementStatus(True, f"by Landlock (ABI {landlock_abi()}) and seccomp")


def new_confinement() -> Confinement | None:
    """The confinement of one command; None where there is none."""
    return LandlockConfinement() if confinement_status().is_active else None


def _problem() -> str:
    if sys.platform != "linux":
        return "only Linux has Landlock"
    if landlock_abi() < 1:
        return "the kernel has no Landlock, or it is switched off"
    machine = os.uname().machine
    if not seccomp.filter_program(machine, refuses_truncation=False):
        return f"there is no filter of system calls for {machine}"
    trial = LandlockConfinement(folder=None)
    try:
        trial.start(lambda command: None, ())
    except UsageError as error:
        return error.message
    finally:
        trial.remove()
    return ""


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

_WRITE_FILE, _REFER, _TRUNCATE, _IOCTL = 1 << 1, 1 << 13, 1 << 14, 1 << 15
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1


def handled_rights(abi: int) -> tuple[int, int]:
    """The rights that are refused, on files and on what lies outside of the command, in this ABI version.
    Reading and executing are not among them."""
    files = _WRITE_FILE | _REMOVE_AND_MAKE
    files |= _REFER if abi >= 2 else 0  # before, moving a file to another folder is always refused
    files |= _TRUNCATE if abi >= 3 else 0
    files |= _IOCTL if abi >= 5 else 0
    return files, (_ABSTRACT_SOCKETS | _SIGNALS if abi >= 6 else 0)


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def _call(what: str, number: int, *arguments: Any) -> int:
    result: int = _libc().syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


@cache
def landlock_abi() -> int:
    """The version of the kernel's Landlock; 0 if there is none."""
    if sys.platform != "linux":
        return 0
    try:
        return _call("landlock", _CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError:
        return 0


_one_at_a_time = threading.Lock()


class LandlockConfinement:
    """Confines a command with Landlock and seccomp.

    `folder`: where its temporary folder is made; None for no such folder. `abi`: a lower version than the
    kernel's, for tests.
    """

    def __init__(self, folder: Path | str | None = "", *, abi: int | None = None) -> None:
        self._abi = landlock_abi() if abi is None else abi
        self._temporary = None if folder is None else TemporaryFolder.new(Path(folder) if folder else None)
        self.environment: dict[str, str] = {}
        if self._temporary:
            self.environment["TMPDIR"] = str(self._temporary.path)

    def start(self, spawn: Callable[[Sequence[str]], T], command: Sequence[str]) -> T:
        try:
            ruleset = self._ruleset()
        except OSError as error:
            raise UsageError(f"the command cannot be confined: {error.strerror}") from None
        started: list[T] = []
        problems: list[BaseException] = []
        done = _thread.allocate_lock()
        done.acquire()

        def confine_and_spawn() -> None:
            try:
                self._restrict_thread(ruleset)
            except OSError as error:
                problems.append(UsageError(f"the command cannot be confined: {error.strerror}"))
            else:
                try:
                    started.append(spawn(command))
                except BaseException as error:
                    problems.append(error)
            done.release()

        with _one_at_a_time:
            # The collector must not run in that thread: it would finalise objects of others without the
            # right to write.
            collects = gc.isenabled()
            gc.disable()
            try:
                # Without the handshake of `threading.Thread`, which costs as much as all the rest.
                _thread.start_new_thread(confine_and_spawn, ())
                done.acquire()
            finally:
                if collects:
                    gc.enable()
                os.close(ruleset)
        if problems:
            raise problems[0]
        return started[0]

    def remove(self) -> None:
        if self._temporary:
            self._temporary.remove()

    def _ruleset(self) -> int:
        """A ruleset that allows to write to `/dev/null` and the temporary folder."""
        files, scopes = handled_rights(self._abi)
        attributes = struct.pack("=QQQ", files, 0, scopes)[: 24 if scopes else 8]
        size = ctypes.c_size_t(len(attributes))
        ruleset = _call("landlock", _CREATE_RULESET, attributes, size, ctypes.c_uint32(0))
        try:
            device = os.open("/dev/null", os.O_PATH | os.O_CLOEXEC)
            try:
                _allow(ruleset, device, files & (_WRITE_FILE | _TRUNCATE | _IOCTL))
            finally:
                os.close(device)
            if self._temporary:
                _allow(ruleset, self._temporary.descriptor, files)
        except BaseException:
            os.close(ruleset)
            raise
        return ruleset

    def _restrict_thread(self, ruleset: int) -> None:
        zero, one = ctypes.c_ulong(0), ctypes.c_ulong(1)
        if _libc().prctl(_PR_SET_NO_NEW_PRIVS, one, zero, zero, zero):
            raise OSError(ctypes.get_errno(), f"no_new_privs: {os.strerror(ctypes.get_errno())}")
        _call("landlock", _RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
        program = seccomp.filter_program(os.uname().machine, refuses_truncation=self._abi < 3)
        seccomp.install(_libc(), program)


def _allow(ruleset: int, descriptor: int, rights: int) -> None:
    rule = struct.pack("=Qi", rights, descriptor)
    _call(
        "landlock",
        _ADD_RULE,
        ctypes.c_int(ruleset),
        ctypes.c_int(_PATH_BENEATH),
        rule,
        ctypes.c_uint32(0),
    )


_PREFIX = "ostler-command-"
_NEW = 60.0
_swept: set[Path] = set()


class TemporaryFolder:
    """A temporary folder of one command. It is locked while we use it: a locked one belongs to a living
    process, in whatever container; others are left from a crash."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def new(cls, parent: Path | None = None) -> TemporaryFolder | None:
        """A new folder; None where no temporary folder can be written."""
        for one in (parent,) if parent else _temporary_folders():
            path = one / f"{_PREFIX}{os.urandom(8).hex()}"
            try:
                path.mkdir(mode=0o700)
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(path, descriptor)
        return None

    def remove(self) -> None:
        if self.descriptor < 0:
            return
        _remove_tree(self.path)
        descriptor, self.descriptor = self.descriptor, -1
        try:
            # Only now the folder ceases to exist, for which a busy disk may take milliseconds.
            _thread.start_new_thread(os.close, (descriptor,))
        except RuntimeError:  # at the end of the interpreter
            os.close(descriptor)
        if self.path.parent not in _swept:
            _swept.add(self.path.parent)
            threading.Thread(target=remove_abandoned, args=(self.path.parent,), daemon=True).start()


def _temporary_folders() -> Sequence[Path]:
    named = os.environ.get("TMPDIR", "")
    return tuple(Path(one) for one in (named, "/tmp", "/var/tmp") if one.startswith("/"))


def _remove_tree(path: Path) -> None:
    try:
        path.rmdir()  # it is nearly always empty
    except FileNotFoundError:
        pass
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def remove_abandoned(parent: Path) -> None:
    """Removes the folders that processes left there which were killed."""
    with suppress(OSError):
        for path in parent.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        about = os.fstat(descriptor)
        if about.st_uid != os.getuid() or time.time() - about.st_mtime < _NEW:
            return  # a new one may not be locked yet
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_tree(path)
    finally:
        os.close(descriptor)
