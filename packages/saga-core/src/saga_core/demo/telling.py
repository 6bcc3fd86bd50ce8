"""How the demo tells what happens: calls and undos as arrows, then what the world holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from saga_core.cli.story import BACKWARD, story

if TYPE_CHECKING:
    from saga_core.demo.world import Holdings
    from saga_core.stores.store import Backend


class Telling:
    """Writes the demo's lines; without an output it is silent."""

    def __init__(self, output: TextIO | None) -> None:
        self._output = output

    def line(self, text: str, *, indent: str = "   ") -> None:
        """Tell one line."""
        if self._output is not None:
            self._output.write(f"{indent}{text}\n")
            self._output.flush()

    def title(self, number: int, text: str) -> None:
        """Begin an act."""
        self.line(f"\n{number}. {text}", indent="")

    def call(self, words: str) -> None:
        """Tell a call."""
        self.line(f"-> {words}")

    def error(self, error: Exception) -> None:
        """Tell what ended the run."""
        self.line(f"!! {type(error).__name__}: {error.args[0]}")

    def undos(self, store: Backend, saga: str) -> None:
        """Tell the undos of a saga in the order in which they ran."""
        reading = store.read(saga)
        for event in story([] if reading is None else reading.records):
            if event.arrow == BACKWARD:
                call, _, rest = event.text.partition("(")  # `saga show` tells the arguments
                self.line(f"{call}{rest.rpartition(')')[2]}")

    def world(self, holdings: Holdings, *, promised: Holdings | None = None) -> None:
        """Tell what the world holds, and whether it is what was promised."""
        counts = f"{_count(holdings.charges, 'charge')}, {_count(holdings.refunds, 'refund')}"
        rows = "as before" if holdings.rows_restored else "changed"
        self.line(
            f"world  {holdings.net / 100:.2f} usd stands charged ({counts}), "
            f'Lead "{holdings.lead}", rows {rows}, {_count(holdings.wires, "wire")}'
        )
        if promised is not None and holdings != promised:
            self.line(f"       which is not as promised: {promised}")

    def end(self, store: Backend, killed: str) -> None:
        """Tell what is left behind and how to look at it."""
        self.line("\nEvery line that begins with `world` was read from the world itself. What our logs say:", indent="")
        self.line(f"saga ls --store {store.url}")
        self.line(f"saga show {killed} --store {store.url}   (the killed one)")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
