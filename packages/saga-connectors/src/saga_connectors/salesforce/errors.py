"""What can go wrong with Salesforce; each error says whether the record was changed."""

from datetime import timedelta
from typing import Any

from saga_core import SagaError


class NothingWritten(SagaError):
    """The call ended before it changed the record. Every error below but `AnswerLost` is one of these."""

    code = "SG620"

    def __init__(self, message: str, *, world: str = "the record was not changed by this call", **more: Any) -> None:
        super().__init__(message, world=world, **more)


class FieldRefused(NothingWritten):
    """The patch names something that cannot be written, or not be restored: nothing was sent."""

    code = "SG621"


class RecordMissing(NothingWritten):
    """There is no such record, or it lies in the recycle bin."""

    code = "SG622"


class SessionRefused(NothingWritten):
    """Salesforce refuses the credential, also after one renewal."""

    code = "SG623"


class WriteRefused(NothingWritten):
    """Salesforce refused the write and kept nothing of it.

    Attributes:
        reason: Salesforce's error codes with the fields they name, and the text of a validation rule.
    """

    code = "SG624"
    reason: str = ""


class RecordBusy(NothingWritten):
    """Others kept changing or locking the record; the same call may succeed in a moment."""

    code = "SG625"


class CallsExhausted(NothingWritten):
    """The org's allowance of API calls is used up, or too small to undo what would be done."""

    code = "SG626"
    retry_after: timedelta | None = None


class Unreadable(NothingWritten):
    """Salesforce could not be reached or gave no usable answer before anything was written."""

    code = "SG627"


class AnswerLost(SagaError):
    """A write was sent and its answer was lost or said nothing: the record may have been changed."""

    code = "SG628"
