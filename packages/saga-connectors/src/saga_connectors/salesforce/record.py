"""One record, read and written so that nobody else's change is lost in between."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import msgspec

from saga_connectors.salesforce.description import GUARDS
from saga_connectors.salesforce.errors import FieldRefused
from saga_connectors.salesforce.refusal import unusable
from saga_connectors.salesforce.session import Session

_ID = re.compile(r"[A-Za-z0-9]{15}(?:[A-Za-z0-9]{3})?", re.ASCII)
_SETTLING_READS = 2
_MORE_THAN_A_SECOND = 1.01


class Place(msgspec.Struct, frozen=True):
    """Which record."""

    object_type: str
    object_id: str

    @property
    def path(self) -> str:
        """The record's resource.

        Raises:
            FieldRefused: The id has not the shape of one.
        """
        if not _ID.fullmatch(self.object_id):
            raise FieldRefused(
                "the object_id has not the shape of a record id.", next="use the record's 15 or 18 letters and digits"
            )
        return f"sobjects/{self.object_type}/{self.object_id}"


class Reading(msgspec.Struct, frozen=True):
    """What a record held at one moment."""

    values: Mapping[str, Any]
    modified_at: datetime
    modified_by: str
    answered_at: datetime | None
    calls_left: int | None

    @property
    def is_guarded(self) -> bool:
        """True if any later change moves the modification date, which names no fraction of a second."""
        return self.answered_at is None or self.answered_at > self.modified_at


def read(session: Session, place: Place, names: Iterable[str]) -> Reading:
    """Return the named fields of the record.

    Raises:
        NothingWritten: It could not be read.
    """
    wanted = tuple(names)
    asked = ",".join(dict.fromkeys((*wanted, *GUARDS)))
    answer = session.get(place.path, {"fields": asked})
    row = answer.body
    try:
        return Reading(
            {name: row[name] for name in wanted},
            datetime.fromisoformat(row["LastModifiedDate"]).replace(microsecond=0),
            str(row["LastModifiedById"]),
            answer.at,
            answer.calls_left,
        )
    except (LookupError, TypeError, ValueError):
        raise unusable() from None


async def read_to_write(session: Session, place: Place, names: Iterable[str]) -> Reading:
    """Return a reading on which a guarded write can be built.

    The vendor's guard compares whole seconds, so it does not see a change within the second of the last one. Where that
    second may still last, the record is read again when it is over, which costs a second right after a change.

    Raises:
        NothingWritten: It could not be read.
    """
    wanted = tuple(names)
    reading = await asyncio.to_thread(read, session, place, wanted)
    for _ in range(_SETTLING_READS):
        if reading.is_guarded:
            break
        await asyncio.sleep(_MORE_THAN_A_SECOND)
        last, reading = reading, await asyncio.to_thread(read, session, place, wanted)
        if reading.modified_at == last.modified_at:
            break
    return reading


async def write(session: Session, place: Place, values: Mapping[str, Any], reading: Reading) -> None:
    """Write `values` unless the record was modified after `reading`.

    Raises:
        PreconditionFailed: It was; nothing was written.
        NothingWritten: Salesforce refused it.
        AnswerLost: It may have been written.
    """
    headers = {
        "If-Unmodified-Since": format_datetime(reading.modified_at.astimezone(UTC), usegmt=True),
        # "Assignment Rule Header" (REST API Developer Guide): without it the write may also hand a lead, a case or an
        # account to another owner, which nobody asked for and no undo would know of.
        "Sforce-Auto-Assign": "FALSE",
    }
    await asyncio.to_thread(session.patch, place.path, dict(values), headers)
