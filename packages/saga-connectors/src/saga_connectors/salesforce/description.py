"""What an org says about the fields of an object, and which of them can be patched and restored."""

import re
import time
from collections.abc import Iterable, Mapping

import msgspec

from saga_connectors.salesforce.errors import FieldRefused
from saga_connectors.salesforce.refusal import unusable
from saga_connectors.salesforce.session import Session

_KEPT_SECONDS = 300.0
# What is read back from these is not what was written, so a value read before could not be put back.
_NOT_RESTORABLE: Mapping[str, str] = {
    "encryptedstring": "it is encrypted, and reads show a mask instead of the value",
    "base64": "it holds a file, and reads show an address instead of the content",
    "address": "it is a compound field",
    "location": "it is a compound field",
    "anyType": "its type is not fixed",
    "complexvalue": "its type is not fixed",
}
# What guards the undo. Objects without them (shares, history, some setup objects) are refused.
GUARDS = ("LastModifiedDate", "LastModifiedById")

# A description is large and hardly ever changes, but it is one user's: what is writable depends on permissions.
_kept: dict[tuple[str, str, str], tuple[float, Mapping[str, "FieldDescription"]]] = {}


class FieldDescription(msgspec.Struct, frozen=True):
    """What decides whether a field can be patched."""

    name: str
    type: str
    updateable: bool
    calculated: bool
    part_of: str | None


def field_types(session: Session, credential_ref: str, object_type: str, names: Iterable[str]) -> dict[str, str]:
    """Return the types of the named fields after making sure that each can be written and restored.

    Raises:
        FieldRefused: One cannot; the message names it.
        NothingWritten: The org could not be asked.
    """
    wanted = list(names)
    place = (credential_ref, session.instance_url, object_type)
    at, fields = _kept.get(place, (0.0, {}))
    if time.monotonic() - at > _KEPT_SECONDS or any(_objection(object_type, fields, name) for name in wanted):
        # What is about to be refused may have been allowed since it was last asked.
        fields = _described(session, object_type)
        _kept[place] = time.monotonic(), fields
    for name in wanted:
        objection = _objection(object_type, fields, name)
        if objection is not None:
            raise FieldRefused(
                f"{object_type}.{name} cannot be patched: {objection}.", next="leave it out of the patch"
            )
    if any(guard not in fields for guard in GUARDS):
        raise FieldRefused(
            f"{object_type} records do not say when and by whom they were last modified: no undo could be guarded.",
            next="use an object that has LastModifiedDate and LastModifiedById",
        )
    return {name: fields[name].type for name in wanted}


def _described(session: Session, object_type: str) -> Mapping[str, FieldDescription]:
    if not re.fullmatch(r"[A-Za-z]\w{0,79}", object_type, re.ASCII):
        raise FieldRefused(f"{object_type[:80]!r} is no object type.", next="use an API name such as Lead or Order__c")
    answer = session.get(f"sobjects/{object_type}/describe")
    try:
        return {
            each["name"]: FieldDescription(
                each["name"],
                each["type"],
                bool(each["updateable"]),
                bool(each.get("calculated")),
                each.get("compoundFieldName"),
            )
            for each in answer.body["fields"]
        }
    except (LookupError, TypeError, AttributeError):
        raise unusable() from None


def _objection(object_type: str, fields: Mapping[str, FieldDescription], name: str) -> str | None:
    field = fields.get(name)
    if field is None:
        meant = next((known for known in fields if known.lower() == name.lower()), None)
        return f"{object_type} has no such field" + (f"; the name is {meant}" if meant else "")
    if field.calculated:
        return "it is a formula"
    parts = [each.name for each in fields.values() if each.part_of == name and each.name != name and each.updateable]
    if not field.updateable and parts:
        return f"it is a compound field; write its parts: {', '.join(parts)}"
    if field.type in _NOT_RESTORABLE:
        return _NOT_RESTORABLE[field.type]
    return None if field.updateable else "it is read-only for the credential's user"
