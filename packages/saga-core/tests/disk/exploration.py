"""Every program, every fault, every crash, every surviving state: played, counted, and replayed when one is wrong."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from saga_core.errors import SagaError

from .machine import FULL, Fault, Machine, restart
from .programs import PROGRAMS, Play, Program, random_program
from .rescue import rescue
from .stage import Stage, fresh
from .survivors import Doubts, Survivor, image, kills, losses, parse, revive
from .witness import Violation, Witness, restored

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from .machine import FaultKind, Moment

_ALWAYS: tuple[FaultKind, ...] = ("eio", "eintr", "interrupt_before")
_CHANGING = FULL | {"unlink", "sync_data", "sync_dir"}


class Crash(NamedTuple):
    """Where a run ends and what is left of it.

    Attributes:
        moment: The moment, counted from the beginning of the run.
        survivor: What survived.
    """

    moment: int
    survivor: Survivor

    @property
    def is_kill(self) -> bool:
        """The page cache is still there."""
        return self.survivor.written is not None


class Case(NamedTuple):
    """One state, so that it can be played alone.

    Attributes:
        program: The program's name.
        fault: What befalls it.
        crashes: Where it ends, then where each rescue but the last ends.
        rescue_fault: What befalls the rescue behind the first crash.
    """

    program: str
    fault: Fault | None = None
    crashes: tuple[Crash, ...] = ()
    rescue_fault: Fault | None = None

    @property
    def text(self) -> str:
        """The case as `case_of` reads it."""
        parts = [self.program, _fault_text(self.fault)]
        parts += [f"{crash.moment}@{crash.survivor.text}" for crash in self.crashes]
        return " ".join([*parts, _fault_text(self.rescue_fault)])


def case_of(text: str) -> Case:
    """Return the case of a text."""
    program, fault, *crashes, last = text.split()
    found: list[Crash] = []
    for crash in crashes:
        moment, _, survivor = crash.partition("@")
        found.append(Crash(int(moment), parse(survivor)))
    return Case(program, _fault_of(fault), tuple(found), _fault_of(last))


def _fault_text(fault: Fault | None) -> str:
    return "-" if fault is None else f"{fault.kind}@{fault.call}x{fault.times}"


def _fault_of(text: str) -> Fault | None:
    if text == "-":
        return None
    kind, _, rest = text.partition("@")
    call, _, times = rest.partition("x")
    return Fault(kind, int(call), int(times))  # pyright: ignore[reportArgumentType]


class Effort(NamedTuple):
    """How many states are looked at.

    Attributes:
        crash: For each crash of a run without faults.
        faulty: How many crashes of each run with a fault.
        nested: How many rescues of a program are crashed themselves, and have a fault planted into them.
        nested_each: For each of these.
    """

    crash: int = 24
    faulty: int = 4
    nested: int = 12
    nested_each: int = 12


class Explorer:
    """Plays cases on one stage; what is played, and how it is judged, a subclass may say anew.

    Attributes:
        stage: The stage.
        kinds: The faults that are planted.
        befalls: The names of the calls that they befall; empty for all.
        calls: How many calls the last program made, and how many of them changed something.
        counts: How many states were judged, by kind; runs with a fault that were not crashed count, too.
        violations: What was found; with `stops`, the first one is raised instead.
    """

    kinds: frozenset[FaultKind] = frozenset(
        {"eio", "enospc", "full", "short", "eintr", "interrupt_before", "interrupt_behind"}
    )

    befalls: frozenset[str] = frozenset()

    def __init__(self, stage: Stage, seed: int = 0, *, stops: bool = True) -> None:
        self.stage = stage
        self._dice = random.Random(seed)
        self._doubts = Doubts()
        self._prepared: Machine | None = None
        self._seen: set[tuple[int, int]] = set()
        self._stops = stops
        self.calls: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        self.violations: list[Violation] = []

    @property
    def total(self) -> int:
        """How many states were judged."""
        return self.counts.total()

    def explore(self, program: Program, effort: Effort) -> None:
        """Play a program with each fault and each crash.

        Raises:
            Violation: A promise was broken; the text ends with the case.
        """
        plain = self.crash(program, effort.crash)
        if plain is None:
            return
        for fault in self._faults(plain.names):
            machine = self.run(program, fault)
            if machine is None:
                continue
            self.counts[fault.kind] += 1
            assert machine.is_struck, f"{fault} of {program.name} befell nothing"
            later = [index for index, moment in enumerate(machine.moments) if moment.call > fault.call]
            for index in self._dice.sample(later, min(len(later), effort.faulty)):
                self._crash(program, fault, machine.moments, index, 1)
        for _ in range(effort.nested):
            self._crash_rescue(program, plain.moments, effort.nested_each)

    def crash(self, program: Program, limit: int, *, step: int = 1) -> Machine | None:
        """Crash a program behind each `step`th of its calls, into so many states each; return its machine at the end.

        Raises:
            Violation: A promise was broken; the text ends with the case.
        """
        self._doubts = Doubts()
        self._seen.clear()
        plain = self.run(program)
        if plain is not None:
            self.calls = {"all": plain.calls, "changing": sum(one.name != "told" for one in plain.moments)}
            for index in range(0, len(plain.moments), step):
                self._crash(program, None, plain.moments, index, limit)
        return plain

    def program_of(self, name: str) -> Program:
        """Return a program by its name."""
        if name.startswith("random-"):
            return random_program(int(name.removeprefix("random-")))
        return next(program for program in PROGRAMS if program.name == name)

    def _faults(self, names: list[str]) -> list[Fault]:
        return [
            fault
            for fault in faults(names)
            if fault.kind in self.kinds and (not self.befalls or names[fault.call] in self.befalls)
        ]

    def replay(self, case: Case) -> None:
        """Play one case.

        Raises:
            Violation: A promise was broken.
        """
        program = self.program_of(case.program)
        machine = self.run(program, case.fault)
        for number, crash in enumerate(case.crashes, 1):
            assert machine is not None
            machine = self._revive(machine.moments, crash)
            fault = case.rescue_fault if number == 1 else None
            self._rescue(machine, crash, fault, case)

    def run(self, program: Program, fault: Fault | None = None) -> Machine | None:
        """Run a program and return its machine, with its moments; None if it broke a promise."""
        machine = fresh() if program.is_on_empty_disk else self.with_store()
        machine.fault = fault
        machine.forgives = not program.is_alone
        self.stage.use(machine)
        self.stage.defers = program.defers
        machine.is_watched = True
        with self._in_case(Case(program.name, fault)):
            self.play(program)
            machine.mark("end")
            return machine
        return None

    def play(self, program: Program) -> None:
        """Play a program on the machine on the stage."""
        witness = Witness()
        self.stage.machine.tell = witness.look
        self.stage.machine.mark("start")
        play = Play(self.stage, witness)
        program.act(play)
        play.end()

    def judge(self, told: object, *, killed: bool, is_faulty: bool) -> None:
        """Rescue what the machine on the stage holds.

        Args:
            told: What was promised before.
            killed: The page cache survived.
            is_faulty: A fault befalls the rescue; another one follows it.

        Raises:
            Violation: A promise was broken.
        """
        machine = self.stage.machine
        witness = restored(told, killed=killed)
        machine.tell = witness.look
        machine.mark("start")
        rescue(self.stage, witness, process="rescuer", is_faulty=is_faulty)
        if is_faulty:
            machine.kill("rescuer")
            machine.fault = None
            rescue(self.stage, witness, process="another rescuer")

    def with_store(self) -> Machine:
        if self._prepared is None:
            self._prepared = self.stage.use(fresh())
            self.stage.open("first").close()
        made = self._prepared
        data = {number: bytes(file.data) for number, file in made.files.items()}
        return restart(made.boot, data, made.folders, {})

    def _crash(self, program: Program, fault: Fault | None, moments: list[Moment], index: int, limit: int) -> None:
        """Judge the states behind one moment: after a loss of power and after a kill."""
        survivors = list(losses(moments[index], self._doubts, limit, self._dice))
        if len(survivors) > limit:
            survivors = self._dice.sample(survivors, limit)
        for survivor in [*survivors, *kills(moments[index])]:
            crash = Crash(index, survivor)
            machine = self._revive(moments, crash)
            mark = (image(machine), hash(repr(machine.told)))
            if mark not in self._seen:
                self._seen.add(mark)
                self._rescue(machine, crash, None, Case(program.name, fault, (crash,)), is_watched=False)
                self.counts["kill" if crash.is_kill else "power"] += 1

    def _crash_rescue(self, program: Program, moments: list[Moment], limit: int) -> None:
        """Crash the rescue of one state, also one that met a fault, and judge what the next rescue finds."""
        index = self._dice.randrange(len(moments))
        first = Crash(index, self._survivor(moments[index]))
        machine = self._revive(moments, first)
        if not self._rescue(machine, first, None, Case(program.name, None, (first,))):
            return
        possible = self._faults(machine.names)
        for number in range(limit):
            fault = self._dice.choice(possible) if number % 2 else None
            machine = self._revive(moments, first)
            case = Case(program.name, None, (first,), fault)
            if not self._rescue(machine, first, fault, case):
                continue
            at = self._dice.randrange(len(machine.moments))
            again = Crash(at, self._survivor(machine.moments[at]))
            came = self._revive(machine.moments, again)
            self._rescue(came, again, None, case._replace(crashes=(first, again)), is_watched=False)
            self.counts["again"] += 1

    def _survivor(self, moment: Moment) -> Survivor:
        return self._dice.choice([*losses(moment, self._doubts, 8, self._dice), *kills(moment)])

    def _revive(self, moments: list[Moment], crash: Crash) -> Machine:
        moment, before = moments[crash.moment], moments[max(crash.moment - 1, 0)]
        machine = revive(moment, before, crash.survivor, self._doubts)
        machine.told = moment.told
        return machine

    def _rescue(
        self, machine: Machine, crash: Crash, fault: Fault | None, case: Case, *, is_watched: bool = True
    ) -> bool:
        """Rescue a machine, and again if it met a fault; False if that broke a promise."""
        machine.fault = fault
        self.stage.use(machine)
        machine.is_watched = is_watched
        with self._in_case(case):
            self.judge(machine.told, killed=crash.is_kill, is_faulty=fault is not None)
            machine.mark("end")
            return True
        return False

    @contextmanager
    def _in_case(self, case: Case) -> Generator[None]:
        """Name the case in whatever is raised."""
        try:
            try:
                yield
            except (SagaError, OSError, KeyboardInterrupt) as error:
                raise Violation(f"{type(error).__name__} came out: {error}") from error
        except Violation as broken:
            violation = Violation(f"{broken}\n    replay: {case.text}")
            if self._stops:
                raise violation from broken
            violation.__cause__ = broken
            self.violations.append(violation)


def faults(names: list[str]) -> Iterator[Fault]:
    """Yield each fault that can befall a run with these calls."""
    for call, name in enumerate(names):
        for kind in _ALWAYS:
            yield Fault(kind, call)
        if name in _CHANGING:
            yield Fault("interrupt_behind", call)
        if name in FULL:
            yield Fault("enospc", call)
            yield Fault("enospc", call, 4)
        if name == "pwrite":
            yield Fault("short", call)
            yield Fault("full", call, 3)
        if name in {"sync_data", "sync_dir"}:
            yield Fault("eio", call, 2)
