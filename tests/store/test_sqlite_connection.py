"""Stores on network file systems are refused."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ostler.schema.errors import StoreError
from ostler.store import sqlite_connection
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_connection import refuse_network_disk

MOUNTS = r"""
sysfs /sys sysfs rw,nosuid 0 0
/dev/sda1 / ext4 rw,relatime 0 0
server:/homes /home nfs4 rw,vers=4.2 0 0
/dev/sdb1 /home/ada/local xfs rw 0 0
//server/share /media/with\040space cifs rw 0 0
ada@server: /mnt/far fuse.sshfs rw 0 0
C:\134 /mnt/c 9p rw,aname=drvfs 0 0
tmpfs /over tmpfs rw 0 0
server:/over /over nfs rw 0 0
server:/under /under nfs rw 0 0
tmpfs /under tmpfs rw 0 0
gvfsd-fuse /run/user/1000/gvfs fuse.gvfsd-fuse rw 0 0
broken line
"""


def is_refused(path: str | Path, mounts: str | None = MOUNTS) -> bool:
    try:
        refuse_network_disk(Path(path), mounts)
    except StoreError:
        return True
    return False


@pytest.mark.parametrize(
    "path",
    [
        "/home/eve/.ostler/store.db",
        "/home",
        "/media/with space/store.db",
        "/mnt/far/away/store.db",
        "/mnt/c/Users/ada/store.db",
        "/over/store.db",
    ],
)
def test_a_network_file_system_is_refused(path: str) -> None:
    with pytest.raises(StoreError, match="OSTLER_HOME") as caught:
        refuse_network_disk(Path(path), MOUNTS)
    assert path in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "path",
    [
        "/var/lib/store.db",
        "/home/ada/local/store.db",
        "/homework/store.db",
        "/mnt/cellar/store.db",
        "/under/store.db",
        "/run/user/1000/store.db",
        "/",
    ],
)
def test_a_local_disk_is_accepted(path: str) -> None:
    assert not is_refused(path)


def test_a_sandbox_whose_root_is_9p_is_accepted() -> None:
    assert not is_refused("/home/ada/store.db", "none / 9p rw,trans=fd 0 0\n")
    assert is_refused("/home/ada/store.db", "none /home 9p rw,trans=fd 0 0\n")


def test_a_link_counts_as_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/home/eve")
    assert is_refused(tmp_path / "link" / "store.db")


def test_without_a_list_of_mounts_every_path_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_connection, "MOUNTS", tmp_path / "none")
    assert not is_refused(tmp_path / "store.db", None)


def test_opening_a_store_on_a_network_file_system_creates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/x {str(tmp_path / 'far').replace(' ', chr(92) + '040')} nfs rw 0 0\n")
    monkeypatch.setattr(sqlite_connection, "MOUNTS", mounts)
    with pytest.raises(StoreError, match="network file system"):
        SqliteStore(tmp_path / "far" / "store.db")
    assert not (tmp_path / "far").exists()


def test_the_check_of_mounts_is_fast() -> None:
    many = MOUNTS + "".join(f"overlay /var/lib/{number}/merged overlay rw 0 0\n" for number in range(200))
    times = []
    for _ in range(20):
        start = time.perf_counter()
        refuse_network_disk(Path("/var/lib/store.db"), many)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.001
