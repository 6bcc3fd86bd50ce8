"""Scenarios of keys: which saga has one, and that no generation is given twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saga_core import records
from saga_core.conformance.expectation import expect
from saga_core.conformance.store.stage import together

if TYPE_CHECKING:
    from collections.abc import Callable

    from saga_core.conformance.store.stage import Stage
    from saga_core.stores.store import Backend

_KEY = "order-7"
_RIVALS = 4
_GENERATIONS = 12
_PROCESSES = 3
_ALIKE = ("Order", "order", "order ", " order", "örder", "o\u0308rder", "order\0", "order" * 2000, "")


def a_generation_of_a_key_is_given_once_and_in_order(stage: Stage) -> None:
    """Its newest saga holds the key, also when it is settled."""
    store, beside = stage.open(), stage.open()
    first, second = stage.begin(store), stage.begin(store)
    for log in (first, second):
        log.sync(log.append(records.Committed(1)))
    expect(store.key_holder(_KEY) is None, "a key that nobody took should have no holder")
    expect(not store.take_key(_KEY, first.saga, 2), "a key's generations should be given in order; the first is 1")
    expect(store.key_holder(_KEY) is None, "a key should have no holder when it was refused")
    expect(store.take_key(_KEY, first.saga, 1), "the first generation of a key should be given")
    for one in (store, beside):
        expect(not one.take_key(_KEY, second.saga, 1), "a generation should be given once")
        expect(not one.take_key(_KEY, second.saga, 3), "no generation should be passed over")
        expect_holder(one, first.saga, 1)
    first.settle()
    expect_holder(beside, first.saga, 1)
    expect(beside.take_key(_KEY, second.saga, 2), "the next generation of a key should be given")
    for one in (store, beside):
        expect_holder(one, second.saga, 2)
        expect(one.key_holder("order-8") is None, "another key should have no holder")


def expect_holder(store: Backend, saga: str, generation: int) -> None:
    """Check who has the key.

    Raises:
        AssertionError: Somebody else has.
    """
    found = store.key_holder(_KEY)
    wanted = (saga, generation)
    expect(found is not None and tuple(found) == wanted, f"the key's holder should be {wanted}; it is {found}")


def keys_that_look_alike_are_different_keys(stage: Stage) -> None:
    """A key is any text; no letter of it is folded, trimmed or cut off."""
    store = stage.open()
    logs = [stage.begin(store) for _ in _ALIKE]
    for key, log in zip(_ALIKE, logs, strict=True):
        log.sync(log.append(records.Committing(1)))
        expect(store.take_key(key, log.saga, 1), f"the key {key[:20]!r} should be free; it is taken for another one")
    for key, log in zip(_ALIKE, logs, strict=True):
        found = store.key_holder(key)
        expect(
            found is not None and found[0] == log.saga,
            f"the key {key[:20]!r} should be held by the saga that took it; it is held by {found}",
        )


def of_many_threads_that_take_a_generation_one_gets_it(stage: Stage) -> None:
    """And none is passed over."""
    stores = [stage.open(), stage.open()]
    logs = [stage.begin(stores[0]) for _ in range(_RIVALS)]
    for log in logs:
        log.sync(log.append(records.Committing(1)))

    def rival(number: int) -> Callable[[], list[int]]:
        store, saga = stores[number % 2], logs[number].saga

        def take() -> list[int]:
            given: list[int] = []
            while True:
                holder = store.key_holder(_KEY)
                generation = 1 if holder is None else holder[1] + 1
                if generation > _GENERATIONS:
                    return given
                if store.take_key(_KEY, saga, generation):
                    given.append(generation)

        return take

    given = together(*(rival(number) for number in range(_RIVALS)))
    everyone = sorted(generation for one in given for generation in one)
    wanted = list(range(1, _GENERATIONS + 1))
    expect(everyone == wanted, f"each generation should be given once, from 1 to {_GENERATIONS}; given were {everyone}")
    newest = next(logs[number].saga for number, one in enumerate(given) if _GENERATIONS in one)
    expect_holder(stores[0], newest, _GENERATIONS)


def of_many_processes_that_take_a_generation_one_gets_it(stage: Stage) -> None:
    """Whichever the others see as its holder then."""
    store = stage.open()
    others = [stage.start() for _ in range(_PROCESSES)]
    logs = [stage.begin(store) for _ in others]
    for log in logs:
        log.sync(log.append(records.Committing(1)))
    for generation in range(1, _GENERATIONS + 1):
        for other, log in zip(others, logs, strict=True):
            other.tell("take", _KEY, log.saga, generation)
        won = [log.saga for other, log in zip(others, logs, strict=True) if other.hear()]
        expect(len(won) == 1, f"of {_PROCESSES} processes one should get generation {generation}; {len(won)} did")
        expect_holder(store, won[0], generation)
