"""What a scope could not end in time: carried on by a thread of this process."""

from __future__ import annotations

import heapq
import threading
from typing import TYPE_CHECKING

from saga_core.engine.io import SYNC, drive
from saga_core.engine.session import log
from saga_core.errors import SagaForked, StoreError
from saga_core.records import UnwindBegan
from saga_core.stores import fork

if TYPE_CHECKING:
    from saga_core.engine.io import Io
    from saga_core.engine.session import Session

_SECOND = 1_000_000_000
_TURN = 30 * _SECOND


class _Janitor:
    """A schedule of sagas; each due one gets a turn on a thread of its own, so that none holds up another."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[int, int, Session]] = []
        self._count = 0
        self._is_running = False

    def die_in_child(self) -> None:
        """Start afresh: the parent's sagas are the parent's, and its thread did not survive the fork."""
        self._changed = threading.Condition()
        self._due = []
        self._is_running = False

    def put(self, session: Session, due: int) -> None:
        with self._changed:
            self._count += 1
            heapq.heappush(self._due, (due, self._count, session))
            if not self._is_running:
                self._is_running = True
                fork.watch(self)
                threading.Thread(target=self._run, name="saga-janitor", daemon=True).start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due:
                    self._changed.wait()
                due, _, session = self._due[0]
                now = session.clock.up()
                if due > now:
                    self._changed.wait((due - now) / _SECOND)
                    continue
                heapq.heappop(self._due)
            name = f"saga-unwind-{session.saga_id}"
            threading.Thread(target=drive, args=(turn(SYNC, session),), name=name, daemon=True).start()


_janitor = _Janitor()


def take(session: Session, due: int | None) -> None:
    """Carry the unwinding on from `due` (nanoseconds since boot), or as soon as a running effect ends."""
    if due is not None:
        _janitor.put(session, due)
    else:
        session.on_leave(lambda: _janitor.put(session, session.clock.up()))


async def turn(io: Io, session: Session) -> None:
    """Carry one saga's unwinding on for a while, and schedule or give up what remains."""
    from saga_core.engine.ending import after_commit, finish, go_forward  # noqa: PLC0415 -- the ending hands over to the janitor and back
    from saga_core.engine.unwind import unwind  # noqa: PLC0415

    try:
        if session.view.ended == "committed":
            if not session.view.holds_left:
                await after_commit(io, session)
                return
            session.doubt_interrupted()
            await go_forward(io, session, session.clock.up() + _TURN)
            return
        session.doubt_interrupted()
        if not session.view.unwinding:
            session.append(UnwindBegan("", "its scope was abandoned", session.clock.wall()))
        until = session.clock.up() + _TURN
        move = await unwind(io, session, lambda _: True, wait_until=until, work_until=until)
        await finish(io, session, move)
    except (StoreError, SagaForked):
        log.exception("saga %s: its log cannot be written here any more; recovery has to end it", session.saga_id)
        session.give_up()
    except Exception:  # noqa: BLE001 -- whatever broke, the log is given up for recovery to end the saga
        log.exception("saga %s: unwinding it failed; recovery has to end it", session.saga_id)
        session.give_up()
