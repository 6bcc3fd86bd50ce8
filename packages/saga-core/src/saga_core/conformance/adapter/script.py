"""What a scripted model does, and what an adapter's author supplies so that the scenarios can play it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from saga_core import Action, AsyncAction, Store

    Tool: TypeAlias = Action[..., Any] | AsyncAction[..., Any]

Form: TypeAlias = Literal["sync", "async"]


@dataclass(frozen=True)
class ToolCall:
    """One call that the model asks for.

    Attributes:
        tool: The action's `__name__`, which is the tool's name.
        args: Its arguments.
    """

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])


Turn: TypeAlias = Sequence[ToolCall] | str | BaseException
"""One answer of the model: calls made at once, a final text, or the error that asking it raises."""


@dataclass(frozen=True)
class Script:
    """What the model answers, turn by turn; the last turn is a text or an error."""

    turns: Sequence[Turn]


@dataclass(frozen=True)
class Played:
    """What came of a run that ended without an error.

    Attributes:
        answer: The run's final text.
        seen: The texts of the tools' results, as the model was shown them, in order.
    """

    answer: str
    seen: Sequence[str]


class Harness(Protocol):
    """One framework behind one adapter, as a user would set them up.

    Each method gives the actions to the framework as tools, lets a scripted model play the script, and closes nothing
    that the adapter has to close. An error that the run raises comes out as it is. `key` is handed to the adapter.
    """

    name: str

    def play(self, script: Script, actions: Sequence[Tool], store: Store | str, key: str | None) -> Played:
        """Run synchronously, in a thread without a loop."""
        ...

    async def play_async(self, script: Script, actions: Sequence[Tool], store: Store | str, key: str | None) -> Played:
        """Run asynchronously."""
        ...

    async def break_off(self, script: Script, actions: Sequence[Tool], store: Store | str, key: str | None) -> None:
        """Stream the run and stop listening once the first tool result is streamed, as a `break` does."""
        ...
