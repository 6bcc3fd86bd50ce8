"""One `stripe` client per credential and event loop; it ends with the loop.

The package's asynchronous clients belong to the loop that first used them. Effects run on the caller's loop, undos and
probes perhaps on another one, so each loop has clients of its own. They are closed when the loop shuts its generators
down, as `asyncio.run` and every runner does.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

import httpx
import stripe

from saga_connectors.credentials import resolve

CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 30.0
RETRIES = 2
"""How often the package repeats a request without an answer, each time under the same idempotency key."""

LANDS_WITHIN = timedelta(seconds=(RETRIES + 1) * (ANSWER_SECONDS + stripe.HTTPClient.MAX_DELAY))
"""How long after its last possible send a request is taken to be able to land.

Stripe works on a request no longer than it lets clients wait for the answer (80 s in its own); this is longer, and it
is how long one of our calls can take.
"""

_loops: dict[asyncio.AbstractEventLoop, "_Clients"] = {}


async def client_of(credential_ref: str) -> stripe.StripeClient:
    """Return the client of a credential for the running loop; a rotated key gets a new one.

    Raises:
        CredentialMissing: There is no such credential.
        CredentialMalformed: It has no key.
    """
    credential = resolve(credential_ref, needs=("api_key",))
    loop = asyncio.get_running_loop()
    clients = _loops.get(loop)
    if clients is None:
        for stale in [known for known in _loops if known.is_closed()]:
            del _loops[stale]
        clients = _loops[loop] = _Clients()
        await clients.end_with(loop)
    return clients.get(str(credential["api_key"]), credential.get("base_url"))


class _Transport(stripe.HTTPClient):
    """The package's own httpx client, but for a deprecated call that fails where warnings are errors."""

    name = "httpx"

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._client = httpx.AsyncClient(
            verify=_trusted(), timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        )

    async def request_async(
        self, method: str, url: str, headers: Mapping[str, str], post_data: str | None = None
    ) -> tuple[bytes, int, Mapping[str, str]]:
        try:
            answer = await self._client.request(method, url, headers=headers, content=post_data or None)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise stripe.APIConnectionError(
                f"no answer from Stripe ({type(error).__name__})", should_retry=True
            ) from error
        return answer.content, answer.status_code, answer.headers

    def sleep_async(self, secs: float) -> Any:
        return asyncio.sleep(secs)

    async def close_async(self) -> None:
        await self._client.aclose()


@cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=stripe.ca_bundle_path)


class _Clients:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None], tuple[stripe.StripeClient, _Transport]] = {}
        self._keeper: AsyncGenerator[None] | None = None

    def get(self, api_key: str, base_url: str | None) -> stripe.StripeClient:
        known = self._known.get((api_key, base_url))
        if known is None:
            transport = _Transport()
            client = stripe.StripeClient(
                api_key,
                base_addresses={"api": base_url.rstrip("/")} if base_url else {},
                http_client=transport,
                max_network_retries=RETRIES,
            )
            known = self._known[api_key, base_url] = client, transport
        return known[0]

    async def end_with(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close every client when the loop shuts down the generator that is begun here."""
        self._keeper = self._keep(loop)
        await anext(self._keeper)

    async def _keep(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            _loops.pop(loop, None)
            for _, transport in self._known.values():
                await transport.close_async()
