"""The seccomp filter of confined commands: what they may not ask of the kernel besides writing files, which
Landlock refuses. A refused call fails with an error, as a missing right would; nothing is killed.

The filter is a program of the classic BPF: `(operation, if true skip, if false skip, value)`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from functools import cache
from typing import NamedTuple

_Instruction = tuple[int, int, int, int]

# Each with its numbers on x86-64 and on 64-bit ARM; None where there is no such call.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # Sockets of every kind. A datagram end of a socketpair could be bound or connected to another address.
    "socket": (41, 198),
    "bind": (49, 200),
    "connect": (42, 203),
    # Would make calls past this filter.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # Modes, owners, times and attributes: Landlock has no right for these.
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    # Objects that outlive the command and have no path.
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "semget": (64, 190),
    "semctl": (66, 191),
    "shmget": (29, 194),
    "shmctl": (31, 195),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Other processes.
    "ptrace": (101, 117),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    # The system, which root could change without writing a file.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
}


class _Machine(NamedTuple):
    column: int
    """Of the numbers in `_REFUSED`."""
    architecture: int
    """As the kernel names it to the filter; a program for another one, such as 32-bit, may call nothing."""
    has_x32: bool
    ioctl: int
    socketpair: int
    prlimit: int
    truncate: int
    open: int | None
    openat: int
    openat2: int


_MACHINES = {
    "x86_64": _Machine(0, 0xC000003E, True, 16, 53, 302, 76, 2, 257, 437),
    "aarch64": _Machine(1, 0xC00000B7, False, 29, 199, 261, 45, None, 56, 437),
}

_X32 = 0x40000000
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_AT_LEAST = 0x15, 0x35
_NUMBER, _ARCHITECTURE = 0, 4
_ALLOW: _Instruction = (_RETURN, 0, 0, 0x7FFF0000)

_TERMINAL_IOCTLS = 0x5400
"""Their second byte; the same family has those of pipes, such as FIONREAD."""
_TIOCSTI, _TIOCLINUX, _TIOCCONS = 0x5412, 0x541C, 0x541D
_READING_IOCTLS = (0x80086601, 0x80087601, 0x801C581F, 0xC020660B)
"""Reading a file's flags, version, project and extents. Any other may write: FS_IOC_SETFLAGS makes a file
immutable, and Btrfs makes a snapshot, through a descriptor that is open for reading only."""


def _argument(number: int) -> _Instruction:
    """Loads the lower half of an argument: those that we look at have no upper half."""
    return (_LOAD, 0, 0, 16 + 8 * number)


def _fail(error: int) -> _Instruction:
    return (_RETURN, 0, 0, 0x00050000 | error)


def _if_equal(value: int, then: _Instruction) -> list[_Instruction]:
    return [(_IF_EQUAL, 0, 1, value), then]


def _decision(blocks: list[tuple[int, list[_Instruction]]]) -> list[_Instruction]:
    """Finds the block of a call by binary search, and allows a call that has none: the kernel tries every
    call when a filter is installed, which takes longer than all the rest if they are compared one by one."""
    if len(blocks) <= 2:
        compared = [((_IF_EQUAL, 0, len(block), number), *block) for number, block in blocks]
        return [*(instruction for one in compared for instruction in one), _ALLOW]
    middle = len(blocks) // 2
    lower = _decision(blocks[:middle])
    return [(_IF_AT_LEAST, len(lower), 0, blocks[middle][0]), *lower, *_decision(blocks[middle:])]


def _ioctl() -> list[_Instruction]:
    refuse = _fail(errno.EPERM)
    block = [_argument(1)]
    for command in (_TIOCSTI, _TIOCLINUX, _TIOCCONS):
        block += _if_equal(command, refuse)
    for command in _READING_IOCTLS:
        block += _if_equal(command, _ALLOW)
    # ENOTTY means "this file has no such call", for which every program is prepared.
    return [*block, (_AND, 0, 0, 0xFFFFFF00), *_if_equal(_TERMINAL_IOCTLS, _ALLOW), _fail(errno.ENOTTY)]


def _socketpair() -> list[_Instruction]:
    refuse, local, datagram = _fail(errno.EPERM), 1, 2
    is_local = [_argument(0), (_IF_EQUAL, 1, 0, local), refuse]
    return [*is_local, _argument(1), (_AND, 0, 0, 0xF), *_if_equal(datagram, refuse), _ALLOW]


def _opens(flags: int) -> list[_Instruction]:
    """Refuses to open a file for reading *and* truncate it, which needs no right to write before ABI 3."""
    mask = os.O_TRUNC | os.O_ACCMODE
    return [_argument(flags), (_AND, 0, 0, mask), *_if_equal(os.O_TRUNC, _fail(errno.EACCES)), _ALLOW]


@cache
def filter_program(machine: str, *, refuses_truncation: bool) -> bytes:
    """The filter for a machine (as `os.uname` names it); empty if we have none for it.

    `refuses_truncation`: for kernels whose Landlock cannot refuse it.
    """
    if machine not in _MACHINES:
        return b""
    calls = _MACHINES[machine]
    refuse = _fail(errno.EPERM)
    refused = [numbers[calls.column] for numbers in _REFUSED.values()]
    # Each block returns on every path: it has replaced the number that the next check would look at.
    blocks = {number: [refuse] for number in refused if number is not None}
    blocks[calls.ioctl] = _ioctl()
    blocks[calls.socketpair] = _socketpair()
    # The limits of other processes; 0 is the process itself.
    blocks[calls.prlimit] = [_argument(0), *_if_equal(0, _ALLOW), refuse]
    if refuses_truncation:
        blocks[calls.truncate] = [refuse]
        blocks[calls.openat2] = [_fail(errno.ENOSYS)]  # its flags are in memory; `openat` follows
        blocks[calls.openat] = _opens(2)
        if calls.open is not None:
            blocks[calls.open] = _opens(1)
    program: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, calls.architecture),
        refuse,
        (_LOAD, 0, 0, _NUMBER),
    ]
    if calls.has_x32:
        program += [(_IF_AT_LEAST, 0, 1, _X32), refuse]
    program += _decision(sorted(blocks.items()))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


_PR_SET_SECCOMP, _FILTER = 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def install(libc: ctypes.CDLL, program: bytes) -> None:
    """Applies a filter to the calling thread and to what it starts, for good. The thread must have
    `no_new_privs`. Raises `OSError`."""
    described = _Program(len(program) // 8, program)
    zero = ctypes.c_ulong(0)
    if libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.byref(described), zero, zero):
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
