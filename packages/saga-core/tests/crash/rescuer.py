"""A script that recovers a store, and says what it found in each pass."""

from __future__ import annotations

import os
import resource
import sys
import time
from datetime import timedelta

import msgspec

from saga_core import registry
from saga_core.recovery import recover

from .fault import FAULTS
from .fuse import FUSE
from .orders import FoundOne, Rescued, RescuerOrders

_PAUSE = 0.02


def main(orders: RescuerOrders) -> Rescued:
    for fault in orders.faults:
        FAULTS[fault]()
    if orders.limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (orders.limit, resource.RLIM_INFINITY))
    if orders.lacks != "everything":
        from . import bank  # noqa: F401, PLC0415  # pyright: ignore[reportUnusedImport] -- declares the handlers
    if orders.lacks == "actions":
        registry.ACTIONS = registry.Registry("action")
    if orders.lacks == "inverses":
        registry.INVERSES = registry.Registry("inverse")
    FUSE.watch_logs()
    FUSE.light(orders.at, orders.act)
    if orders.is_held:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
    passes: list[list[FoundOne]] = []
    until = time.monotonic() + orders.watch
    while True:
        try:
            found = recover(
                orders.store, wait=timedelta(seconds=orders.wait), resume_grace=timedelta(seconds=orders.grace)
            ).found
        except KeyboardInterrupt:
            continue
        passes.append([FoundOne(f.saga_id, f.outcome, f.words, f.report.cases if f.report else ()) for f in found])
        is_idle = not any(one.outcome in {"waiting", "owned"} for one in found)
        if time.monotonic() >= until or (is_idle and not orders.stays):
            break
        time.sleep(_PAUSE)
    return Rescued(passes, FUSE.moments)


if __name__ == "__main__":
    answer = main(msgspec.json.decode(os.fsencode(sys.argv[1]), type=RescuerOrders))
    sys.stdout.buffer.write(msgspec.json.encode(answer))
