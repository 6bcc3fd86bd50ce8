"""What a scripted model does, and what an adapter's author supplies so that the scenarios can play it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from saga_core import Action, AsyncAction, Store

    Tool: TypeAlias = Action[..., Any] | AsyncAction[..., Any]

Form: TypeAlias = Literal["sync", "async", "stream"]
"""How a scenario is played: by `play`, by `play_async` or by `break_off`."""


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
    that the adapter has to close. An error that the run raises comes out as it is.

    `store` and `key` are handed to the adapter as they are, None included: inside an open scope, the run is a savepoint
    of it and takes neither.

    A process that is to be killed makes itself the same harness: its class stands at the top level of a module, and its
    attributes can be pickled.
    """

    @property
    def name(self) -> str:
        """The framework, and the way in which it calls tools, if it has several."""
        ...

    @property
    def forms(self) -> AbstractSet[Form]:
        """What the framework can do; scenarios of other forms are not for it."""
        ...

    def play(self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None) -> Played:
        """Run synchronously, in a thread without a loop."""
        ...

    async def play_async(
        self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None
    ) -> Played:
        """Run asynchronously."""
        ...

    async def break_off(
        self, script: Script, actions: Sequence[Tool], store: Store | str | None, key: str | None
    ) -> None:
        """Stream the run and stop listening once the first tool result is streamed, as a `break` does."""
        ...
