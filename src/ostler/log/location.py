"""Refusing a place where SQLite's write-ahead log does not work: a disk that other machines share."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ostler.vocabulary.errors import StoreError

MOUNTS = Path("/proc/self/mounts")

_LOCAL = frozenset({"apfs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
"""What nearly everybody has: no pattern is compiled for it."""
_NETWORK = (
    r"nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|beegfs|gpfs|gfs2|ocfs2|orangefs|pvfs2|glusterfs|ncpfs|coda|davfs"
    r"|fuse\.(sshfs|glusterfs|ceph-fuse|davfs\d?|rclone|s3fs|gcsfuse|blobfuse\d?|smb\w*|nfs\w*|juicefs|goofys)"
)


def refuse_network_disk(path: Path, mounts: str | None = None) -> None:
    """Raises `StoreError` when `path` is on a network file system; where that cannot be known, it is fine."""
    if mounts is None:
        try:
            mounts = os.fsdecode(MOUNTS.read_bytes())
        except OSError:
            return
    point, kind = _mount_of(os.path.realpath(path), mounts)
    if kind in _LOCAL or not re.fullmatch(_NETWORK, kind):
        return
    if kind == "9p" and point == "/":
        return  # a sandbox's own root looks like this, and no other machine sees it
    raise StoreError(
        f"{path} is on a network file system ({kind} at {point}), where a store would be damaged; "
        "set OSTLER_HOME to a folder on a local disk"
    )


def _mount_of(path: str, mounts: str) -> tuple[str, str]:
    """The longest mount point above `path`, and its type; of two on one point the later hides the earlier."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _unescaped(fields[1])
        if len(point) >= len(best) and _is_above(point, path):
            best, kind = point, fields[2]
    return best, kind


def _is_above(point: str, path: str) -> bool:
    return path == point or path.startswith(point if point.endswith("/") else f"{point}/")


def _unescaped(point: str) -> str:
    """Spaces and the like are written as octal numbers there."""
    if "\\" not in point:
        return point
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point)
