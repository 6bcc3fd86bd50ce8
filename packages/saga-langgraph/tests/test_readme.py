"""The README's programs do what it says, with a model of ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SHOP = '''
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from saga_core import Call, Compensation, compensable, inverse


def write(line):
    with Path("ledger.txt").open("a") as ledger:
        ledger.write(f"{line}\\n")


@inverse("shop.refund")
def refund(charge_id: str) -> None:
    write(f"refund {charge_id}")


@compensable("shop.charge")
async def charge(customer_id: str, amount: int) -> str:
    """Charge a customer."""
    write(f"charge {customer_id} {amount}")
    return "ch_1"


@charge.undo
def undo_charge(call: Call[str]) -> Compensation:
    return refund.bind(charge_id=call.result)


class Model(BaseChatModel):
    fails: bool = False

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, *_, **__):
        return self

    def _generate(self, messages, *_, **__):
        if messages[-1].type != "tool":
            call = {"name": "charge", "args": {"customer_id": "cus_1", "amount": 4200}, "id": "call_1"}
            return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])
        if self.fails:
            raise OSError("the model is gone")
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Charged."))])


model = Model()
'''


def played(program: str, folder: Path, shop: str = SHOP) -> tuple[int, str, list[str]]:
    """Return a program's exit code, what it said, and the ledger."""
    (folder / "shop.py").write_text(shop, encoding="utf-8")
    (folder / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, env=os.environ, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr, (folder / "ledger.txt").read_text(encoding="utf-8").splitlines()


def snippets() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_agent_keeps_its_charge(tmp_path: Path) -> None:
    code, said, ledger = played(snippets()[0], tmp_path)
    assert code == 0, said
    assert ledger == ["charge cus_1 4200"]


def test_the_agents_charge_is_refunded_when_the_model_fails(tmp_path: Path) -> None:
    code, said, ledger = played(snippets()[0], tmp_path, SHOP.replace("Model()", "Model(fails=True)"))
    assert code == 1
    assert "OSError: the model is gone" in said
    assert "rolled back; 1 of 1 effects undone" in said
    assert ledger == ["charge cus_1 4200", "refund ch_1"]


def test_the_graph_charges_in_its_node(tmp_path: Path) -> None:
    program = snippets()[1] + 'import asyncio\nprint(asyncio.run(graph.ainvoke({"customer": "cus_1"})))\n'
    code, said, ledger = played(program, tmp_path)
    assert code == 0, said
    assert ledger == ["charge cus_1 4200"]
