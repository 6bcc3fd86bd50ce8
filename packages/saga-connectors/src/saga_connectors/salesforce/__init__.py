"""Recorded, undoable changes to Salesforce records.

A credential reference stands for a JSON object with `instance_url`, the org's own address, and one of:

* `access_token`: used as it is. When it expires, the reference is resolved again, once, in case it was rotated.
* `client_id`, `client_secret`: OAuth 2.0 client credentials; a token is fetched, and fetched again when it expires.
* `client_id`, `refresh_token` and, if the app has one, `client_secret`: the refresh token flow.
* `client_id`, `client_secret`, `username`, `password`: the username-password flow.

`access_token` may stand beside any of the others and is then the first one used.
"""

from saga_connectors.salesforce.errors import (
    AnswerLost,
    CallsExhausted,
    FieldRefused,
    NothingWritten,
    RecordBusy,
    RecordMissing,
    SessionRefused,
    Unreadable,
    WriteRefused,
)
from saga_connectors.salesforce.patch import patch_object, revert_fields

__all__ = [
    "AnswerLost",
    "CallsExhausted",
    "FieldRefused",
    "NothingWritten",
    "RecordBusy",
    "RecordMissing",
    "SessionRefused",
    "Unreadable",
    "WriteRefused",
    "patch_object",
    "revert_fields",
]
