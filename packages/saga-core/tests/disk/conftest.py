from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

_KEY = pytest.StashKey[Counter[str]]()


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Callable[[str, int], None]:
    """Count states; the totals stand at the end of the run, so that a search that shrinks is seen."""
    totals = request.config.stash.setdefault(_KEY, Counter())

    def count(what: str, states: int) -> None:
        totals[what] += states

    return count


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    totals = config.stash.get(_KEY, None)
    if totals:
        words = ", ".join(f"{number:,} {what}" for what, number in totals.items())
        terminalreporter.write_line(f"simulated disk: {words}")
