"""What a judged call needs before its intent: a person's decision, and its share of every ledger."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Raw

from saga_core import codec
from saga_core.clock import SECOND, nanoseconds
from saga_core.engine.judge import judge, refused
from saga_core.engine.session import log
from saga_core.errors import ApprovalPending, StepMismatch
from saga_core.gate import Judgement, Verdict
from saga_core.permissions import Charge, Denial, Dispatch, Request, Standing, digest
from saga_core.records import EMPTY, Answered, Asked

if TYPE_CHECKING:
    from saga_core.engine.invocation import Invocation
    from saga_core.engine.judge import Money
    from saga_core.errors import GateRefused
    from saga_core.permissions import Grant
    from saga_core.view import AskedView

_FIRST_LOOK = 0.05
_LONGEST_PAUSE = 1.0


class Leave(NamedTuple):
    """What was decided about a call, to be taken with its charges before the intent.

    Attributes:
        given: The arguments that run: as a person edited them, else as the caller gave them.
        frozen: The same as the log will hold them.
        money: The amount among them.
        request: The approval to use up.
        grant: The grant to use once.
        charges: What is taken from ledgers.
        is_kept: All of it was taken before, and the process died before the intent.
    """

    given: dict[str, Any]
    frozen: Raw
    money: Money
    request: str | None = None
    grant: str | None = None
    charges: tuple[Charge, ...] = ()
    is_kept: bool = False

    @property
    def is_needed(self) -> bool:
        """Something has to be taken before the intent."""
        return bool(self.charges) or self.request is not None or self.grant is not None or self.is_kept


async def seek(call: Invocation, position: str, attempt: int, given: dict[str, Any], frozen: Raw) -> Leave:
    """Put a call before the gate and, where that asks for it, before people.

    Raises:
        GateRefused: A rule, or a person, says no; nothing was called.
        ApprovalPending: Nobody has decided yet; nothing was called.
    """
    money, judgement = judge(call, position, given, frozen)
    leave = Leave(given, frozen, money, charges=judgement.charges)
    if not judgement.questions:
        return leave
    return await _Question(call, position, attempt, leave, judgement).put()


async def take(call: Invocation, position: str, attempt: int, leave: Leave) -> int:
    """Take everything that a call needs in one transaction, and return the number under which it is kept.

    Raises:
        GateRefused: Something is not to be had any more; nothing was taken, nothing was called.
        StoreError: The control database cannot be written.
    """
    session = call.session
    step = session.key_of(position, "do", attempt)
    wanted = Dispatch(
        step,
        session.saga_id,
        _digest(call, position, attempt, leave.frozen),
        leave.charges,
        leave.request,
        leave.grant,
        session.view.permitted,
    )
    answer = await call.io.permit(session.store.permits, wanted)
    if isinstance(answer, Denial):
        raise refused(call, position, Verdict(answer.rule, answer.place, answer.words))
    return answer.number


def _digest(call: Invocation, position: str, attempt: int, frozen: Raw) -> str:
    declared = call.declared
    return digest(call.saga_id, position, attempt, declared.name, declared.version, codec.thaw(frozen))


class _Question:
    """One call that waits for people."""

    def __init__(self, call: Invocation, position: str, attempt: int, leave: Leave, judgement: Judgement) -> None:
        self._call = call
        self._session = call.session
        self._permits = call.session.store.permits
        self._position = position
        self._attempt = attempt
        self._leave = leave
        self._judgement = judgement
        self._step = call.session.key_of(position, "do", attempt)
        self._quorum = max(question.approvals for question in judgement.questions)
        self._digest = _digest(call, position, attempt, leave.frozen)
        self._id = self._digest[:16]

    async def put(self) -> Leave:
        """Ask, wait as long as the scope's terms say, and return what may run."""
        session, asks = self._session, self._session.asks
        waiting = session.view.waiting.get(self._position)
        if waiting is None and await self._call.io.offload(self._permits.is_kept, self._step, self._digest):
            return self._leave._replace(is_kept=True)
        if waiting is not None and waiting.asked.request != self._id:
            await self._refuse_other(waiting)
            waiting = None
        grant = await self._grant()
        if grant is not None:
            return self._leave._replace(grant=grant.id)
        if asks is None or not (asks.can_suspend or asks.wait > timedelta(0)):
            raise self._no("nobody approved it", "open the scope with key= or approval_wait=, so that a person can")
        if waiting is None:
            waiting = await self._ask()
        standing = await self._wait(asks.wait)
        if standing.state == "pending":
            if asks.can_suspend:
                raise self._pending(standing.request)
            raise self._no("nobody approved it in time", "ask again, or give approval_wait= more time")
        return await self._follow(waiting, standing)

    async def _refuse_other(self, waiting: AskedView) -> None:
        """Let go of a question about other arguments at this position; where they identify the call, refuse it."""
        asked, identity = codec.thaw(waiting.asked.args), self._call.declared.identity
        now = codec.thaw(self._leave.frozen)
        names = asked.keys() | now.keys() if identity is None else identity
        if any(asked.get(name) != now.get(name) for name in names):
            raise StepMismatch(
                f"the call at {self._position!r} waits for approval with other arguments",
                saga_id=self._session.saga_id,
                world="nothing was called",
                next="give the call a position of its own: action.at(...)",
            )
        await self._call.io.offload(self._permits.withdraw, waiting.asked.request)

    async def _grant(self) -> Grant | None:
        """Return a standing approval of the call, where one person's suffices."""
        if self._quorum > 1:
            return None
        args, money = codec.thaw(self._leave.frozen), self._leave.money
        for grant in await self._call.io.offload(self._permits.usable_grants):
            if grant.limit is not None:
                is_within = money.amount is not None and money.amount <= Decimal(grant.limit)
                if not is_within or (money.currency or "").lower() != (grant.currency or "").lower():
                    continue
            if grant.covers(self._call.declared.name, args):
                return grant
        return None

    async def _ask(self) -> AskedView:
        """Have the question in the log, on the disk, before anybody can be shown it."""
        call, session, declared = self._call, self._session, self._call.declared
        questions = self._judgement.questions
        call.refuse_closed()
        within = min(question.expires_in for question in questions)
        step = session.next_step()
        written = session.append(
            Asked(
                step,
                session.clock.wall(),
                self._id,
                declared.name,
                declared.version,
                declared.reversibility,
                call.node.path,
                self._position,
                self._attempt,
                self._leave.frozen,
                self._leave.money.text,
                self._leave.money.currency,
                self._digest,
                tuple((*map(codec.words, question.verdict),) for question in questions),  # pyright: ignore[reportArgumentType] -- three words each
                self._quorum,
                nanoseconds(within),
            )
        )
        await call.io.barrier(session.log, written)
        for question in questions:
            verdict = question.verdict
            log.info(
                "saga %s step %d %s asks a person: %s (%s)",
                session.saga_id,
                step,
                declared.name,
                verdict.rule,
                verdict.place,
            )
        return session.view.waiting[self._position]

    async def _wait(self, wait: timedelta) -> Standing:
        """Return where the request stands: once it is decided, or when the time is over."""
        call, session = self._call, self._session
        asked = session.view.waiting[self._position].asked
        requester = None if session.asks is None else session.asks.requester
        request = Request(self._id, session.saga_id, self._step, self._digest, asked.approvals, requester)
        standing = await call.io.offload(self._permits.ask, request, asked.within)
        until, pause = session.clock.up() + nanoseconds(wait), _FIRST_LOOK
        while standing.state == "pending":
            call.refuse_closed()
            left = (until - session.clock.up()) / SECOND
            if left <= 0:
                break
            await call.io.sleep(min(pause, left))
            pause = min(pause * 1.5, _LONGEST_PAUSE)
            standing = await call.io.offload(self._permits.asked, self._id) or standing
        call.refuse_closed()
        return standing

    async def _follow(self, waiting: AskedView, standing: Standing) -> Leave:
        """Log what was decided, and return what may run by it."""
        session = self._session
        may_run = standing.state in {"approved", "used"}
        people = tuple((codec.words(one.by), codec.words(one.reason), one.at) for one in standing.decisions)
        edit = standing.decisions[-1].edit if may_run else None
        if waiting.answer is None:
            words = EMPTY if edit is None else Raw(edit)
            session.append(Answered(waiting.number, session.clock.wall(), standing.state, people, words))
            log.info("saga %s request %s is %s", session.saga_id, self._id, standing.state)
        if not may_run:
            raise self._declined(standing)
        leave = self._leave if edit is None else self._edited(Raw(edit))
        money, again = judge(self._call, self._position, leave.given, leave.frozen)
        needed = max((question.approvals for question in again.questions), default=1)
        if needed > standing.request.quorum:
            raise self._no(f"{needed} people have to approve it now, {standing.request.quorum} did", "ask again")
        return leave._replace(money=money, request=self._id, charges=again.charges)

    def _edited(self, edit: Raw) -> Leave:
        """Return the call with the arguments as a person changed them; hidden ones stay the caller's."""
        declared = self._call.declared
        hidden = {name: value for name, value in self._leave.given.items() if name in declared.hidden}
        changed = declared.attempt(edit, "", 0).args
        try:
            given = declared.signature.bind((), {**hidden, **changed})
        except TypeError as misfit:
            raise self._no(
                f"the edited arguments do not fit: {misfit}", "approve it as it was asked, or reject it"
            ) from None
        return self._leave._replace(given=given, frozen=self._call.freeze(given))

    def _pending(self, request: Request) -> ApprovalPending:
        reasons = "; ".join(question.verdict.reason for question in self._judgement.questions)
        pending = ApprovalPending(
            f"{self._call.declared.name!r} waits for a person: {reasons}",
            saga_id=self._session.saga_id,
            world="nothing was called; the saga is suspended if this error leaves the scope",
            next=f"saga approvals approve {request.id} --by NAME, then run again with the same key",
        )
        pending.approval_id = request.id
        return pending

    def _declined(self, standing: Standing) -> GateRefused:
        last = standing.decisive
        by = "" if last is None else f" by {last.by}: {last.reason}"
        return self._no(f"its approval is {standing.state}{by}", "choose another way, or ask for another call")

    def _no(self, why: str, then: str) -> GateRefused:
        first = self._judgement.questions[0].verdict
        reasons = "; ".join(question.verdict.reason for question in self._judgement.questions)
        refusal = refused(self._call, self._position, Verdict(first.rule, first.place, f"{reasons}, and {why}"))
        refusal.next = f"rule {first.rule} ({first.place}): {then}"
        return refusal
