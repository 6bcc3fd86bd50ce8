"""The records of the local org and what happens when one is saved."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from saga_connectors.testing.salesforce.identifier import numbered
from saga_connectors.testing.salesforce.refusal import Refusal, bad, missing
from saga_connectors.testing.salesforce.schema import OBJECTS, ObjectType
from saga_connectors.testing.salesforce.value import stored, timestamp

Row = dict[str, Any]
USERS: Mapping[str, str] = {"integration": numbered("005", 1), "pat": numbered("005", 2), "sam": numbered("005", 3)}


@dataclass(frozen=True)
class ValidationRule:
    """An administrator's rule: a save that leaves the record matching `when` is refused with `message`."""

    object_type: str
    name: str
    message: str
    when: Mapping[str, Any]
    field: str | None = None


@dataclass(frozen=True)
class Flow:
    """A before-save flow: a save that leaves the record matching `when` also sets `sets`."""

    object_type: str
    when: Mapping[str, Any]
    sets: Mapping[str, Any]


@dataclass
class Org:
    """Everything the org remembers about its records."""

    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    history: list[Row] = field(default_factory=list[Row])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    locks: dict[str, int] = field(default_factory=dict[str, int])
    rules: list[ValidationRule] = field(default_factory=list[ValidationRule])
    flows: list[Flow] = field(default_factory=list[Flow])
    assignments: dict[str, str] = field(default_factory=dict[str, str])
    stopped_at: datetime | None = None

    def now(self) -> datetime:
        """Return the org's time."""
        return self.stopped_at or datetime.now(UTC)

    def find(self, kind: ObjectType, object_id: str) -> Row:
        """Return the stored row of a live record.

        Raises:
            Refusal: No such record, or it lies in the recycle bin.
        """
        row = self.rows.get(object_id)
        if row is None or not object_id.startswith(kind.prefix):
            raise missing()
        if row["IsDeleted"]:
            # ENTITY_IS_DELETED in "StatusCode" (SOAP API Developer Guide).
            raise Refusal(HTTPStatus.NOT_FOUND, "ENTITY_IS_DELETED", "entity is deleted", [])
        return row

    def shown(self, kind: ObjectType, row: Row) -> Row:
        """Return all fields of a row, the computed ones included."""
        return {name: computed(kind, name, row) for name in kind.fields}

    def create(self, kind: ObjectType, values: Mapping[str, Any], user: str, at: datetime, *, assign: bool) -> str:
        """Insert a record and return its id."""
        absent = [each.name for each in kind.fields.values() if each.required and each.default is None]
        absent = [name for name in absent if values.get(name) in (None, "") and name != "OwnerId"]
        if absent:
            raise bad("REQUIRED_FIELD_MISSING", f"Required fields are missing: [{', '.join(absent)}]", *absent)
        number = self.numbers.get(kind.name, 0) + 1
        row: Row = {name: each.default for name, each in kind.fields.items() if not each.formula}
        row |= {"Id": numbered(kind.prefix, number), "IsDeleted": False, "OwnerId": user}
        row |= {"CreatedDate": timestamp(at), "CreatedById": user}
        self._settle(kind, row, values, user, at, assign=assign)
        self.numbers[kind.name] = number
        self.rows[row["Id"]] = row
        return row["Id"]

    def update(
        self, kind: ObjectType, object_id: str, values: Mapping[str, Any], user: str, at: datetime, *, assign: bool
    ) -> None:
        """Write `values` into a live record, or refuse all of them."""
        row = self.find(kind, object_id)
        if self.locks.get(object_id, 0) > 0:
            self.locks[object_id] -= 1
            # UNABLE_TO_LOCK_ROW in "StatusCode" (SOAP API Developer Guide): the transaction is rolled back.
            message = f"unable to obtain exclusive access to this record or 1 records: {object_id}"
            raise bad("UNABLE_TO_LOCK_ROW", message)
        after = dict(row)
        self._settle(kind, after, values, user, at, assign=assign)
        for name, each in kind.fields.items():
            # "Field History Tracking" (Salesforce Help): one entry per tracked field that changed.
            if each.tracked and row.get(name) != after.get(name):
                change = {"OldValue": row.get(name), "NewValue": after.get(name), "Field": name}
                self.history.append({"ParentId": object_id, "CreatedById": user, "CreatedDate": timestamp(at)} | change)
        self.rows[object_id] = after

    def delete(self, kind: ObjectType, object_id: str, at: datetime) -> None:
        """Put a record and its children into the recycle bin."""
        for row in [self.find(kind, object_id), *self._children(object_id, deleted=False)]:
            # "Recycle Bin" (Salesforce Help): the record stays, marked, until it is purged or restored.
            row |= {"IsDeleted": True, "SystemModstamp": timestamp(at)}

    def undelete(self, object_id: str, at: datetime) -> None:
        """Restore a record from the recycle bin, with the children that went there with it."""
        for row in [self.rows[object_id], *self._children(object_id, deleted=True)]:
            row |= {"IsDeleted": False, "SystemModstamp": timestamp(at)}

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Undo everything that was saved inside if the block raises."""
        before = deepcopy((self.rows, self.history, self.numbers, self.locks))
        try:
            yield
        except BaseException:
            self.rows, self.history, self.numbers, self.locks = before
            raise

    def _settle(
        self, kind: ObjectType, row: Row, values: Mapping[str, Any], user: str, at: datetime, *, assign: bool
    ) -> None:
        # "Triggers and Order of Execution" (Apex Developer Guide): system validation, before-save flows,
        # custom validation rules, save, assignment rules.
        for name in values:
            each = kind.fields.get(name)
            if each is None:
                raise bad("INVALID_FIELD", f"No such column '{name}' on sobject of type {kind.name}")
            if not each.writable:
                message = f"Unable to create/update fields: {name}. Please check the security settings of this field"
                raise bad("INVALID_FIELD_FOR_INSERT_UPDATE", message, name)
        for name, value in values.items():
            row[name] = stored(kind.fields[name], value)
            self._resolve(kind, name, row[name])
        for flow in self.flows:
            if flow.object_type == kind.name and _matches(kind, row, flow.when):
                row |= {name: stored(kind.fields[name], value) for name, value in flow.sets.items()}
        for rule in self.rules:
            if rule.object_type == kind.name and _matches(kind, row, rule.when):
                # "Define Validation Rules" (Salesforce Help): the answer carries the rule's message, not its name.
                fields = [rule.field] if rule.field else []
                raise bad("FIELD_CUSTOM_VALIDATION_EXCEPTION", rule.message, *fields)
        if assign and kind.assignable and kind.name in self.assignments:
            row["OwnerId"] = self.assignments[kind.name]
        # "System Fields" (Object Reference): every save moves these, also one that changes no value.
        row |= {"LastModifiedDate": timestamp(at), "LastModifiedById": user, "SystemModstamp": timestamp(at)}

    def _resolve(self, kind: ObjectType, name: str, value: Any) -> None:
        target = kind.fields[name].target
        if value is None or target is None:
            return
        known = value in USERS.values() if target == "User" else value.startswith(OBJECTS[target].prefix)
        if not known or (target != "User" and (value not in self.rows or self.rows[value]["IsDeleted"])):
            raise bad("INVALID_CROSS_REFERENCE_KEY", "invalid cross reference id", name)

    def _children(self, object_id: str, *, deleted: bool) -> list[Row]:
        lookups = {kind.prefix: kind.parent[0] for kind in OBJECTS.values() if kind.parent}
        return [
            row
            for row in self.rows.values()
            if row["IsDeleted"] is deleted and row.get(lookups.get(row["Id"][:3], "")) == object_id
        ]


def kind_of(object_id: str) -> ObjectType:
    """Return the object that a record id belongs to."""
    return next(kind for kind in OBJECTS.values() if object_id.startswith(kind.prefix))


def computed(kind: ObjectType, name: str, row: Row) -> Any:
    """Return the value of a field, worked out where the platform works it out."""
    if name == "Name" and not kind.fields["Name"].writable:
        return " ".join(part for part in (row.get("Salutation"), row.get("FirstName"), row["LastName"]) if part)
    if kind.fields[name].type == "address":
        parts = ("Street", "City", "State", "PostalCode", "Country")
        prefix = name.removesuffix("Address")
        address = {part[0].lower() + part[1:]: row.get(prefix + part) for part in parts}
        return address if any(address.values()) else None
    if name == "Full_Title__c":
        return f"{row['LastName']}, {row.get('Company')}"
    if name == "ExpectedRevenue":
        return round((row.get("Amount") or 0.0) * (row.get("Probability") or 0.0) / 100, 2)
    if kind.fields[name].type == "encryptedstring":
        # "Classic Encryption" (Salesforce Help): without "View Encrypted Data" a reader sees the mask.
        return None if row.get(name) is None else "*" * len(row[name])
    return row.get(name)


def _matches(kind: ObjectType, row: Row, when: Mapping[str, Any]) -> bool:
    return all(row.get(name) == stored(kind.fields[name], value) for name, value in when.items())
