"""What the disk and the remote answer to an act, and what arrives at the remote by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .record import tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .protocol import Act
    from .record import Kind
    from .world import Effect, World


def answers(world: World, act: Act, kind: Kind) -> Iterator[tuple[World, Any]]:  # noqa: C901, PLR0912 -- one branch an act
    """Yield each world to which an act can lead, with what the thread is answered; none while it has to wait."""
    effect = world.effect(act.step)
    match act.what:
        case "append":
            yield world._replace(log=(*world.log, act.about)), None
        case "barrier":
            yield world._replace(synced=len(world.log)), None
        case "look":
            yield world, world.log
        case "tell":
            yield _promise(world, act.step), None
        case "send":
            yield world.with_effect(effect._replace(flies=True)), None
        case "send held":
            after = world.with_effect(effect._replace(flies=True))
            yield after._replace(wrong=_wrong_send(world, effect, kind)), None
        case "answer":
            if effect.landed:
                yield world, "ok"
            declined = world.with_effect(effect._replace(flies=False))
            if effect.flies and act.about != "held":
                yield declined, "declined"
            elif effect.flies and not effect.landed and world.losses:  # else it would be sent for ever
                yield declined._replace(losses=world.losses - 1), "declined"
            yield from _silence(world, is_gone=not effect.flies and not effect.landed)
        case "send undo":
            yield world.with_effect(effect._replace(undos=(*effect.undos, act.about))), None
        case "answer undo":
            is_there = act.about in effect.undos
            if act.about in world.heard and not is_there:
                yield world, "ok"
            yield from _silence(world, is_gone=act.about not in world.heard and not is_there)
        case "probe":
            can_tell = kind.settling == "probe"
            yield world, ("landed" if effect.landed else "not landed") if can_tell else "unknown"
        case "probe undo":
            yield world, act.about in world.heard
        case _:  # to wait until nothing of it can be on its way any more
            if effect.is_settled:
                yield world, None


def _wrong_send(world: World, effect: Effect, kind: Kind) -> str:
    if not any(record.what == "committed" for record in world.log[: world.synced]):
        return "a held effect is sent without a commit on the disk"
    if (effect.landed or effect.flies) and kind.settling != "keyed":
        return "a held effect is sent twice"
    return ""


def _silence(world: World, *, is_gone: bool) -> Iterator[tuple[World, str]]:
    """No answer comes: it got lost, or there is none because the request did."""
    if is_gone:
        yield world, "lost"
    elif world.losses:
        yield world._replace(losses=world.losses - 1), "lost"


def arrivals(world: World, effect: Effect, kind: Kind) -> Iterator[World]:
    """Yield the worlds in which something of an attempt that was on its way has arrived, or got lost."""
    fewer = world._replace(losses=world.losses - 1)
    if effect.flies:
        yield world.with_effect(effect._replace(flies=False, landed=True))
        if world.losses:
            yield fewer.with_effect(effect._replace(flies=False))
    if effect.undos:
        key, rest = effect.undos[0], effect._replace(undos=effect.undos[1:])
        yield _undone(world, rest, key, kind)
        if world.losses:
            yield fewer.with_effect(rest)


def _undone(world: World, effect: Effect, key: str, kind: Kind) -> World:
    after = world._replace(heard=world.heard | {key})
    if key in world.heard and kind.inverse == "keyed":
        return after.with_effect(effect)
    if not effect.landed:
        is_harmless = kind.settling == "keyed"
        return after.with_effect(effect)._replace(wrong="" if is_harmless else "what did not land is undone")
    wrong = ""
    if effect.undone:
        wrong = "an effect is undone twice"
    elif effect.name in world.kept:
        wrong = "what a commit keeps is undone"
    return after.with_effect(effect._replace(undone=effect.undone + 1))._replace(wrong=wrong)


def _promise(world: World, ended: str) -> World:
    kept = (step.name for step in tell(world.log).steps if step.state == "applied" and not step.is_stray)
    return world._replace(told=ended, kept=frozenset(kept) if ended == "committed" else frozenset())
