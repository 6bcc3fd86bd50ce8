"""The README's program does what it says, with a model of ours."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SHOP = '''
from pathlib import Path

from saga_core import Call, Compensation, compensable, inverse
from saga_crewai.testing import ScriptedLLM


def write(line):
    with Path("ledger.txt").open("a") as ledger:
        ledger.write(f"{line}\\n")


@inverse("shop.refund")
def refund(charge_id: str) -> None:
    write(f"refund {charge_id}")


@compensable("shop.charge")
def charge(customer_id: str, amount: int) -> str:
    """Charge a customer."""
    write(f"charge {customer_id} {amount}")
    return "ch_1"


@charge.undo
def undo_charge(call: Call[str]) -> Compensation:
    return refund.bind(charge_id=call.result)


model = ScriptedLLM([[("charge", {"customer_id": "cus_1", "amount": 4200})], END])
'''


def played(end: str, folder: Path) -> tuple[int, str, str, list[str]]:
    """Return the program's exit code, its output, what it said, and the ledger."""
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (folder / "shop.py").write_text(SHOP.replace("END", end), encoding="utf-8")
    (folder / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, env=os.environ, capture_output=True, text=True, check=False
    )
    ledger = (folder / "ledger.txt").read_text(encoding="utf-8").splitlines()
    return done.returncode, done.stdout, done.stderr, ledger


def test_the_crew_keeps_its_charge(tmp_path: Path) -> None:
    code, printed, said, ledger = played('"a receipt"', tmp_path)
    assert code == 0, said
    assert "1. shop.charge: landed" in printed
    assert ledger == ["charge cus_1 4200"]


def test_the_crews_charge_is_refunded_when_the_model_fails(tmp_path: Path) -> None:
    code, _, said, ledger = played('OSError("the model is gone")', tmp_path)
    assert code == 1
    assert "the model is gone" in said
    assert ledger[0] == "charge cus_1 4200"
    assert ledger.count("refund ch_1") == ledger.count("charge cus_1 4200")
