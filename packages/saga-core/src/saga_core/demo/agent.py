"""The agent's process: makes the scripted calls in one scope and fails."""

from __future__ import annotations

from saga_core import saga_scope
from saga_core.demo.acts import Hallucinated
from saga_core.demo.simulated import script


def main() -> None:
    """Make the calls; SAGA_STORE names the store.

    Raises:
        Hallucinated: Always, unless the process is killed before.
    """
    with saga_scope("close-deal"):
        for call in script():
            call.recorded()
        raise Hallucinated


if __name__ == "__main__":
    main()
