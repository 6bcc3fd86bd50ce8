"""The one table of operating-system calls through which a file store touches the disk."""

from __future__ import annotations

import os
import sys
from functools import cache

from saga_core.errors import StoreError

if sys.platform != "win32":
    import fcntl


class System:
    """The real disk; a simulated one overrides what it wants to see or to fail."""

    close = staticmethod(os.close)
    fstat = staticmethod(os.fstat)
    stat = staticmethod(os.stat)
    listdir = staticmethod(os.listdir)
    mkdir = staticmethod(os.mkdir)
    rename = staticmethod(os.rename)
    link = staticmethod(os.link)
    unlink = staticmethod(os.unlink)
    open = staticmethod(os.open)

    if sys.platform != "win32":
        pwrite = staticmethod(os.pwrite)
        pread = staticmethod(os.pread)
        truncate = staticmethod(os.ftruncate)
        flock = staticmethod(fcntl.flock)

    if sys.platform == "darwin":

        @staticmethod
        def sync_data(descriptor: int, /) -> None:
            """Bring a file's bytes and length to the platter; plain fsync stops at the drive's cache here."""
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    elif sys.platform != "win32":
        sync_data = staticmethod(os.fdatasync)

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
        """Return a file's bytes from its beginning to its end as they stand."""
        parts: list[bytes] = []
        offset = 0
        while part := self.pread(descriptor, 1 << 20, offset):
            parts.append(part)
            offset += len(part)
        return b"".join(parts)


@cache
def boot_id() -> str:
    """Return the id of this boot of the machine: pages written in it are still what was written.

    Raises:
        StoreError: This system does not tell.
    """
    if sys.platform == "darwin":
        import subprocess  # noqa: PLC0415 -- macOS has no file that says it

        found = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=True
        )
        return found.stdout.strip().lower()
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError as error:
        raise StoreError(
            "the file store cannot learn this machine's boot id",
            world="nothing was opened",
            next="mount /proc, or run on Linux or macOS",
        ) from error
