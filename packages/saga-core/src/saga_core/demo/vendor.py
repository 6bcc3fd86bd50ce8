"""The simulated vendors: one server process with a card ledger that honours keys, a CRM record, and a wire desk.

It listens on 127.0.0.1, tells its port on standard output, and ends when its standard input is closed.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, Any]

_NOT_FOUND: Answer = (404, {"error": "there is no such thing"})


class Books:
    """What the vendors remember; one lock guards it all."""

    def __init__(self) -> None:
        self.charges: dict[str, dict[str, Any]] = {}
        self.refunds: dict[str, dict[str, Any]] = {}
        self.lead = {"Status": "New"}
        self.version = 1
        self.wires: list[dict[str, Any]] = []
        self.withholds = False
        self.charged = threading.Event()
        self.lock = threading.Lock()
        self._numbers = itertools.count(1)

    def charge(self, key: str, order: dict[str, Any]) -> Answer:
        """Book a charge; the same key gets the same charge again."""
        if key not in self.charges:
            self.charges[key] = {"id": f"ch_{next(self._numbers)}", **order}
        return 200, self.charges[key]

    def refund(self, order: dict[str, Any]) -> Answer:
        """Book a refund; a charge is refunded once."""
        charge = order["charge"]
        if charge in self.refunds:
            return 409, {"error": "that charge has been refunded"}
        if all(charge != booked["id"] for booked in self.charges.values()):
            return _NOT_FOUND
        self.refunds[charge] = {"id": f"re_{next(self._numbers)}", "charge": charge}
        return 200, self.refunds[charge]

    def patch(self, guard: str | None, patch: dict[str, str]) -> Answer:
        """Change the Lead, unless somebody else has changed it since the guard was read."""
        if guard is not None and guard != str(self.version):
            return 412, {"error": "the Lead has changed"}
        self.lead.update(patch)
        self.version += 1
        return self.read_lead()

    def read_lead(self) -> Answer:
        """Return the Lead and its version."""
        return 200, {"fields": dict(self.lead), "version": str(self.version)}

    def wire(self, order: dict[str, Any]) -> Answer:
        """Send a wire; nothing brings it back."""
        self.wires.append(order)
        return 200, {"sent": len(self.wires)}

    def ledger(self) -> Answer:
        """Return everything that was booked."""
        charged = sum(charge["amount"] for charge in self.charges.values())
        back = sum(charge["amount"] for charge in self.charges.values() if charge["id"] in self.refunds)
        return 200, {
            "net": charged - back,
            "charges": len(self.charges),
            "refunds": len(self.refunds),
            "lead": self.lead["Status"],
            "wires": len(self.wires),
        }


class _Desk(BaseHTTPRequestHandler):
    """One request."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        books = self._books()
        if url.path == "/charged":
            self._answer((200, {"charged": books.charged.wait(float(query["within"]))}))
            return
        with books.lock:
            if url.path == "/charges":
                found = books.charges.get(query["key"])
                self._answer(_NOT_FOUND if found is None else (200, found))
            elif url.path == "/lead":
                self._answer(books.read_lead())
            else:
                self._answer(books.ledger() if url.path == "/ledger" else _NOT_FOUND)

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        books = self._books()
        with books.lock:
            answer = self._booked(books, order)
            is_withheld = books.withholds and self.path == "/charges"
            if is_withheld:
                books.withholds = False
        if not is_withheld:
            self._answer(answer)
            return
        books.charged.set()
        self.connection.recv(1)  # returns when whoever asked is gone

    def _booked(self, books: Books, order: dict[str, Any]) -> Answer:
        match self.path:
            case "/charges":
                return books.charge(self.headers["Idempotency-Key"], order)
            case "/refunds":
                return books.refund(order)
            case "/lead":
                return books.patch(self.headers["If-Match"], order)
            case "/wires":
                return books.wire(order)
            case "/withhold":
                books.withholds = True
                return 200, None
            case _:
                return _NOT_FOUND

    def _books(self) -> Books:
        assert isinstance(self.server, Vendor)
        return self.server.books

    def _answer(self, answer: Answer) -> None:
        status, body = answer
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class names it
        """Say nothing."""


class Vendor(ThreadingHTTPServer):
    """The server of one set of books."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Desk)
        self.books = Books()

    def server_bind(self) -> None:
        """Bind without asking a name server who we are."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", int(self.server_address[1])


def main() -> None:
    """Serve until standard input is closed."""
    vendor = Vendor()

    def wait() -> None:
        sys.stdin.read()
        vendor.shutdown()

    threading.Thread(target=wait, daemon=True).start()
    sys.stdout.write(f"127.0.0.1:{vendor.server_port}\n")
    sys.stdout.flush()
    vendor.serve_forever(poll_interval=0.05)
    vendor.server_close()


if __name__ == "__main__":
    main()
