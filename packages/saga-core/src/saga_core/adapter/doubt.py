"""What an error of a call leaves open about the world."""

from __future__ import annotations

from saga_core.errors import OutcomeNotLogged, StepInDoubt

_OPEN = ("may have landed", "is still running, and may land", "ended is not written")
"""What the engine's notes say of a step whose effect is not ruled out."""


def may_have_landed(error: BaseException) -> bool:
    """Tell whether an error that came out of an action's call leaves it open that an effect stands.

    If not, the call had no effect: it was refused, its arguments did not fit, or it is proven that nothing landed. True
    only of calls in a scope; what an action does outside one is not recorded.
    """
    if isinstance(error, (OutcomeNotLogged, StepInDoubt)):
        return True
    return any(words in note for note in getattr(error, "__notes__", ()) for words in _OPEN)
