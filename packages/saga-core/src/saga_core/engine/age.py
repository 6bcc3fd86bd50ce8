"""How old a saga's last record is, and whether it is too old to be acted on unasked: a restored copy is old."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from saga_core.clock import SECOND, nanoseconds
from saga_core.stores.boot import boot_id

if TYPE_CHECKING:
    from saga_core.clock import Clock
    from saga_core.view import SagaView, StepView

WITHIN = timedelta(hours=24)
"""How old a last record may be by default."""

_TOLERANCE = 300 * SECOND
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def distrust(view: SagaView, *, clock: Clock, within: timedelta, is_named: bool) -> str | None:
    """Return in words why nothing is undone, or sent, in a free saga's name, or None where its age speaks for it.

    A record from the future has no age: the machine's clock was set back, or that of its writer was wrong. Only whoever
    names the saga vouches for it, within the same span.

    Args:
        view: The saga.
        clock: Now.
        within: How old its last record may be, counted from when the next thing in it is due.
        is_named: A person asked for this saga alone.
    """
    old = _age(view, clock)
    limit = nanoseconds(within)
    if -_TOLERANCE <= old <= limit or (is_named and -limit <= old < 0):
        return None
    if old < 0:
        found = f"its last record is dated {told(-old)} ahead of this machine's clock"
    else:
        found = f"nothing was written in it, or due, for {told(old)}"
    what = "sent" if view.ended == "committed" else "undone"
    return f"{found}: a restored copy, perhaps, so nothing is {what} unasked"


def _age(view: SagaView, clock: Clock) -> int:
    """Return how long ago the saga was last written, or what it waits for was due; the longer of what two clocks say.

    The clock of the boot in which the owner wrote is right about that boot, whatever the wall clock was set to.
    """
    waits = max((_wait(step) for step in view.steps.values()), default=0)
    old = clock.wall() - view.last_at - waits
    owner = view.owner
    if owner is not None and owner.boot == boot_id():
        old = max(old, clock.up() - owner.up - (view.last_at - owner.at) - waits)
    return old


def _wait(step: StepView) -> int:
    """Return for how long nothing was due behind the step's last record."""
    if step.state == "undo_pending" or step.undo_raised:
        return step.undo_wait
    return step.lands_within if step.state in {"intended", "in_doubt", "undo_in_doubt"} else 0


def told(span: int) -> str:
    """Return nanoseconds in the largest unit of which there are at least two."""
    seconds = span // SECOND
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= 2 * size), _UNITS[-1])
    return f"{seconds // size} {unit}"
