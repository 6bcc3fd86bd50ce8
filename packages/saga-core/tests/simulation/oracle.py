"""What must hold when the world has come to rest: the remote's ledger against the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core import codec, ids
from saga_core.plan import uncased

if TYPE_CHECKING:
    from saga_core.view import SagaView, StepView

    from .host import Host
    from .remote import Charge, Remote


def judge(host: Host, remote: Remote) -> list[str]:
    """Return what is wrong, in words."""
    problems: list[str] = []
    known: set[str] = set()
    for saga in host.disk.sagas():
        view = host.view(saga)
        if not view.is_settled and not view.open_cases:
            problems.append(f"{saga} is {view.state} at the end, and no case is open")
        problems += [f"step {step.number} is {step.state}, and nobody is told" for step in uncased(view)]
        for step in view.steps.values():
            key = ids.step_key(saga, step.position, "do", step.attempt)
            if step.is_hold:
                has_landed = key in remote.mails[codec.thaw(step.args)["item"]]
                problems += [
                    f"{saga} step {step.number}: {what}" for what in _wrong_hold(view, step, has_landed=has_landed)
                ]
                continue
            known.add(key)
            made = remote.charges.get(remote.made.get(key, ""))
            problems += [f"{saga} step {step.number} {step.action}: {what}" for what in _wrong(view, step, made)]
        if saga in host.promises and host.promises[saga] != view.state:
            problems.append(f"{saga} was told to be {host.promises[saga]} and is {view.state}")
    problems += [
        f"{made.id} landed without a trace in a log" for made in remote.charges.values() if made.key not in known
    ]
    return problems


def _wrong_hold(view: SagaView, step: StepView, *, has_landed: bool) -> list[str]:
    if step.state == "applied":
        return [] if has_landed else ["a held effect counts as sent and never landed"]
    if has_landed and not any(case.step == step.number for case in view.open_cases):
        return [f"a held effect landed, is {step.state}, and no case tells"]
    return []


def _wrong(view: SagaView, step: StepView, made: Charge | None) -> list[str]:
    is_told = any(case.step == step.number for case in view.open_cases)
    is_back = made is not None and bool(made.refunds)
    if made is None:
        if step.state == "undone" and step.keyed_undo is not None:
            return []
        if step.state in {"applied", "undone", "left_in_place"}:
            return [f"it is {step.state} and never landed"]
        return []
    if is_back:
        return [] if step.state == "undone" or is_told else [f"it was given back and is {step.state}"]
    if step.state == "undone":
        return ["it is undone and stands"]
    if is_told or (view.ended == "committed" and step.state == "applied" and not step.stray):
        return []
    return [f"it stands, is {step.state} in a saga that is {view.state}, and no case tells"]
