"""The README's programs do what it says, against a model of ours behind the SDK's own client."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BILLING = """
from pathlib import Path

from saga_core import Call, Compensation, compensable, inverse


def write(line):
    with Path("ledger.txt").open("a") as ledger:
        ledger.write(f"{line}\\n")


@inverse("billing.refund")
def refund(charge_id: str) -> None:
    write(f"refund {charge_id}")


@compensable("billing.charge")
async def charge(customer_id: str, amount: int) -> str:
    write(f"charge {customer_id} {amount}")
    return "ch_1"


@charge.undo
def undo_charge(call: Call[str]) -> Compensation:
    return refund.bind(charge_id=call.result)
"""
CHARGE: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "charge",
    "arguments": json.dumps({"customer_id": "cus_1", "amount": 42_00}),
}
DONE: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Charged.", "annotations": []}],
}


class Service(ThreadingHTTPServer):
    """Answers the Responses API by a script; behind its end it says that the request is bad."""

    daemon_threads = True

    def __init__(self, *outputs: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.outputs = iter(outputs)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class _Door(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        service = self.server
        assert isinstance(service, Service)
        output = next(service.outputs, None)
        if output is None:
            self._send(400, "application/json", json.dumps({"error": {"message": "no more", "type": "bad"}}))
            return
        response = {
            "id": "resp_1",
            "object": "response",
            "created_at": 0,
            "model": asked["model"],
            "output": [output],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "status": "completed",
        }
        if asked.get("stream"):
            event = {"type": "response.completed", "sequence_number": 0, "response": response}
            self._send(200, "text/event-stream", f"event: response.completed\ndata: {json.dumps(event)}\n\n")
        else:
            self._send(200, "application/json", json.dumps(response))

    def _send(self, status: int, kind: str, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the library's name
        """Say nothing: the test's output is the program's."""


def snippets() -> Sequence[str]:
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run(program: str, folder: Path, *outputs: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    (folder / "billing.py").write_text(BILLING, encoding="utf-8")
    (folder / "program.py").write_text(program, encoding="utf-8")
    with Service(*outputs) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        told = {"OPENAI_BASE_URL": service.url, "OPENAI_API_KEY": "sk-test", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
        done = subprocess.run(
            [sys.executable, "program.py"],
            cwd=folder,
            env=os.environ | told,
            capture_output=True,
            text=True,
            check=False,
        )
        service.shutdown()
    return done


def ledger(folder: Path) -> list[str]:
    return (folder / "ledger.txt").read_text(encoding="utf-8").splitlines()


def test_the_six_lines_keep_the_charge_of_a_run_that_came_to_its_end(tmp_path: Path) -> None:
    done = run(snippets()[0], tmp_path, CHARGE, DONE)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"Charged\. saga \w+: committed\n  1\. billing\.charge: landed\n", done.stdout)
    assert ledger(tmp_path) == ["charge cus_1 4200"]


def test_the_six_lines_refund_the_charge_of_a_run_whose_model_fails(tmp_path: Path) -> None:
    done = run(snippets()[0], tmp_path, CHARGE)
    assert done.returncode == 1
    assert "BadRequestError" in done.stderr
    assert "rolled back; 1 of 1 effects undone" in done.stderr
    assert ledger(tmp_path) == ["charge cus_1 4200", "refund ch_1"]


def test_the_stream_that_is_broken_off_refunds_the_charge(tmp_path: Path) -> None:
    done = run(snippets()[1], tmp_path, CHARGE, DONE)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"saga \w+: rolled back\n  1\. billing\.charge: landed, undone\n", done.stdout)
    assert ledger(tmp_path) == ["charge cus_1 4200", "refund ch_1"]
