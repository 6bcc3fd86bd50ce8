"""The small programs of which every crash is looked at, and the ways in which their actions are declared."""

from __future__ import annotations

from typing import get_args

from .protocol import Part, Program
from .record import Inverse, Kind, Settling

A, B = Part("step", "a"), Part("step", "b")
M, N = Part("hold", "m"), Part("hold", "n")

PROGRAMS = {
    program.name: program
    for program in (
        Program("one step, committed", (A,), ("commit",)),
        Program("one step, failed", (A,), ("fail",)),
        Program("one step, whatever it answers", (A,), ("commit",), swallows=True),
        Program("two steps, committed", (A, B), ("commit",)),
        Program("two steps, failed", (A, B), ("fail",)),
        Program("two steps beside each other, committed", (Part("beside", parts=(A, B)),), ("commit",), swallows=True),
        Program("two steps beside each other, failed", (Part("beside", parts=(A, B)),), ("fail",)),
        Program("a savepoint undone, a step kept", (Part("undone", "1", (A,)), B), ("commit",), swallows=True),
        Program("a savepoint kept, then a failure", (Part("kept", "1", (A,)), B), ("fail",)),
        Program("suspended and committed", (A,), ("suspend", "commit")),
        Program("suspended and failed", (A,), ("suspend", "fail")),
        Program("a hold, committed", (M,), ("commit",)),
        Program("a hold, failed", (M,), ("fail",)),
        Program("a step and a hold, whatever it answers", (A, M), ("commit",), swallows=True),
        Program("a step and a hold, failed", (M, A), ("fail",)),
        Program("two holds, committed", (M, N), ("commit",)),
        Program("a hold in a savepoint undone, one kept", (Part("undone", "1", (M,)), N), ("commit",)),
        Program("a hold, suspended and committed", (M,), ("suspend", "commit")),
        Program("a savepoint undone twice", (Part("undone", "1", (A,)),), ("suspend", "fail"), swallows=True),
    )
}

KINDS = [Kind(settling, inverse) for settling in get_args(Settling) for inverse in get_args(Inverse)]
"""Every way in which an action can be declared."""
