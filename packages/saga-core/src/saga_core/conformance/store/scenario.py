"""A scenario: one claim about a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from saga_core.conformance.expectation import expect
from saga_core.conformance.store.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from saga_core.conformance.store.harness import Ability, Harness


@dataclass(frozen=True)
class Scenario:
    """One claim about a store.

    Attributes:
        name: The claim.
        needs: What the store and its harness must be able to do.
        act: Plays it, and raises where the store does not do what the claim says.
    """

    name: str
    needs: AbstractSet[Ability]
    act: Callable[[Stage], None]

    def check(self, harness: Harness, folder: Path) -> None:
        """Play it in an empty folder.

        Raises:
            AssertionError: The store does not do what the name claims, or the harness has not what the claim needs.
        """
        lacking = sorted(self.needs - harness.abilities)
        expect(not lacking, f"{harness.name} does not say that it has the ability {' and '.join(lacking)}")
        stage = Stage(harness, folder)
        try:
            self.act(stage)
        except Exception as error:
            if isinstance(error, AssertionError):
                raise
            raise AssertionError(f"the store raised {type(error).__qualname__}: {error}") from error
        finally:
            stage.clear()
