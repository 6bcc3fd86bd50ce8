"""Patching a record, and putting the patched fields back."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from saga_connectors.errors import CredentialMalformed, CredentialMissing
from saga_connectors.salesforce.comparison import same, standing
from saga_connectors.salesforce.description import field_types
from saga_connectors.salesforce.errors import (
    CallsExhausted,
    FieldRefused,
    NothingWritten,
    RecordBusy,
    RecordMissing,
    WriteRefused,
)
from saga_connectors.salesforce.record import Place, Reading, read, read_to_write, write
from saga_connectors.salesforce.refusal import PreconditionFailed
from saga_connectors.salesforce.session import ANSWER_SECONDS, CONNECT_SECONDS, Session
from saga_core import (
    AlreadyUndone,
    Attempt,
    Call,
    Compensation,
    Conflict,
    Landed,
    NotLanded,
    SagaError,
    Unknown,
    current_step,
    inverse,
    reversible,
)

# The longest that a cancelled call goes on by itself: a write, a renewal, the write again. Then "Apex Governor Limits"
# (Apex Developer Guide): a transaction may wait 120 seconds for its callouts, so a save can end that much later.
_LANDS_WITHIN = timedelta(seconds=3 * (CONNECT_SECONDS + ANSWER_SECONDS) + 120)
# A patch makes up to 6 API calls and its undo as many; below this the undo itself could be refused.
_CALLS_KEPT = 50
_TRIES = 3


def _resource(attempt: Attempt) -> str:
    # The first 15 characters name the record; the other 3 are a checksum that may be left out.
    return str(attempt.args["object_id"])[:15]


@reversible(
    "salesforce.patch_object",
    not_landed=(NothingWritten, CredentialMissing, CredentialMalformed),
    lands_within=_LANDS_WITHIN,
    resource=_resource,
)
async def patch_object(*, object_type: str, object_id: str, patch: Mapping[str, Any], credential_ref: str) -> None:
    """Write the fields of `patch` into one record; unwinding writes back what they held before.

    Only the patched fields are restored, and only while they hold what was written: what somebody else wrote since is
    left alone and put before a person. What automation does to other fields, to other records or later is not undone.

    Args:
        object_type: API name of the object, `Lead` or `Order__c`.
        object_id: The record's id, 15 or 18 characters.
        patch: API names of fields and their new values; None empties a field.
        credential_ref: Names a credential in one of the forms that `saga_connectors.salesforce` lists.

    Raises:
        NothingWritten: The record is as it was; the class says why (`FieldRefused`, `WriteRefused`, `RecordBusy` ...).
        AnswerLost: It may have been written; the saga settles it.
    """
    place = Place(object_type, object_id)
    with Session(credential_ref) as session:
        types = await asyncio.to_thread(field_types, session, credential_ref, object_type, patch)
        await _write_noted(session, place, patch)
        try:
            reading = await asyncio.to_thread(read, session, place, patch)
            after = await asyncio.to_thread(_written_by_us, session, patch, reading, types)
        except SagaError:
            # It landed. What cannot be read back now is taken to be what was sent.
            after = dict(patch)
        await current_step().note(after=after)


async def _write_noted(session: Session, place: Place, patch: Mapping[str, Any]) -> None:
    """Write once, onto exactly the values that are noted as those before."""
    for _ in range(_TRIES):
        reading = await read_to_write(session, place, patch)
        # The capture was read before the intent was durable, and the record may have changed while that took.
        await current_step().note(before=reading.values)
        try:
            await write(session, place, patch, reading)
        except PreconditionFailed:
            continue
        return
    raise _busy()


def _written_by_us(
    session: Session, patch: Mapping[str, Any], reading: Reading, types: Mapping[str, str]
) -> dict[str, Any]:
    """Return the values that our write left behind, as far as no other user wrote after it."""
    rewritten = [name for name in patch if not same(types[name], patch[name], reading.values[name])]
    if not rewritten or same("id", session.user_id(), reading.modified_by):
        # Differences in a save of our own are the platform's: flows, rounding, the order of a value set.
        return dict(reading.values)
    return {name: patch[name] if name in rewritten else reading.values[name] for name in patch}


@patch_object.capture
async def _capture(attempt: Attempt) -> dict[str, Any]:
    args = attempt.args
    place, patch = Place(args["object_type"], args["object_id"]), args["patch"]
    if not patch:
        raise FieldRefused("the patch is empty.", next="name at least one field")
    nested = [name for name, value in patch.items() if isinstance(value, dict | list)]
    if nested:
        raise FieldRefused(
            f"{', '.join(nested)}: a field takes a plain value.", next="patch related records by their own ids"
        )
    return await asyncio.to_thread(_captured, place, patch, args["credential_ref"])


def _captured(place: Place, patch: Mapping[str, Any], credential_ref: str) -> dict[str, Any]:
    with Session(credential_ref) as session:
        types = field_types(session, credential_ref, place.object_type, patch)
        reading = read(session, place, patch)
    if reading.calls_left is not None and reading.calls_left < _CALLS_KEPT:
        raise CallsExhausted(
            f"the org has {reading.calls_left} API calls left today; {_CALLS_KEPT} are kept for undoing.",
            next="wait until calls of the last 24 hours expire, or raise the allowance",
        )
    return {"values": reading.values, "types": types}


@patch_object.undo
def _undo(call: Call[None]) -> Compensation:
    args, captured, notes = call.args, call.captured, call.notes
    return revert_fields.bind(
        object_type=args["object_type"],
        object_id=args["object_id"],
        wrote={**args["patch"], **notes.get("after", {})},
        before={**captured["values"], **notes.get("before", {})},
        types=captured["types"],
        credential_ref=args["credential_ref"],
    )


@patch_object.probe
async def _probe(attempt: Attempt) -> Landed[None] | NotLanded | Unknown:
    if "after" in attempt.notes:
        return Landed(None)
    args, types = attempt.args, attempt.captured["types"]
    before = {**attempt.captured["values"], **attempt.notes.get("before", {})}
    place = Place(args["object_type"], args["object_id"])

    def found() -> Reading:
        with Session(args["credential_ref"]) as session:
            return read(session, place, before)

    try:
        reading = await asyncio.to_thread(found)
    except RecordMissing:
        return Unknown("the record does not exist any more")
    held = standing(args["patch"], before, reading.values, types)
    if held.theirs or (held.ours and held.restored):
        return Unknown("the patched fields hold neither what was written nor what they held before")
    return Landed(None) if held.ours else NotLanded()


@inverse("salesforce.revert_fields", keyed=True)
async def revert_fields(
    *,
    object_type: str,
    object_id: str,
    wrote: Mapping[str, Any],
    before: Mapping[str, Any],
    types: Mapping[str, str],
    credential_ref: str,
) -> AlreadyUndone | Conflict | None:
    """Write `before` back into the fields that still hold `wrote`; a field that holds neither is a conflict.

    Each run decides from what the record holds now, so a repeat has no second effect.
    """
    place = Place(object_type, object_id)
    with Session(credential_ref) as session:
        for _ in range(_TRIES):
            try:
                reading = await read_to_write(session, place, wrote)
                held = standing(wrote, before, reading.values, types)
                if held.theirs:
                    return Conflict(wrote=_only(wrote, held.theirs), found=_only(reading.values, held.theirs))
                if not held.ours:
                    return AlreadyUndone()
                await write(session, place, _only(before, held.ours), reading)
            except PreconditionFailed:
                continue
            except RecordMissing:
                return Conflict(wrote=dict(wrote), found="the record does not exist any more")
            except WriteRefused as refused:
                return Conflict(wrote=dict(wrote), found=f"Salesforce refuses the old values: {refused.reason}")
            return await _checked(session, place, _only(before, held.ours), types)
    raise _busy()


async def _checked(
    session: Session, place: Place, restored: Mapping[str, Any], types: Mapping[str, str]
) -> Conflict | None:
    """Compare what was written back with what the record holds: automation may have rewritten it on the way."""
    found = (await asyncio.to_thread(read, session, place, restored)).values
    differing = [name for name in restored if not same(types[name], restored[name], found[name])]
    return Conflict(wrote=_only(restored, differing), found=_only(found, differing)) if differing else None


def _only(values: Mapping[str, Any], names: Any) -> dict[str, Any]:
    return {name: values[name] for name in names}


def _busy() -> RecordBusy:
    return RecordBusy(f"others changed the record {_TRIES} times while it was read and written.", next="call again")
