"""The table of operating-system calls of one process on a simulated machine."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING

from saga_core.stores.system import System

if TYPE_CHECKING:
    from .machine import Machine


class WouldWait(Exception):
    """A process waits for a lock that another one holds; on the stage, where one acts at a time, it would for ever."""


# The real table holds functions of `os`; here each is a method, of the same arguments.
# pyright: reportIncompatibleMethodOverride=false
class SimDisk(System):
    """What a file store of a process sees of a machine.

    Attributes:
        machine: The machine.
        process: Whose calls these are.
    """

    def __init__(self, machine: Machine, process: str) -> None:
        self.machine = machine
        self.process = process

    def open(self, path: str, flags: int, mode: int = 0o777, /) -> int:  # noqa: ARG002 -- one user owns everything here
        machine = self.machine
        fault = machine.enter("open" if flags & os.O_CREAT else "look")
        folder, name = machine.folder_of(path)
        number = machine.folders[folder].get(name)
        if number is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            file = machine.make_file()
            machine.rename_all((folder, name, file.number))
            descriptor = machine.open_descriptor(self.process, file)
            machine.leave("open", fault)
            return descriptor
        if flags & os.O_EXCL and flags & os.O_CREAT:
            raise _error(errno.EEXIST, path)
        if number not in machine.files:
            raise _error(errno.EISDIR, path)
        file = machine.files[number]
        descriptor = machine.open_descriptor(self.process, file)
        if flags & os.O_TRUNC:
            file.resize(0, machine.now)
        machine.leave("open", fault)
        return descriptor

    def close(self, descriptor: int, /) -> None:
        self.machine.close(descriptor)

    def pwrite(self, descriptor: int, data: bytes | memoryview, offset: int, /) -> int:
        machine = self.machine
        fault = machine.enter("pwrite")
        file = machine.file_of(descriptor)
        written = bytes(data)
        if fault == "short":
            written = written[: max(1, len(written) // 2)]
        if not written:
            return 0  # and the file is no longer than it was
        file.write(offset, written, machine.now)
        machine.leave("pwrite", fault, (file.number, offset, written))
        return len(written)

    def pread(self, descriptor: int, size: int, offset: int, /) -> bytes:
        self.machine.enter("pread")
        return bytes(self.machine.file_of(descriptor).data[offset : offset + size])

    def truncate(self, descriptor: int, size: int, /) -> None:
        fault = self.machine.enter("truncate")
        self.machine.file_of(descriptor).resize(size, self.machine.now)
        self.machine.leave("truncate", fault)

    def preallocate(self, descriptor: int, size: int, /) -> None:
        fault = self.machine.enter("preallocate")
        file = self.machine.file_of(descriptor)
        file.resize(max(size, len(file.data)), self.machine.now)
        self.machine.leave("preallocate", fault)

    def flock(self, descriptor: int, how: int, /) -> None:
        machine = self.machine
        machine.enter("flock")
        mine = machine.open_file(descriptor)
        if how & fcntl.LOCK_UN:
            mine.lock = ""
            return
        is_shared = bool(how & fcntl.LOCK_SH)
        for other in machine.descriptors.values():
            if other is not mine and other.file is mine.file and other.lock:
                if is_shared and other.lock == "shared":
                    continue
                if not how & fcntl.LOCK_NB:
                    raise WouldWait(f"{self.process} waits for {other.process}")
                raise _error(errno.EWOULDBLOCK)
        mine.lock = "shared" if is_shared else "exclusive"

    def generation(self, _: int, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] -- a plain function there
        return 0

    def fstat(self, descriptor: int, /) -> os.stat_result:
        self.machine.enter("fstat")
        return self.machine.describe(self.machine.file_of(descriptor).number)

    def stat(self, path: str, /) -> os.stat_result:
        self.machine.enter("stat")
        return self.machine.describe(self.machine.resolve(path))

    def access(self, path: str, mode: int, /) -> bool:  # noqa: ARG002 -- one user owns everything here
        self.machine.enter("access")
        try:
            self.machine.resolve(path)
        except OSError:
            return False
        return True

    def listdir(self, path: str, /) -> list[str]:
        self.machine.enter("listdir")
        number = self.machine.resolve(path)
        if number not in self.machine.folders:
            raise _error(errno.ENOTDIR, path)
        return list(self.machine.folders[number])

    def mkdir(self, path: str, mode: int = 0o777, /) -> None:  # noqa: ARG002 -- one user owns everything here
        machine = self.machine
        fault = machine.enter("mkdir")
        folder, name = machine.folder_of(path)
        if name in machine.folders[folder]:
            raise _error(errno.EEXIST, path)
        machine.rename_all((folder, name, machine.make_folder()))
        machine.leave("mkdir", fault)

    def rename(self, source: str, target: str, /) -> None:
        machine = self.machine
        fault = machine.enter("rename")
        folder, name = machine.folder_of(source)
        number = machine.resolve(source)
        to_folder, to_name = machine.folder_of(target)
        old = machine.folders[to_folder].get(to_name)
        if old in machine.folders:
            raise _error(errno.EISDIR, target)
        if old != number:
            machine.rename_all((folder, name, None), (to_folder, to_name, number))
        machine.leave("rename", fault)

    def link(self, source: str, target: str, /) -> None:
        machine = self.machine
        fault = machine.enter("link")
        number = machine.resolve(source)
        folder, name = machine.folder_of(target)
        if name in machine.folders[folder]:
            raise _error(errno.EEXIST, target)
        machine.rename_all((folder, name, number))
        machine.leave("link", fault)

    def unlink(self, path: str, /) -> None:
        machine = self.machine
        fault = machine.enter("unlink")
        number = machine.resolve(path)
        folder, name = machine.folder_of(path)
        if number in machine.folders:
            raise _error(errno.EISDIR, path)
        machine.rename_all((folder, name, None))
        machine.leave("unlink", fault)

    def rmdir(self, path: str, /) -> None:
        machine = self.machine
        fault = machine.enter("rmdir")
        number = machine.resolve(path)
        folder, name = machine.folder_of(path)
        if number not in machine.folders:
            raise _error(errno.ENOTDIR, path)
        if machine.folders[number]:
            raise _error(errno.ENOTEMPTY, path)
        machine.rename_all((folder, name, None))
        machine.leave("rmdir", fault)

    def sync_data(self, descriptor: int, /) -> None:
        machine = self.machine
        opened = machine.open_file(descriptor)
        file = opened.file
        try:
            fault = machine.enter("sync_data")
        except OSError:
            file.fail_sync()
            opened.errors = file.errors
            machine.leave("sync_data")
            raise
        file.sync()
        machine.leave("sync_data", fault)
        if opened.errors < file.errors:
            opened.errors = file.errors
            raise _error(errno.EIO)

    def sync_dir(self, path: str) -> None:
        machine = self.machine
        number = machine.resolve(path)
        try:
            fault = machine.enter("sync_dir")
        except OSError:
            machine.sync_folder(number, fails=True)
            machine.leave("sync_dir")
            raise
        if number not in machine.folders:
            raise _error(errno.ENOTDIR, path)
        machine.sync_folder(number, fails=False)
        machine.leave("sync_dir", fault)


def _error(number: int, path: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), path)
