"""Random programs over a ledger: whatever fails where, the report and the world agree."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from .programs import Block, Call, End, blocks, check, ends, pile_blocks

strays = st.sampled_from(["undo", "case"])


@settings(max_examples=250, deadline=None)
@given(block=blocks, end=ends, stray=strays, is_async=st.booleans())
def test_the_report_and_the_world_agree(block: Block, end: End, stray: str, *, is_async: bool) -> None:
    event(check(block, end, stray=stray, is_async=is_async))


@settings(max_examples=150, deadline=None)
@given(block=blocks, end=ends, stray=strays, stops=st.lists(st.integers(0, 4), min_size=1, max_size=3).map(sorted))
def test_a_program_that_is_suspended_and_resumed_does_nothing_twice(
    block: Block, end: End, stray: str, stops: list[int]
) -> None:
    """Each run repeats the program from its beginning. A caller that retries would be another program."""
    event(check(without_retries(block), end, stray=stray, stops=stops))


@settings(max_examples=150, deadline=None)
@given(block=blocks, end=ends, stray=strays, cancels=st.lists(st.integers(0, 40), min_size=1, max_size=3))
def test_a_program_that_is_cancelled_anywhere_is_told_what_stands(
    block: Block, end: End, stray: str, cancels: list[int]
) -> None:
    event(check(block, end, stray=stray, cancels=cancels))


@settings(max_examples=150, deadline=None)
@given(block=pile_blocks, end=ends, stray=strays, cancels=st.none() | st.lists(st.integers(0, 60), max_size=2))
def test_effects_on_one_thing_that_hide_each_other_are_all_told(
    block: Block, end: End, stray: str, cancels: list[int] | None
) -> None:
    event(check(block, end, stray=stray, is_async=True, cancels=cancels or []))


def without_retries(block: Block) -> Block:
    """Return the same program whose callers do not try again."""
    return dataclasses.replace(
        block,
        operations=tuple(
            without_retries(operation)
            if isinstance(operation, Block)
            else dataclasses.replace(operation, is_repeated=False)
            for operation in block.operations
        ),
    )


@pytest.mark.parametrize("lie", ["landed", "not landed", "undone", "kept"])
def test_a_world_that_lies_is_caught(lie: str) -> None:
    """The check is no rubber stamp: with a probe, an inverse or a program that lies it fails."""
    lost = Call("lost_landed", "clear", "ok", None, 0, is_repeated=False)
    missed = Call("lost_missed", "clear", "ok", None, 0, is_repeated=False)
    block = Block((lost, missed, Call("ok", "clear", "ok", None, 0, is_repeated=False)))
    check(block, "fail")
    check(block, "succeed")
    with pytest.raises(AssertionError):
        check(block, "succeed" if lie == "kept" else "fail", lie=lie)
