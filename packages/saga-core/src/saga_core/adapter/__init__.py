"""The door through which adapters of agent frameworks use the engine.

An adapter opens a `Session` when its framework's run begins, enters a `body` around each tool's body, and ends the
session when the run has ended. What the tools do is recorded by the actions that they call; an adapter records nothing.
Each verb that waits has a twin ending in `_sync`, which needs no event loop and blocks.
"""

from saga_core.adapter.doubt import may_have_landed
from saga_core.adapter.session import Recorded, Session
from saga_core.adapter.tool import Described, describe, words_of

__all__ = ["Described", "Recorded", "Session", "describe", "may_have_landed", "words_of"]
