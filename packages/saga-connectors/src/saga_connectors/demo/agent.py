"""The agent's process: makes the scripted calls in one scope and fails."""

from saga_connectors.demo.script import calls
from saga_core import saga_scope
from saga_core.demo.acts import Hallucinated


def main() -> None:
    """Make the calls; SAGA_STORE names the store.

    Raises:
        Hallucinated: Always, unless the process is killed before.
    """
    with saga_scope("close-deal"):
        for call in calls():
            call.recorded()
        raise Hallucinated


if __name__ == "__main__":
    main()
