"""Where LangGraph makes a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def place_of(config: Mapping[str, Any], call: str | None) -> str:
    """Return the place of a call: the root checkpoint that its step began at, the task in it, the tool call in that.

    All three are the same when the task is retried, or resumed from that checkpoint. Empty outside of a graph.
    """
    where = config.get("configurable", {})
    checkpoint = where.get("checkpoint_map", {}).get("", "")
    return "/".join(filter(None, (checkpoint, where.get("checkpoint_ns"), call)))
