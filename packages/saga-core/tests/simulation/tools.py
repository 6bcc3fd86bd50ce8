"""The actions of the simulated programs: every way in which a doubt can be settled, and none."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from saga_core import Conflict, Landed, NotLanded, Pending, Unknown, compensable, current_step, inverse, irreversible

from .remote import LANDS_WITHIN, REMOTE, Declined, Lost

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core import AsyncAction, Attempt, Call, Compensation

_WITHIN = timedelta(seconds=LANDS_WITHIN)


async def _charge(item: str) -> dict[str, str]:
    step = current_step()
    return {"id": await REMOTE.get().charge(step.saga_id, step.key), "item": item}


async def _charge_or_decline(item: str) -> dict[str, str]:
    step = current_step()
    return {"id": await REMOTE.get().charge(step.saga_id, step.key, may_decline=True), "item": item}


async def _charge_with_note(item: str) -> dict[str, str]:
    step = current_step()
    await step.note(item=item)
    return {"id": await REMOTE.get().charge(step.saga_id, step.key), "item": item}


async def _find(attempt: Attempt) -> Landed[dict[str, str]] | NotLanded:
    found = await REMOTE.get().find(attempt.key)
    return NotLanded() if found is None else Landed({"id": found, "item": attempt.args["item"]})


async def _find_at_times(attempt: Attempt) -> Landed[dict[str, str]] | NotLanded | Unknown:
    remote = REMOTE.get()
    if not remote.is_calm and remote.draw.random() < 0.3:
        return Unknown("the search is down")
    return await _find(attempt)


@inverse("simulated.refund.keyed", keyed=True)
async def refund_keyed(charge: str) -> None:
    """Give a charge back; a repeat under the same key has no second effect."""
    await REMOTE.get().refund(current_step().saga_id, charge, current_step().key, keyed=True)


@inverse("simulated.refund.asked")
async def refund_asked(charge: str) -> None:
    """Give a charge back; a repeat gives it back twice."""
    await REMOTE.get().refund(current_step().saga_id, charge, current_step().key, keyed=False)


@refund_asked.probe
async def _find_refund(charge: str) -> Landed[None] | NotLanded:
    found = await REMOTE.get().find_refund(current_step().key)
    return Landed(None) if found else NotLanded()


@inverse("simulated.refund.blind")
async def refund_blind(charge: str) -> Conflict | None:
    """Give a charge back; a repeat gives it back twice, so a lost answer is no failure but a person's business."""
    try:
        await REMOTE.get().refund(current_step().saga_id, charge, current_step().key, keyed=False)
    except Lost:
        return Conflict(wrote=charge, found="no answer")
    return None


@inverse("simulated.refund.slow", keyed=True)
async def refund_slow(charge: str) -> Pending:
    """Have a charge given back some time later."""
    await REMOTE.get().refund(current_step().saga_id, charge, current_step().key, keyed=True)
    return Pending("later", check_after=timedelta(seconds=3))


@refund_slow.observe
async def _refund_settled(pending: Pending, charge: str) -> None:
    await REMOTE.get().find_refund(current_step().key)


@inverse("simulated.release", keyed=True)
async def release(saga: str, of: str) -> None:
    """Give back whatever the attempt made; harmless where it made nothing."""
    await REMOTE.get().release(saga, of, current_step().key)


def _release(attempt: Attempt) -> Compensation:
    return release.bind(attempt.args["item"].partition(" ")[0], attempt.key)


def _declare(
    name: str,
    fn: Callable[..., Any],
    bind: Callable[[str], Compensation],
    probe: Callable[[Attempt], Any] | None,
    **options: Any,
) -> AsyncAction[..., dict[str, str]]:
    action = compensable(f"simulated.{name}", lands_within=_WITHIN, **options)(fn)

    def undo(call: Call[dict[str, str]]) -> Compensation:
        return bind(call.result["id"])

    action.undo(undo)
    if probe is not None:
        action.probe(probe)
    return action


async def _mail(item: str) -> None:
    step = current_step()
    await REMOTE.get().mail(step.saga_id, item, step.key, keyed=False)


async def _mail_by_key(item: str) -> None:
    step = current_step()
    await REMOTE.get().mail(step.saga_id, item, step.key, keyed=True)


async def _mail_or_decline(item: str) -> None:
    step = current_step()
    await REMOTE.get().mail(step.saga_id, item, step.key, keyed=False, may_decline=True)


async def _find_mail(attempt: Attempt) -> Landed[None] | NotLanded:
    found = await REMOTE.get().find_mail(attempt.args["item"], attempt.key)
    return Landed(None) if found else NotLanded()


def _hold(name: str, fn: Callable[..., Any], *, is_asked: bool, **options: Any) -> AsyncAction[..., Any]:
    action = irreversible(f"simulated.{name}", hold=True, lands_within=_WITHIN, **options)(fn)
    if is_asked:
        action.probe(_find_mail)
    return action


ACTIONS: dict[str, AsyncAction[..., Any]] = {
    "sure": _declare("sure", _charge, refund_keyed.bind, _find),
    "asked": _declare("asked", _charge_with_note, refund_asked.bind, _find_at_times),
    "released": _declare("released", _charge, refund_keyed.bind, None, keyed_undo=_release),
    "blind": _declare("blind", _charge, refund_blind.bind, None),
    "slow": _declare("slow", _charge, refund_slow.bind, _find),
    "replayed": _declare("replayed", _charge, refund_keyed.bind, _find, replay=True),
    "declined": _declare("declined", _charge_or_decline, refund_asked.bind, _find, not_landed=Declined),
    "hasty": _declare("hasty", _charge, refund_keyed.bind, _find, timeout=timedelta(seconds=0.2)),
    "mail asked": _hold("mail.asked", _mail_or_decline, is_asked=True, not_landed=Declined),
    "mail replayed": _hold("mail.replayed", _mail_by_key, is_asked=False, replay=True),
    "mail blind": _hold("mail.blind", _mail, is_asked=False),
}
"""By name: what a program can call."""
