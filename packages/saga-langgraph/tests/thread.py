"""One run of a thread in a process of its own: `thread.py <folder> <durability> <given> <item to die in> <when>`."""

import asyncio
import pickle
import sys
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from world import ASKED, Ledger, charge, create_agent, use

from saga_langgraph import SagaMiddleware, saga_tools, with_saga

ITEMS = ("a", "b", "c")


class FileSaver(InMemorySaver):
    """Keeps its checkpoints in a file, as far as they were put."""

    def __init__(self, path: Path) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._path = path
        if path.exists():
            storage, writes, blobs = pickle.loads(path.read_bytes())  # noqa: S301 -- a file of this test
            for thread, namespaces in storage.items():
                for namespace, found in namespaces.items():
                    self.storage[thread][namespace].update(found)
            self.writes.update(writes)
            self.blobs.update(blobs)

    def _keep(self) -> None:
        storage = {
            thread: {name: dict(found) for name, found in names.items()} for thread, names in self.storage.items()
        }
        draft = self._path.with_suffix(".new")
        draft.write_bytes(pickle.dumps((storage, dict(self.writes), dict(self.blobs))))
        draft.replace(self._path)

    def put(self, *args: Any, **kwargs: Any) -> Any:
        kept = super().put(*args, **kwargs)
        self._keep()
        return kept

    def put_writes(self, *args: Any, **kwargs: Any) -> None:
        super().put_writes(*args, **kwargs)
        self._keep()


class Model(BaseChatModel):
    """Charges one item after the other, as far as the conversation does not show it."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        made = sum(message.type == "tool" for message in messages)
        calls = [{"name": "charge", "args": {"item": item}, "id": f"call_{item}"} for item in ITEMS[made : made + 1]]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if calls else "done", tool_calls=calls))])


def main(folder: Path, durability: Any, given: str, die_in: str, when: str) -> None:
    ledger = Ledger(folder / "ledger")
    ledger.die_in, ledger.dies_after = die_in or None, when == "after"
    use(ledger)
    saver = FileSaver(folder / "checkpoints")
    agent: Any = create_agent(Model(), saga_tools(charge), middleware=[SagaMiddleware()], checkpointer=saver)
    graph = with_saga(agent, store=f"file:{folder / 'store'}")
    config = {"configurable": {"thread_id": "order-7"}}
    asyncio.run(graph.ainvoke(ASKED if given == "input" else None, config, durability=durability))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
