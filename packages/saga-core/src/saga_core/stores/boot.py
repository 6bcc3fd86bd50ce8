"""Which boot of the machine this is: pages written in it still hold what was written."""

from __future__ import annotations

import os
import sys
from functools import cache

from saga_core.errors import StoreError


@cache
def boot_id() -> str:
    """Return the id of this boot; on Windows, which has none, of this process.

    Raises:
        StoreError: This system does not tell.
    """
    try:
        if sys.platform == "win32":
            return os.urandom(16).hex()
        if sys.platform == "darwin":
            import subprocess  # noqa: PLC0415 -- macOS has no file that says it

            command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().lower()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError as error:
        raise StoreError(
            "the boot id of this machine cannot be read",
            world="nothing was opened",
            next="mount /proc, or run on Linux or macOS",
        ) from error
