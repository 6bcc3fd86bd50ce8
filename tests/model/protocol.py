"""The protocol as a specification: what an owner and a recoverer do, one act that the world can see at a time.

Each function is a generator that yields its acts and is sent their results; it is a pure function of what it was sent,
so that its state is its history. A fault takes one rule of the protocol back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .decision import ahead
from .record import PROVEN, Kind, Record, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from .record import StepState, Story

Fault = Literal[
    "no intent barrier",
    "result-only record",
    "commit told before its sync",
    "adopter acts before its barrier",
    "not landed believed at once",
    "undo key reused",
    "undo intent not awaited",
    "in doubt is undone",
    "release not awaited",
    "release not recorded",
    "a hold in doubt is sent again",
    "a hold is sent before the commit",
]


class Part(NamedTuple):
    """A piece of a program: a `step`, a `hold`, things `beside` each other, a savepoint that is `kept` or `undone`."""

    what: Literal["step", "hold", "beside", "kept", "undone"]
    name: str = ""
    parts: tuple[Part, ...] = ()


class Program(NamedTuple):
    """What the agent does.

    Attributes:
        ends: How its runs end: the first one, and each that resumes it.
        swallows: A lost answer does not end the body.
    """

    name: str
    parts: tuple[Part, ...]
    ends: tuple[Literal["commit", "fail", "suspend"], ...]
    swallows: bool = False


class Act(NamedTuple):
    """What a thread asks of the world."""

    what: str
    step: str = ""
    about: Any = None


class Rules(NamedTuple):
    """A program, the declaration of its actions, and the rule that is broken."""

    program: Program
    kind: Kind
    fault: Fault | None = None

    def key(self, step: str) -> str:
        """Return the key of a step's undo."""
        return f"{step.partition('#')[0]} undo" if self.fault == "undo key reused" else f"{step} undo"


def _write(what: str, step: str = "", how: str = "", scope: str = "") -> Act:
    return Act("append", step, Record(what, step, how, scope))


def run(rules: Rules, number: str) -> Generator[Act, Any, None]:
    """Run the program in a scope, for the first time or resumed."""
    if number == "0":
        yield _write("began")
    else:
        yield _write("adopted")
        yield Act("barrier")
        for scope in tell((yield Act("look"))).doomed_scopes:
            while (yield from _unwind_once(rules, within=scope)):
                pass
    is_fine = True
    for part in rules.program.parts:
        is_fine = yield from _do(rules, part, "")
        if not is_fine and not rules.program.swallows:
            break
    end = rules.program.ends[int(number)]
    if end == "suspend" and (is_fine or rules.program.swallows):
        yield _write("suspended")
        yield Act("barrier")
        yield Act("tell", "suspended")
    elif end == "commit" and (is_fine or rules.program.swallows):
        yield Act("become", "commit")
    else:
        yield _write("unwind")
        yield Act("become", "unwind")


def beside(rules: Rules, name: str, scope: str) -> Generator[Act, Any, bool]:
    """Do one of the things that run beside each other."""
    return (yield from _step(rules, name, scope))


def _do(rules: Rules, part: Part, scope: str) -> Generator[Act, Any, bool]:
    if part.what == "step":
        return (yield from _step(rules, part.name, scope))
    if part.what == "hold":
        yield from _stage(rules, part.name, scope)
        return True
    if part.what == "beside":
        answers = yield Act("fork", "", tuple(("beside", (one.name, scope)) for one in part.parts))
        return all(answers)
    yield _write("opened", part.name)
    is_fine = True
    for inside in part.parts:
        is_fine = is_fine and (yield from _do(rules, inside, part.name))
    if is_fine and part.what == "kept":
        yield _write("closed", part.name, "kept")
        return True
    yield _write("unwind", part.name)
    while (yield from _unwind_once(rules, within=part.name)):
        pass
    yield _write("closed", part.name, "undone")
    return is_fine


def _step(rules: Rules, position: str, scope: str) -> Generator[Act, Any, bool]:
    known = _newest(tell((yield Act("look"))), position)
    if known is not None and known.state == "applied":
        return True
    if known is not None and known.state not in PROVEN:
        return False
    step = f"{position}#{1 if known is None else int(known.name.partition('#')[2]) + 1}"
    if rules.fault != "result-only record":
        yield _write("intended", step, scope=scope)
        if rules.fault != "no intent barrier":
            yield Act("barrier")
    yield Act("send", step)
    answer = yield Act("answer", step)
    if answer == "ok":
        yield _write("applied", step)
        if rules.kind.settling == "blind" and rules.fault != "result-only record":
            yield Act("barrier")
        return True
    if answer == "declined":
        yield _write("missed", step)
        return False
    yield _write("doubted", step)
    if rules.kind.settling == "probe" and (yield Act("probe", step)) == "landed":
        yield _write("applied", step)
        return True
    return False


def _stage(rules: Rules, position: str, scope: str) -> Generator[Act, Any, None]:
    known = _newest(tell((yield Act("look"))), position)
    if known is None or known.state == "dropped":
        step = f"{position}#{1 if known is None else int(known.name.partition('#')[2]) + 1}"
        yield _write("held", step, scope=scope)
        if rules.fault == "a hold is sent before the commit":
            yield from _send(rules, step, is_again=False)


def _send(rules: Rules, step: str, *, is_again: bool) -> Generator[Act, Any, None]:
    """Send a held effect, once the log says durably that it may have been sent."""
    if rules.fault != "release not recorded":
        yield _write("released", step)
        if rules.fault != "release not awaited":
            yield Act("barrier")
    yield Act("send held", step)
    answer = yield Act("answer", step, "held")
    if answer == "ok":
        yield _write("applied", step)
        if rules.kind.settling == "blind":
            yield Act("barrier")
    else:
        yield _write("missed" if answer == "declined" and not is_again else "doubted", step)


def _newest(story: Story, position: str) -> StepState | None:
    found = [step for step in story.steps if step.name.partition("#")[0] == position]
    return found[-1] if found else None


def commit(rules: Rules) -> Generator[Act, Any, None]:
    """Settle what is in doubt, undo strays, and commit."""
    story = tell((yield Act("look")))
    if ahead(story, rules.kind):
        if not story.is_committing:
            yield _write("committing")
        yield from _unwind_once(rules)
        yield Act("become", "commit")
    yield _write("committed")
    if rules.fault != "commit told before its sync":
        yield Act("barrier")
    yield Act("tell", "committed")
    if rules.fault == "commit told before its sync":
        yield Act("barrier")
    yield Act("become", "forward")


def forward(rules: Rules) -> Generator[Act, Any, None]:
    """Send what is held, one by one."""
    if (yield from _unwind_once(rules)):
        yield Act("become", "forward")


def recover(rules: Rules) -> Generator[Act, Any, None]:
    """Take a dead owner's saga over and end it; a suspended one is left to whoever resumes it."""
    records = yield Act("look")
    story = tell(records)
    if not records:
        return
    if story.is_suspended or story.ended == "parked":
        return
    yield _write("adopted")
    if story.ended:
        if rules.fault != "adopter acts before its barrier":
            yield Act("barrier")
        yield Act("tell", story.ended)
        if story.ended == "committed":
            yield Act("become", "forward")
        return
    if not story.is_unwinding:
        yield _write("unwind")
    yield Act("become", "unwind")


def unwind(rules: Rules) -> Generator[Act, Any, None]:
    """Do the next thing; end the saga when nothing is left."""
    if (yield from _unwind_once(rules)):
        yield Act("become", "unwind")
    story = tell((yield Act("look")))
    ended = "rolled_back" if all(step.state in PROVEN for step in story.steps) else "parked"
    yield _write(ended)
    yield Act("barrier")
    yield Act("tell", ended)


def _unwind_once(rules: Rules, within: str | None = None) -> Generator[Act, Any, bool]:
    """Do the next thing about the newest step that something is to be done about; False if there is none."""
    left = ahead(tell((yield Act("look"))), rules.kind, within=within)
    if not left:
        return False
    step, what = left[0][0].name, left[0][1]
    if rules.fault == "in doubt is undone" and what in {"ask", "case"} and left[0][0].state == "in_doubt":
        what = "undo"
    if rules.fault == "a hold in doubt is sent again" and left[0][0].is_hold and what in {"ask", "case"}:
        what = "send"
    match what:
        case "ask":
            yield from _ask(rules, step, "" if left[0][0].is_hold else "stray")
        case "drop":
            yield _write("missed", step)
        case "send":
            yield from _send(rules, step, is_again=left[0][0].state == "in_doubt")
        case "undo":
            yield from _undo(rules, step)
        case "undo unasked":
            yield Act("wait", step)
            yield from _undo(rules, step)
        case "ask about the undo":
            yield from _ask_about_undo(rules, step)
        case _:
            yield _write("case", step)
    return True


def _ask(rules: Rules, step: str, landed_as: str) -> Generator[Act, Any, None]:
    answer = yield Act("probe", step)
    if answer == "landed":
        yield _write("applied", step, landed_as)
        return
    if not (answer == "not landed" and rules.fault == "not landed believed at once"):
        yield Act("wait", step)
        answer = yield Act("probe", step)
    if answer == "landed":
        yield _write("applied", step, landed_as)
    elif answer == "not landed":
        yield _write("missed", step)
    else:
        yield _write("case", step)


def _undo(rules: Rules, step: str) -> Generator[Act, Any, None]:
    yield _write("undo", step)
    if rules.fault != "undo intent not awaited":
        yield Act("barrier")
    key = rules.key(step)
    yield Act("send undo", step, key)
    if (yield Act("answer undo", step, key)) == "ok":
        yield _write("undo ended", step, "undone")
        if rules.kind.inverse == "blind":  # else, were it lost, the undo would be asked about or repeated
            yield Act("barrier")
    elif rules.kind.inverse == "blind":
        yield _write("undo ended", step, "conflict")
        yield _write("case", step)
    else:
        yield _write("undo ended", step, "failed")


def _ask_about_undo(rules: Rules, step: str) -> Generator[Act, Any, None]:
    if not (yield Act("probe undo", step, rules.key(step))):
        yield Act("wait", step)
        if not (yield Act("probe undo", step, rules.key(step))):
            yield _write("undo ended", step, "not_landed")
            return
    yield _write("undo ended", step, "undone")


THREADS: dict[str, Callable[..., Generator[Act, Any, Any]]] = {
    "run": run,
    "beside": beside,
    "commit": commit,
    "recover": recover,
    "forward": forward,
    "unwind": unwind,
}
"""What a thread can execute, by name."""
