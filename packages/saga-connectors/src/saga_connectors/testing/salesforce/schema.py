"""The four objects of the local org: their fields, as `describe` tells them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

FieldType = Literal[
    "id", "string", "textarea", "phone", "email", "url", "picklist", "multipicklist", "boolean", "int", "double",
    "currency", "percent", "date", "datetime", "reference", "address", "encryptedstring",
]  # fmt: skip


@dataclass(frozen=True)
class Field:
    """One field. "DescribeSObjectResult" (SOAP API Developer Guide) says what the flags mean."""

    name: str
    type: FieldType = "string"
    length: int = 255
    required: bool = False
    writable: bool = True
    formula: bool = False
    default: Any = None
    part_of: str | None = None
    choices: tuple[str, ...] = ()
    restricted: bool = False
    scale: int = 2
    target: str | None = None
    tracked: bool = True

    def described(self) -> dict[str, Any]:
        """Return this field's entry in a describe."""
        return {
            "name": self.name,
            "label": self.name.removesuffix("__c").replace("_", " "),
            "type": self.type,
            "length": self.length if self.type in ("string", "textarea", "phone", "email", "url", "picklist") else 0,
            "nillable": not self.required and self.type != "boolean",
            "createable": self.writable,
            "updateable": self.writable,
            "calculated": self.formula,
            "defaultedOnCreate": self.default is not None,
            "compoundFieldName": self.part_of,
            "restrictedPicklist": self.restricted,
            "picklistValues": [{"value": choice, "label": choice, "active": True} for choice in self.choices],
            "scale": self.scale if self.type in ("double", "currency", "percent") else 0,
            "referenceTo": [self.target] if self.target else [],
            "custom": self.name.endswith("__c"),
        }


@dataclass(frozen=True)
class ObjectType:
    """One object: an sObject of the org."""

    name: str
    prefix: str
    fields: Mapping[str, Field]
    has_etag: bool = False
    parent: tuple[str, str] | None = None
    assignable: bool = False

    def described(self) -> dict[str, Any]:
        """Return what "sObject Describe" (REST API Developer Guide) answers."""
        return {
            "name": self.name,
            "label": self.name,
            "keyPrefix": self.prefix,
            "createable": True,
            "updateable": True,
            "deletable": True,
            "undeletable": True,
            "queryable": True,
            "custom": False,
            "fields": [field.described() for field in self.fields.values()],
        }


def _system() -> list[Field]:
    # "System Fields" (Object Reference): set by the platform, read-only through the API.
    return [
        Field("Id", "id", writable=False),
        Field("IsDeleted", "boolean", writable=False),
        Field("CreatedDate", "datetime", writable=False, tracked=False),
        Field("CreatedById", "reference", writable=False, target="User", tracked=False),
        Field("LastModifiedDate", "datetime", writable=False, tracked=False),
        Field("LastModifiedById", "reference", writable=False, target="User", tracked=False),
        Field("SystemModstamp", "datetime", writable=False, tracked=False),
    ]


def _address(prefix: str) -> list[Field]:
    # "Address Compound Fields" (Object Reference): the compound field is read-only, its parts are written.
    compound = f"{prefix}Address" if prefix else "Address"
    return [
        Field(compound, "address", writable=False, tracked=False),
        Field(f"{prefix}Street", "textarea", part_of=compound),
        Field(f"{prefix}City", length=40, part_of=compound),
        Field(f"{prefix}State", length=80, part_of=compound),
        Field(f"{prefix}PostalCode", length=20, part_of=compound),
        Field(f"{prefix}Country", length=80, part_of=compound),
    ]


def _person() -> list[Field]:
    return [
        Field("Name", length=121, writable=False, tracked=False),
        Field("Salutation", "picklist", 40, choices=("Mr.", "Ms.", "Dr."), part_of="Name"),
        Field("FirstName", length=40, part_of="Name"),
        Field("LastName", length=80, required=True, part_of="Name"),
        Field("Title", length=128),
        Field("Phone", "phone", 40),
        Field("MobilePhone", "phone", 40),
        Field("Email", "email", 80),
        Field("Description", "textarea", 32000),
        Field("LeadSource", "picklist", 255, choices=("Web", "Phone Inquiry", "Partner Referral", "Other")),
        Field("HasOptedOutOfEmail", "boolean", default=False),
        Field("OwnerId", "reference", required=True, target="User"),
    ]


def _object(
    name: str,
    prefix: str,
    *fields: Field,
    has_etag: bool = False,
    parent: tuple[str, str] | None = None,
    assignable: bool = False,
) -> ObjectType:
    named = {field.name: field for field in [*_system(), *fields]}
    return ObjectType(name, prefix, named, has_etag, parent, assignable)


LEAD = _object(
    "Lead",
    "00Q",
    *_person(),
    *_address(""),
    Field("Company", required=True),
    Field("Website", "url"),
    Field(
        "Status",
        "picklist",
        required=True,
        default="Open - Not Contacted",
        choices=("Open - Not Contacted", "Working - Contacted", "Won", "Closed - Not Converted"),
    ),
    Field("Industry", "picklist", choices=("Banking", "Energy", "Technology")),
    Field("Rating", "picklist", choices=("Hot", "Warm", "Cold")),
    Field("AnnualRevenue", "currency"),
    Field("NumberOfEmployees", "int"),
    Field("IsConverted", "boolean", writable=False, default=False),
    Field("Score__c", "double", scale=1),
    Field("Discount__c", "percent"),
    Field("Next_Call__c", "datetime"),
    Field("Follow_Up__c", "date"),
    Field("Interests__c", "multipicklist", choices=("Cranes", "Drills", "Lifts", "Pumps"), restricted=True),
    Field("Tier__c", "picklist", choices=("Gold", "Silver", "Bronze"), restricted=True),
    Field("Partner_Account__c", "reference", target="Account"),
    Field("Tax_Number__c", "encryptedstring", 40),
    Field("Full_Title__c", writable=False, formula=True, tracked=False),
    assignable=True,
)
ACCOUNT = _object(
    "Account",
    "001",
    Field("Name", required=True),
    Field("Type", "picklist", choices=("Prospect", "Customer", "Partner")),
    Field("Industry", "picklist", choices=("Banking", "Energy", "Technology")),
    Field("Rating", "picklist", choices=("Hot", "Warm", "Cold")),
    Field("Phone", "phone", 40),
    Field("Website", "url"),
    Field("AnnualRevenue", "currency"),
    Field("NumberOfEmployees", "int"),
    Field("Description", "textarea", 32000),
    Field("ParentId", "reference", target="Account"),
    Field("OwnerId", "reference", required=True, target="User"),
    *_address("Billing"),
    # "Conditional Request Headers" (REST API Developer Guide): ETags exist for account records only.
    has_etag=True,
    assignable=True,
)
CONTACT = _object(
    "Contact",
    "003",
    *_person(),
    *_address("Mailing"),
    Field("AccountId", "reference", target="Account"),
    Field("Department", length=80),
    Field("Birthdate", "date"),
    parent=("AccountId", "Account"),
)
OPPORTUNITY = _object(
    "Opportunity",
    "006",
    Field("Name", length=120, required=True),
    Field(
        "StageName",
        "picklist",
        required=True,
        choices=("Prospecting", "Qualification", "Closed Won", "Closed Lost"),
    ),
    Field("CloseDate", "date", required=True),
    Field("Amount", "currency"),
    Field("Probability", "percent"),
    Field("ExpectedRevenue", "currency", writable=False, formula=True, tracked=False),
    Field("NextStep"),
    Field("Description", "textarea", 32000),
    Field("AccountId", "reference", target="Account"),
    Field("OwnerId", "reference", required=True, target="User"),
    parent=("AccountId", "Account"),
)
OBJECTS: Mapping[str, ObjectType] = {kind.name: kind for kind in (LEAD, ACCOUNT, CONTACT, OPPORTUNITY)}
