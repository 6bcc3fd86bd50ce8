"""Sagas by id: newest first, by a unique prefix, with the shortest prefix that still names them."""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING

from saga_core.cli.ending import Exit, Stop
from saga_core.cli.masking import shown
from saga_core.cli.place import name_of
from saga_core.cli.row import row_of
from saga_core.cli.wording import moment, sign
from saga_core.ids import is_saga_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from saga_core.stores.store import Backend

_SHORTEST = 8
_SHOWN = 10


def newest_first(store: Backend) -> Iterator[str]:
    """Yield the ids of a store's sagas, newest first; one that is settled meanwhile comes once."""
    unsettled = sorted(store.open_sagas(), reverse=True)  # listed first: what leaves it later is among the settled
    last = ""
    for saga in heapq.merge(unsettled, store.done_sagas(), reverse=True):
        if saga != last:
            yield saga
        last = saga


def with_prefixes(sagas: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield each of the sorted ids with its shortest prefix that none of the others has."""
    before, saga = "", next(sagas, "")
    while saga:
        after = next(sagas, "")
        length = max(_SHORTEST, _common(saga, before) + 1, _common(saga, after) + 1)
        yield saga, saga[:length]
        before, saga = saga, after


def _common(one: str, other: str) -> int:
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return length


def resolve(store: Backend, prefix: str) -> str:
    """Return the id that a prefix, in either case, names.

    Raises:
        Stop: None has it, or several have; or it was erased, or dropped.
    """
    wanted = prefix.strip().upper()
    if is_saga_id(wanted) and store.read(wanted) is not None:
        return wanted
    found = [saga for saga in newest_first(store) if saga.startswith(wanted)] if wanted else []
    if len(found) == 1:
        return found[0]
    if not found:
        _tell_of_a_tombstone(store, wanted)
        newest = list(islice(newest_first(store), 3))
        held = f"the newest there: {', '.join(newest)} (saga ls)" if newest else "it holds no saga"
        raise Stop(Exit.NOT_FOUND, f"no saga {shown(prefix)} in {name_of(store)}; {held}")
    rows = [row_of(store, reading) for saga in found[:_SHOWN] if (reading := store.read(saga)) is not None]
    listed = "\n".join(f"  {row.saga}  {sign(row.state)}  {shown(row.name)}" for row in rows)
    more = f"\n  and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise Stop(Exit.NOT_FOUND, f"{shown(prefix)} names {len(found)} sagas in {name_of(store)}:\n{listed}{more}")


def _tell_of_a_tombstone(store: Backend, wanted: str) -> None:
    """Say what became of a saga that was there once.

    Raises:
        Stop: The text names one.
    """
    named = [wanted] if is_saga_id(wanted) else [saga for saga in store.erased_sagas() if saga.startswith(wanted)]
    stone = store.tombstone(named[0]) if len(named) == 1 else None
    if stone is None:
        return
    if stone.why == "dropped":
        words = "is gone: saga gc dropped all that began on its day"
    else:
        at = "" if stone.at is None else f" on {moment(stone.at)}"
        words = f"was erased{at}" + ("" if stone.by is None else f" by {shown(stone.by)}")
    raise Stop(Exit.NOT_FOUND, f"saga {stone.saga} {words}; nothing is kept of it but this")
