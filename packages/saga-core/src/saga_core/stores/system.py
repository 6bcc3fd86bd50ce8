"""The one table of operating-system calls through which a file store touches the disk; POSIX only."""

from __future__ import annotations

import fcntl
import os
import struct
import sys

from saga_core.frame import Identity

_GET_VERSION = 0x80007601 | struct.calcsize("l") << 16  # FS_IOC_GETVERSION of linux/fs.h


class System:
    """The real disk; a simulated one overrides what it wants to see or to fail."""

    open = staticmethod(os.open)
    close = staticmethod(os.close)
    pwrite = staticmethod(os.pwrite)
    pread = staticmethod(os.pread)
    truncate = staticmethod(os.ftruncate)
    flock = staticmethod(fcntl.flock)
    fstat = staticmethod(os.fstat)
    stat = staticmethod(os.stat)
    access = staticmethod(os.access)
    listdir = staticmethod(os.listdir)
    mkdir = staticmethod(os.mkdir)
    rename = staticmethod(os.rename)
    link = staticmethod(os.link)
    unlink = staticmethod(os.unlink)
    rmdir = staticmethod(os.rmdir)

    if sys.platform == "darwin":

        @staticmethod
        def sync_data(descriptor: int, /) -> None:
            """Bring a file's bytes and length to the platter; plain fsync stops at the drive's cache here."""
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        sync_data = staticmethod(os.fdatasync)

    if sys.platform == "linux":

        @staticmethod
        def generation(descriptor: int, /) -> int:
            """Return what tells a file from an earlier one on its inode; 0 if the file system does not say."""
            try:
                return int.from_bytes(fcntl.ioctl(descriptor, _GET_VERSION, bytes(8))[:4], sys.byteorder)
            except OSError:
                return 0
    else:

        @staticmethod
        def generation(_: int, /) -> int:
            """Return 0: this system does not say."""
            return 0

    def identity(self, descriptor: int) -> Identity:
        """Return which file it is."""
        return Identity(self.fstat(descriptor).st_ino, self.generation(descriptor))

    if hasattr(os, "posix_fallocate"):

        @staticmethod
        def preallocate(descriptor: int, size: int, /) -> None:
            """Take the room for a file, so that bytes written into it later change neither its length nor its map."""
            os.posix_fallocate(descriptor, 0, size)
    else:
        preallocate = staticmethod(os.ftruncate)

    def sync_dir(self, path: str) -> None:
        """Bring a directory's entries to the disk."""
        descriptor = self.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            self.close(descriptor)

    def write_all(self, descriptor: int, data: bytes, offset: int) -> None:
        """Write every byte, however often the kernel takes only some."""
        rest = memoryview(data)
        while rest:
            written = self.pwrite(descriptor, rest, offset)
            rest = rest[written:]
            offset += written

    def read_all(self, descriptor: int) -> bytes:
        """Return a file's bytes as they stand, from its beginning to its end."""
        parts: list[bytes] = []
        offset = 0
        while part := self.pread(descriptor, 1 << 20, offset):
            parts.append(part)
            offset += len(part)
        return b"".join(parts)

    def read_file(self, path: str) -> bytes:
        """Return the bytes of the file that a path names."""
        descriptor = self.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return self.read_all(descriptor)
        finally:
            self.close(descriptor)

    def exists(self, path: str) -> bool:
        """Tell whether a path names something."""
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True
