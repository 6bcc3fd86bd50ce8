"""A scenario, and the stage on which a harness plays it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from saga_core import fold, open_store
from saga_core.conformance.adapter.ledger import told_of
from saga_core.conformance.adapter.script import Script, ToolCall
from saga_core.conformance.expectation import expect
from saga_core.stores.store import Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from saga_core.conformance.adapter.ledger import Ledger
    from saga_core.conformance.adapter.script import Form, Harness, Played, Tool, Turn
    from saga_core.view import SagaView


class ModelFailed(Exception):
    """What asking the model raises where a scenario plans it."""


@dataclass(frozen=True)
class Scenario:
    """One claim about an adapter.

    Attributes:
        name: The claim, and the form in which it is played.
        form: What the harness must be able to do.
        act: Plays it, and raises where the world, or what came out, is not what the claim says.
    """

    name: str
    form: Form
    act: Callable[[Stage], None]

    def check(self, harness: Harness, folder: Path) -> None:
        """Play it in an empty folder, which takes the ledger and the store.

        Raises:
            AssertionError: The adapter does not do what the name claims, or the harness does not play this form.
        """
        expect(self.form in harness.forms, f"{harness.name} does not say that it plays the form {self.form!r}")
        with told_of(folder / "ledger") as ledger:
            self.act(Stage(harness, self.form, ledger, folder))
            expect(not ledger.violations, f"in the world, {'; '.join(ledger.violations)}")


@dataclass(frozen=True)
class Stage:
    """The harness, the world and the store of one scenario."""

    harness: Harness
    form: Form
    ledger: Ledger
    folder: Path

    @property
    def store(self) -> str:
        """The URL of the store."""
        return f"file:{self.folder / 'store'}"

    def play(self, turns: Sequence[Turn], actions: Sequence[Tool]) -> Played:
        """Run the harness in the scenario's form, and return what came of it."""
        if self.form == "sync":
            return self.harness.play(Script(turns), actions, self.store, None)
        return asyncio.run(self.harness.play_async(Script(turns), actions, self.store, None))

    def fail(self, turns: Sequence[Turn], actions: Sequence[Tool]) -> None:
        """Run the harness where the last turn is an error, and check that this very error comes out, with one note."""
        error = turns[-1]
        assert isinstance(error, BaseException)
        try:
            played = self.play(turns, actions)
        except BaseException as raised:  # noqa: BLE001 -- whatever comes out is looked at
            expect_unchanged(error, raised)
        else:
            raise AssertionError(f"the model raised {error!r}, and the run answered {played.answer!r}")

    def stand(self, *items: str) -> None:
        """Check what stands in the world, in the order in which it landed."""
        found = self.ledger.standing
        expect(found == list(items), f"{_named(items)} should stand in the world; {_named(found)} stand there")

    def are_undone(self, *items: str) -> None:
        """Check what was undone in the world, and in which order."""
        found = self.ledger.undone
        expect(found == list(items), f"undone should be {_named(items)}, in this order; it was {_named(found)}")

    def have_landed(self, *items: str) -> None:
        """Check what ever landed in the world, in order."""
        found = self.ledger.landed
        expect(found == list(items), f"{_named(items)} should have landed; {_named(found)} did")

    def ended(self, *states: str) -> None:
        """Check how the sagas of the store ended, oldest first; each has to be settled."""
        views = self.sagas()
        found = [view.state if view.is_settled else f"{view.state}, unsettled" for view in views]
        expect(found == list(states), f"the store should hold the sagas {_named(states)}; it holds {_named(found)}")

    def sagas(self) -> list[SagaView]:
        """Return the sagas of the store, oldest first."""
        store = open_store(self.store)
        assert isinstance(store, Backend)
        readings = [store.read(saga) for saga in sorted({*store.open_sagas(), *store.done_sagas()})]
        return [fold.fold(reading.records) for reading in readings if reading is not None]


def call(tool: Tool, item: str, **args: Any) -> ToolCall:
    """Return the model's call of one of the suite's actions."""
    asked: Mapping[str, Any] = {"item": item, **args}
    return ToolCall(tool.__name__, asked)


def expect_unchanged(error: BaseException, raised: BaseException) -> None:
    """Check that an error came out as the object that it was, with one note of ours.

    Raises:
        AssertionError: It is another one, or its notes are not one.
    """
    if raised is not error:
        raise AssertionError(f"the run should raise {error!r}, the very object; it raised {raised!r}") from raised
    notes = [text for text in getattr(error, "__notes__", ()) if text.startswith("saga ")]
    expect(len(notes) == 1, f"the error should carry one note of the saga's end; it carries {notes}")


def _named(words: Sequence[str]) -> str:
    return f"[{', '.join(words)}]"
