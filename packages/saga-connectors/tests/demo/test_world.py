"""The world of the demo follows what is done at its vendors, and the demo sees where it is not as promised."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from saga_connectors.demo import client
from saga_connectors.demo.script import POSTGRES, STRIPE
from saga_connectors.demo.world import LocalWorld
from saga_core.demo import acts
from saga_core.demo.acts import AMOUNT, Holdings, Scripted, run

NEW = Holdings(net=0, charges=0, refunds=0, lead="New", rows_restored=True, wires=0)


def test_each_call_made_plainly_moves_its_figure_and_no_other(world: LocalWorld) -> None:
    holdings = NEW
    assert world.read_back() == holdings
    changes = ({"lead": "Won"}, {"rows_restored": False}, {"net": AMOUNT, "charges": 1}, {"wires": 1})
    for call, change in zip([*world.calls(), world.wire()], changes, strict=True):
        call.directly()
        holdings = holdings._replace(**change)
        assert world.read_back() == holdings
    world.prepare()
    assert world.read_back() == NEW


def test_a_refund_is_taken_from_what_stands_charged(world: LocalWorld) -> None:
    world.calls()[-1].directly()
    with client.payments(STRIPE) as payments:
        (intent,) = payments.v1.payment_intents.list().data
        payments.v1.refunds.create({"payment_intent": intent.id, "amount": 2_000})
    assert world.read_back() == NEW._replace(net=AMOUNT - 2_000, charges=1, refunds=1)


def test_an_empty_note_is_not_taken_for_none(world: LocalWorld) -> None:
    changed = client.query("UPDATE orders SET note = NULL WHERE note = '' RETURNING id", credential_ref=POSTGRES)
    assert len(changed) == 1
    assert not world.read_back().rows_restored


@pytest.mark.parametrize(
    ("beside", "found"),
    [(0, {"lead": "Won"}), (1, {"rows_restored": False}), (2, {"net": AMOUNT, "refunds": 0})],
    ids=["patch_object", "update", "charge"],
)
def test_a_call_made_beside_its_action_is_found(
    world: LocalWorld,
    beside: int,
    found: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The negative control of the demo's own check."""
    genuine = world.calls

    def sabotaged() -> Sequence[Scripted]:
        calls = list(genuine())
        calls[beside] = calls[beside]._replace(recorded=calls[beside].directly)
        return calls

    @contextmanager
    def open_sabotaged(_: Path) -> Generator[LocalWorld]:
        yield world

    monkeypatch.setattr(world, "calls", sabotaged)
    monkeypatch.setattr(acts, "ACTS", [act for act in acts.ACTS if act.name == "rolled_back"])
    assert run(["--dir", str(tmp_path / "left")], open_sabotaged) == 1
    captured = capsys.readouterr()
    assert "the world is not as promised after: rolled_back" in captured.err
    assert "which is not as promised" in captured.out
    assert world.read_back() == Holdings(0, 1, 1, "New", rows_restored=True, wires=0)._replace(**found)
