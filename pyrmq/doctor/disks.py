"""Checks of disks: space, inodes, file system, mount options, and whether folders can be written.

The engine writes the log with pwrite, maps files into memory, reserves space with fallocate and
flushes with fdatasync. It never uses O_DIRECT.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyrmq.doctor.facts import Disk, Facts
from pyrmq.doctor.finding import Finding, error, note, ok, warning

GIB = 1 << 30
NAMESRV_FREE = 64 << 20
FEW_INODES = 10.0
"""% of the inodes that have to be free."""
VOLATILE = {"tmpfs", "ramfs", "devtmpfs", "zram"}
REMOTE = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "virtiofs"}
NO_FALLOCATE = {"nfs", "ext2", "ext3", "vfat", "msdos", "exfat", "ntfs", "9p", "cifs", "smb3"}


def _each(facts: Facts) -> Iterator[Disk]:
    for disk in facts.machine.disks:
        if not disk.problem:
            yield disk


def readable(facts: Facts) -> Iterator[Finding]:
    """A folder answers, is there, and can be written."""
    for disk in facts.machine.disks:
        path, key = disk.folder.path, disk.folder.key
        if disk.problem:
            yield error(
                f"{path} ({key}): {disk.problem}",
                f"the {facts.server.kind} cannot use the folder",
                f"findmnt -T {path}; mount the disk, or set another {key}",
            )
        elif not disk.exists and not disk.folder.made:
            yield error(
                f"{path} ({key}) is missing",
                "the disk may not be mounted: a start is refused, so that it does not begin anew",
                f"mount the disk, or, for a new one: install -d -m 0750 {path}",
            )
        elif not disk.writable:
            what = path if disk.exists else f"the parent of {path}"
            yield error(
                f"{what} ({key}) cannot be written by this account (uid {facts.machine.user})",
                f"the {facts.server.kind} does not start",
                f"chown -R $(id -u) {path}, or run this command as the account of the server",
            )
        else:
            yield ok(f"{path} ({key}) can be written")


def space(facts: Facts) -> Iterator[Finding]:
    """The disk is below the ratios at which files are deleted and messages are refused."""
    values = facts.server.values
    for disk in _each(facts):
        used, path = disk.used_percent, disk.folder.path
        free = f"{path}: {used:.0f} % of the disk is used, {disk.free / GIB:.1f} GiB are free"
        if not facts.server.is_broker:
            if disk.free < NAMESRV_FREE:
                yield warning(free, "changes of the KV configuration may fail", f"du -xh {path}")
            else:
                yield ok(free)
            continue
        refused = _number(values, "diskSpaceWarningLevelRatio", 90)
        forced = _number(values, "diskSpaceCleanForciblyRatio", 85)
        begun = _number(values, "diskMaxUsedSpaceRatio", 75)
        needed = 2 * _number(values, "mappedFileSizeCommitLog", GIB)
        why = change = ""
        if used >= refused:
            why = f"above {refused} % (diskSpaceWarningLevelRatio) messages are refused"
        elif disk.free < needed:
            why = f"the log needs {needed / GIB:.1f} GiB for the file that is written and the next"
        if why:
            change = "free space, take a larger disk, or lower fileReservedTime"
            yield error(free, why, change)
        elif used >= forced:
            yield warning(
                free,
                f"above {forced} % (diskSpaceCleanForciblyRatio) the oldest files are deleted, "
                "also unread ones",
                "take a larger disk, or lower fileReservedTime",
            )
        elif used >= begun:
            yield warning(
                free,
                f"above {begun} % (diskMaxUsedSpaceRatio) expired files are deleted at any hour",
                "take a larger disk, or lower fileReservedTime",
            )
        else:
            yield ok(free)


def _number(values: Mapping[str, str], key: str, default: int) -> int:
    text = values.get(key, "")
    return int(text) if text.isdecimal() else default


def inodes(facts: Facts) -> Iterator[Finding]:
    """Each queue needs a file and two folders."""
    for disk in _each(facts):
        if not disk.inodes:
            continue
        free = 100 * disk.inodes_free / disk.inodes
        if free < FEW_INODES:
            yield warning(
                f"{disk.folder.path}: {free:.0f} % of the inodes are free ({disk.inodes_free})",
                "each queue needs files and folders; without inodes the disk counts as full",
                "delete files, or make the file system anew with more inodes: mkfs.ext4 -N, or xfs",
            )
        else:
            yield ok(f"{disk.folder.path}: {disk.inodes_free} inodes are free")


def file_system(facts: Facts) -> Iterator[Finding]:
    """What kind of file system a folder is on."""
    for disk in _each(facts):
        kind = disk.file_system
        where = f"{disk.folder.path} is on {kind}"
        if not kind:
            yield note(f"the file system of {disk.folder.path} is not known")
        elif kind in VOLATILE:
            yield error(
                f"{where}, which is memory",
                "everything is lost when the machine or the container stops",
                f"put {disk.folder.key} on a disk",
            )
        elif kind == "overlay":
            yield warning(
                f"{where}, the layer of a container",
                "it is deleted with the container, and slower than a volume",
                f"mount a volume at {disk.folder.path}",
            )
        elif facts.server.is_broker and (kind in REMOTE or kind.startswith("fuse")):
            yield warning(
                f"{where}, a remote file system",
                "a pause of the network stops writes; a mapped file may end the broker (SIGBUS)",
                f"put {disk.folder.key} on a local disk (ext4 or xfs), and replicate by a slave",
            )
        elif facts.server.is_broker and kind == "btrfs":
            yield warning(
                f"{where}, which copies each page that is written again",
                "queue files become fragmented, and flushes slow",
                f"chattr +C {disk.folder.path} before the first start, or take ext4 or xfs",
            )
        elif facts.server.is_broker and kind in NO_FALLOCATE:
            yield warning(
                f"{where}, which has no fallocate",
                "each new log file is filled with zeros first, so the first sends to it wait",
                "take ext4 or xfs",
            )
        else:
            yield ok(where)


def mount_options(facts: Facts) -> Iterator[Finding]:
    """Options of the mount that cost speed, or lose what was flushed."""
    for disk in _each(facts):
        where, options = f"{disk.mount} is mounted with", disk.options
        remount = f"mount -o remount,{{}} {disk.mount}, and change /etc/fstab"
        if "ro" in options:
            yield error(
                f"{where} ro",
                "nothing can be written; the kernel does this itself after errors of a disk",
                f"dmesg | grep -i remount; {remount.format('rw')}",
            )
        if facts.server.is_broker:
            if "sync" in options or "dirsync" in options:
                yield warning(
                    f"{where} sync",
                    "each write waits for the disk, also with ASYNC_FLUSH",
                    remount.format("async"),
                )
            if options & {"nobarrier", "barrier=0"}:
                yield warning(
                    f"{where} {' '.join(sorted(options & {'nobarrier', 'barrier=0'}))}",
                    "a power cut loses messages that were flushed, unless the disk has a battery",
                    remount.format("barrier=1"),
                )
            if "strictatime" in options:
                yield warning(
                    f"{where} strictatime",
                    "each read of a message writes to the disk",
                    remount.format("noatime"),
                )
            if "data=journal" in options:
                yield warning(
                    f"{where} data=journal",
                    "each message is written twice",
                    "mount it with data=ordered: change /etc/fstab and mount it again",
                )
