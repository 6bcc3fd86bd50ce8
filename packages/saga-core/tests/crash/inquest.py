"""The oracle: what the ledger and the logs together say about each saga, and what must not be."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from saga_core import codec, fold, open_store
from saga_core.stores.store import Backend

from .orders import KEPT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from saga_core.view import StepView

    from ..ledger import State  # noqa: TID252 -- the one ledger stands beside this folder
    from .orders import Rescued


class Body(NamedTuple):
    """A saga as its log tells it.

    Attributes:
        state: Its state.
        is_settled: Nothing is left to do.
        cased: Amounts of the steps that an open case names, and of the held ones that wait for it; None where the log
            may not be read.
    """

    state: str
    is_settled: bool
    cased: frozenset[int] | None


@dataclass(frozen=True)
class Inquest:
    """The sagas of a store by the base of their amounts; a key may have had several."""

    bodies: Mapping[int, list[Body]]

    @classmethod
    def over(cls, place: Path) -> Inquest:
        """Read every log."""
        store = open_store(f"file:{place}")
        assert isinstance(store, Backend)
        bodies: dict[int, list[Body]] = defaultdict(list)
        for saga in sorted([*store.open_sagas(), *store.done_sagas()]):
            reading = store.read(saga)
            if reading is None or not reading.records:
                continue
            view = fold.fold(reading.records)
            assert view.began is not None
            cases = {case.step for case in view.open_cases}
            waits = {step.number for step in view.steps.values() if cases and step.is_unsent}
            amounts = frozenset(_amount(step) for step in view.steps.values() if step.number in cases | waits)
            body = Body(view.state, view.is_settled, None if reading.damage else amounts)
            bodies[int(view.began.tags["base"])].append(body)
        store.close()
        return cls(bodies)

    @property
    def unsettled(self) -> list[int]:
        """The bases whose sagas somebody still has to look at."""
        return [base for base, bodies in self.bodies.items() if not all(body.is_settled for body in bodies)]

    def wrongs(self, world: State, plans: Mapping[int, str], rescues: Iterable[Rescued] = ()) -> list[str]:
        """Return, a sentence each, what is wrong with the world after recovery.

        Args:
            world: The ledger.
            plans: What each saga meant to do, by base.
            rescues: What recoverers said.
        """
        found = [f"a refund was refused: there was nothing to give back ({key})" for key in _refused(world)]
        found += [f"{charge} was refunded {times} times" for charge, times in _repeats(world)]
        for base, plan in plans.items():
            amounts = [amount % 10 for amount in world.standing.values() if amount // 10 == base]
            standing = set(amounts)
            found += [f"saga {base} charged twice: {amounts}"] if len(amounts) > len(standing) else []
            bodies = self.bodies.get(base, [])
            if not bodies:
                found += [f"saga {base} left no record, and {standing} stand"] if standing else []
                continue
            is_kept = any(body.state == "committed" for body in bodies)
            expected = set(KEPT[plan.removesuffix("_async")]) if is_kept else set[int]()
            cased = {amount % 10 for body in bodies for amount in (body.cased if body.cased is not None else {1, 2, 3})}
            states = ", ".join(body.state for body in bodies)
            if (standing ^ expected) - cased:
                found.append(f"saga {base} is {states}: {standing} stand where {expected} should, cases: {cased}")
            if all(body.is_settled for body in bodies) and standing != expected:
                found.append(f"saga {base} counts as settled: {standing} stand where {expected} should")
            if any(not body.is_settled and body.cased == frozenset() for body in bodies):
                found.append(f"saga {base} is {states}, and nobody is told")
        settled = sum(body.is_settled for bodies in self.bodies.values() for body in bodies)
        said = {
            one.saga for rescue in rescues for found_in in rescue.passes for one in found_in if one.outcome == "settled"
        }
        found += [f"{len(said)} sagas were said to be settled, {settled} are"] if len(said) > settled else []
        return found


def _amount(step: StepView) -> int:
    return codec.thaw(step.args)["amount"]


def _repeats(world: State) -> list[tuple[str, int]]:
    return [(charge, times) for charge, times in Counter(world.refunds.values()).items() if times > 1]


def _refused(world: State) -> list[str]:
    return [key for operation, key, became in world.requests if operation == "refund" and became == "refused"]
