"""A stand-in for a vendor: a real server on a real port, in a thread or in an OS process of its own."""

import asyncio
import http.client
import importlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import IO, Any, Literal, Protocol, Self, cast
from urllib.parse import urlsplit

from saga_connectors.errors import MissingExtra

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import BaseRoute, Route
    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as missing:
    raise MissingExtra("saga_connectors.testing", "testing", library=missing.name or "starlette") from missing

from saga_connectors.testing.fault import FaultLayer, Faults, Kind, When


class Vendor(Protocol):
    """What a module of this package implements. It is called on the server's loop only, so it needs no locks.

    `saga_connectors.testing.<name>` has a function `vendor()` that returns a fresh one; that makes
    `LocalServer.in_process("<name>")` and `python -m saga_connectors.testing <name>` work.
    """

    def routes(self) -> Sequence[BaseRoute]:
        """The vendor's API."""
        ...

    def state(self) -> Mapping[str, Any]:
        """The whole ledger as JSON: what tests compare."""
        ...

    def reset(self) -> None:
        """Forget everything."""
        ...

    def act(self, move: str, /, **facts: Any) -> Mapping[str, Any]:
        """Do what somebody else does in this world (staff, a bank, another program) and return what came of it."""
        ...


class LocalServer:
    """A running local vendor, seen and steered over HTTP alone, so in-thread and in-process servers are the same.

    The calls block; they are safe from any thread, also from one with a running loop, because the server has its own.
    """

    def __init__(self, url: str, stop: Callable[[], None]) -> None:
        self.url = url
        self._stop = stop

    @classmethod
    def in_thread(cls, vendor: Vendor) -> Self:
        """Serve `vendor` from a thread of this process; it dies with the process."""
        listener = _listener(0)
        server = uvicorn.Server(_config(vendor))
        # The socket listens already, so nobody needs to wait for the server to start.
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), name="vendor", daemon=True)
        thread.start()

        def stop() -> None:
            server.should_exit = server.force_exit = True
            thread.join()
            listener.close()

        return cls(_url(listener), stop)

    @classmethod
    def in_process(cls, name: str) -> Self:
        """Serve `saga_connectors.testing.<name>` from an OS process of its own, which outlives a killed client.

        It ends with `close`, and also when this process dies.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "saga_connectors.testing", name, "--until-stdin-closes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)

        def stop() -> None:
            stdin.close()
            process.wait()
            stdout.close()

        line = stdout.readline()
        if not line:
            stop()
            raise OSError(f"the local server {name!r} did not start: exit code {process.returncode}")
        return cls(cast("str", json.loads(line)["url"]), stop)

    def snapshot(self) -> dict[str, Any]:
        """Return the whole ledger as JSON."""
        return self._call("GET", "/_test/state")

    def arm(
        self,
        kind: Kind,
        *,
        on: str,
        when: When = "before",
        nth: int = 1,
        count: int = 1,
        seconds: float | None = None,
        status: int = 500,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Arm a fault for the `nth` request from now that matches `on`, and for `count - 1` matching ones after it.

        Args:
            kind: `drop`, `late`, `hang` or `answer`; see `saga_connectors.testing.fault.Fault`.
            on: Method and path, `*` for one path segment: `"POST /v1/payment_intents/*/confirm"`.
            when: Before or after the effect (`late` knows no such difference).
            nth: 1 is the next matching request.
            count: How many matching requests in a row are hit.
            seconds: When `late` is executed or `hang` goes on; None waits for `release`.
            status: What `answer` answers.
            headers: Headers of that answer, for instance `{"Retry-After": "1"}`.
        """
        details = {"kind": kind, "on": on, "when": when, "nth": nth, "count": count}
        self._call(
            "POST", "/_test/faults", {**details, "seconds": seconds, "status": status, "headers": dict(headers or {})}
        )

    def release(self) -> None:
        """Let go of every request that is held back now (`late`, `hang`) and forget no armed fault."""
        self._call("POST", "/_test/release")

    def act(self, move: str, /, **facts: Any) -> dict[str, Any]:
        """Do what somebody else does in this world; the vendor's module lists its moves."""
        return self._call("POST", "/_test/act", {"move": move, "facts": facts})

    def reset(self) -> None:
        """Forget the ledger and every fault; requests held back are never executed."""
        self._call("POST", "/_test/reset")

    def close(self) -> None:
        """Stop the server; open connections are cut. A second call does nothing."""
        stop, self._stop = self._stop, _nothing
        stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _call(self, method: Literal["GET", "POST"], path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        try:
            # What the server does not read would reset the connection under its answer.
            connection.request(method, path, None if body is None else json.dumps(body), {"Connection": "close"})
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        finally:
            connection.close()
        if response.status != HTTPStatus.OK:
            raise ValueError(f"{method} {path}: {answer['error']}")
        return answer


def serve(name: str, port: int, *, until: Callable[[], object] | None) -> None:
    """Serve `saga_connectors.testing.<name>` from this process, after printing one JSON line with its url.

    Args:
        name: A module of this package.
        port: 0 takes a free one.
        until: Serving ends when it returns; None serves until the process is ended.
    """
    module = importlib.import_module(f"saga_connectors.testing.{name}")
    listener = _listener(port)
    server = uvicorn.Server(_config(module.vendor()))
    sys.stdout.write(json.dumps({"url": _url(listener)}) + "\n")
    sys.stdout.flush()
    if until is not None:
        threading.Thread(target=_stop_after, args=(until, server), daemon=True).start()
    asyncio.run(server.serve([listener]))


def _stop_after(until: Callable[[], object], server: uvicorn.Server) -> None:
    until()
    server.should_exit = server.force_exit = True


class _CuttableProtocol(H11Protocol):
    """Lets the application cut its own connection, which ASGI has no word for."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.app = _with_cut(self.app, transport)
        super().connection_made(transport)


def _with_cut(app: ASGIApp, transport: asyncio.Transport) -> Any:
    async def cuttable(scope: Scope, receive: Receive, send: Send) -> None:
        scope["cut"] = transport.abort
        await app(scope, receive, send)

    return cuttable


def _config(vendor: Vendor) -> uvicorn.Config:
    return uvicorn.Config(
        _application(vendor),
        http=_CuttableProtocol,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
    )


def _application(vendor: Vendor) -> ASGIApp:
    faults = Faults()

    async def state(_: Request) -> Response:
        return JSONResponse(dict(vendor.state()))

    async def arm(request: Request) -> Response:
        faults.arm(await request.json())
        return JSONResponse({})

    async def release(_: Request) -> Response:
        faults.release()
        return JSONResponse({})

    async def reset(_: Request) -> Response:
        await faults.reset()
        vendor.reset()
        return JSONResponse({})

    async def act(request: Request) -> Response:
        asked = await request.json()
        return JSONResponse(dict(vendor.act(asked["move"], **asked["facts"])))

    async def refuse(_: Request, error: Exception) -> Response:
        return JSONResponse({"error": f"{type(error).__name__}: {error}"}, status_code=400)

    steering = Starlette(
        routes=[
            Route("/_test/state", state),
            Route("/_test/faults", arm, methods=["POST"]),
            Route("/_test/release", release, methods=["POST"]),
            Route("/_test/reset", reset, methods=["POST"]),
            Route("/_test/act", act, methods=["POST"]),
        ],
        exception_handlers={TypeError: refuse, ValueError: refuse, LookupError: refuse},
    )
    api = FaultLayer(Starlette(routes=list(vendor.routes())), faults)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await (steering if scope["path"].startswith("/_test/") else api)(scope, receive, send)

    return application


def _listener(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    return listener


def _url(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def _nothing() -> None:
    """The server is stopped already."""
