"""The patch and its undo: the real engine, the real library, a local org on a real port.

The org's records, field history and request ledger are what is compared.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from saga_connectors import salesforce
from saga_connectors.salesforce import (
    AnswerLost,
    CallsExhausted,
    FieldRefused,
    RecordBusy,
    RecordMissing,
    SessionRefused,
    Unreadable,
    WriteRefused,
)
from saga_connectors.testing import LocalServer
from saga_connectors.testing.salesforce import SalesforceOrg
from saga_core import Report, Saga, registry, saga_scope

PATCHES = "PATCH /services/data/*/sobjects/Lead/*"
OPEN = "Open - Not Contacted"
MOVING = ("LastModifiedDate", "LastModifiedById", "SystemModstamp")


class Failed(Exception):
    """The agent's own failure."""


class World:
    """One lead in the local org, and sagas that patch it."""

    def __init__(self, server: LocalServer, ref: str, lead: str, store: str) -> None:
        self.server, self.ref, self.lead, self.store = server, ref, lead, store
        self.start = self.record()
        self.reads = f"GET /services/data/*/sobjects/Lead/{lead}"

    def record(self, object_id: str | None = None) -> dict[str, Any]:
        """The record's fields, without those that every save moves."""
        found = self.server.snapshot()["records"][object_id or self.lead]
        return {name: value for name, value in found.items() if name not in MOVING}

    def changes(self, field: str) -> list[tuple[Any, Any]]:
        """The field's history."""
        history = [each for each in self.server.snapshot()["history"] if each["Field"] == field]
        return [(each["OldValue"], each["NewValue"]) for each in history]

    def writes(self) -> list[dict[str, Any]]:
        """The PATCH requests that the org looked at."""
        return [each for each in self.server.snapshot()["requests"] if each["method"] == "PATCH"]

    async def patch(self, patch: Mapping[str, Any], **more: Any) -> None:
        """Patch the lead, ambiently."""
        args = {"object_type": "Lead", "object_id": self.lead, "credential_ref": self.ref, **more}
        await salesforce.patch_object(patch=patch, **args)

    def edit(self, **fields: Any) -> None:
        """Let another person edit the lead."""
        self.server.act("edit", object_id=self.lead, fields=fields)

    def fail_after(self, work: Callable[[], Awaitable[object]], *, unwind_seconds: float = 30) -> Report:
        """Run `work` in a saga that fails after it; return the report of the unwound saga."""

        sagas: list[Saga] = []

        async def run() -> None:
            async with saga_scope("test", store=self.store, unwind_timeout=timedelta(seconds=unwind_seconds)) as saga:
                sagas.append(saga)
                await work()
                raise Failed

        with pytest.raises(Failed):
            asyncio.run(run())
        return sagas[0].report

    def keep_after(self, work: Callable[[], Awaitable[object]]) -> Report:
        """Run `work` in a saga that commits."""

        async def run() -> Report:
            async with saga_scope("test", store=self.store) as saga:
                await work()
            return saga.report

        return asyncio.run(run())


in_both_stores = pytest.mark.parametrize("store", ["memory", "file"], indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"file:{tmp_path / 'saga'}" if getattr(request, "param", "memory") == "file" else "memory:"


@pytest.fixture
def world(server: LocalServer, credential_ref: str, lead: str, store: str) -> World:
    return World(server, credential_ref, lead, store)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that was lost cannot land later than half a second after it was sent."""
    declared = registry.ACTIONS.get("salesforce.patch_object")
    assert declared is not None
    monkeypatch.setattr(declared, "lands_within", timedelta(seconds=0.5))


def states(report: Report) -> list[str]:
    return [step.state for step in report.steps]


@in_both_stores
def test_a_failed_run_puts_back_exactly_the_patched_fields(world: World) -> None:
    async def work() -> None:
        await world.patch({"Status": "Won", "Rating": "Hot", "AnnualRevenue": 12.5})
        assert world.record()["Status"] == "Won"

    report = world.fail_after(work)
    assert (report.state, report.is_clean) == ("rolled_back", True)
    assert world.record() == world.start
    assert world.changes("Status") == [(OPEN, "Won"), ("Won", OPEN)]
    assert [write["status"] for write in world.writes()] == [204, 204]


def test_a_committed_patch_stays(world: World) -> None:
    report = world.keep_after(lambda: world.patch({"Status": "Won"}))
    assert states(report) == ["applied"]
    assert world.record() == {**world.start, "Status": "Won"}
    assert len(world.writes()) == 1


def test_every_write_is_guarded_and_runs_no_assignment_rule(world: World) -> None:
    world.server.act("add_assignment_rule", object_type="Lead", owner="sam")
    world.fail_after(lambda: world.patch({"Status": "Won"}))
    assert world.record() == world.start, "the owner is still the one before"
    for write in world.writes():
        assert set(write["headers"]) == {"if-unmodified-since", "sforce-auto-assign"}
        assert write["headers"]["sforce-auto-assign"] == "FALSE"


def test_another_field_that_a_person_edited_is_kept(world: World) -> None:
    async def work() -> None:
        await world.patch({"Status": "Won"})
        world.edit(Phone="555", Title="Boss")

    report = world.fail_after(work)
    assert report.is_clean
    assert world.record() == {**world.start, "Phone": "555", "Title": "Boss"}


@in_both_stores
def test_a_field_that_a_person_edited_is_left_alone_and_becomes_a_case(world: World) -> None:
    async def work() -> None:
        await world.patch({"Status": "Won", "Rating": "Hot"})
        world.edit(Status="Working - Contacted")

    report = world.fail_after(work)
    assert report.state == "needs_human"
    assert states(report) == ["conflict"]
    assert world.record() == {**world.start, "Status": "Working - Contacted", "Rating": "Hot"}, "nothing was written"
    assert len(world.writes()) == 1
    assert len(report.cases) == 1
    words = report.steps[0].words
    assert "we wrote {'Status': 'Won'}, found {'Status': 'Working - Contacted'}" in words, "only what conflicts"


def test_a_field_that_a_person_put_back_already_counts_as_undone(world: World) -> None:
    async def work() -> None:
        await world.patch({"Status": "Won"})
        world.edit(Status=OPEN)

    report = world.fail_after(work)
    assert report.is_clean
    assert world.changes("Status") == [(OPEN, "Won"), ("Won", OPEN)], "by the person alone"
    assert len(world.writes()) == 1


def test_a_patch_that_changes_nothing_leaves_a_later_edit_alone(world: World) -> None:
    async def work() -> None:
        await world.patch({"Status": OPEN})
        world.edit(Status="Working - Contacted")

    report = world.fail_after(work)
    assert report.is_clean
    assert world.record()["Status"] == "Working - Contacted"


@in_both_stores
def test_two_patches_of_one_record_are_unwound_newest_first_to_the_start(world: World) -> None:
    async def work() -> None:
        await world.patch({"Status": "Working - Contacted", "Rating": "Warm"})
        await world.patch({"Status": "Won"}, object_id=world.lead[:15])

    report = world.fail_after(work)
    assert report.is_clean
    assert world.record() == world.start
    middle = "Working - Contacted"
    assert world.changes("Status") == [(OPEN, middle), (middle, "Won"), ("Won", middle), (middle, OPEN)]


@in_both_stores
def test_a_write_whose_answer_is_lost_is_found_and_reverted_once(world: World) -> None:
    world.server.arm("drop", on=PATCHES, when="after")
    report = world.fail_after(lambda: world.patch({"Status": "Won", "Next_Call__c": "2026-12-01T10:00:00+02:00"}))
    assert report.is_clean
    assert world.record() == world.start
    assert world.changes("Status") == [(OPEN, "Won"), ("Won", OPEN)]


@in_both_stores
def test_a_revert_whose_answer_is_lost_is_not_done_twice(world: World) -> None:
    async def work() -> None:
        await world.patch({"Status": "Won"})
        world.server.arm("drop", on=PATCHES, when="after")

    report = world.fail_after(work)
    assert report.is_clean
    assert world.record() == world.start
    assert world.changes("Status") == [(OPEN, "Won"), ("Won", OPEN)]
    assert len(world.writes()) == 2


@pytest.mark.usefixtures("quick")
def test_a_write_that_never_arrived_is_settled_and_nothing_is_sent_for_it(world: World) -> None:
    world.server.arm("drop", on=PATCHES)

    async def work() -> None:
        with pytest.raises(AnswerLost):
            await world.patch({"Status": "Won"})

    report = world.fail_after(work)
    assert report.is_clean
    assert states(report) == ["not_landed"]
    assert world.record() == world.start
    assert world.changes("Status") == []
    assert world.writes() == []


@pytest.mark.usefixtures("quick")
def test_a_write_that_lands_after_its_connection_died_is_found(world: World) -> None:
    world.server.arm("late", on=PATCHES, seconds=0.2)
    report = world.fail_after(lambda: world.patch({"Status": "Won"}))
    assert report.is_clean
    assert world.record() == world.start
    assert world.changes("Status") == [(OPEN, "Won"), ("Won", OPEN)]


def test_a_write_in_doubt_is_not_called_undone(world: World) -> None:
    world.server.arm("drop", on=PATCHES)

    async def work() -> None:
        with pytest.raises(AnswerLost, match="may have been changed"):
            await world.patch({"Status": "Won"})

    report = world.fail_after(work, unwind_seconds=0.5)
    assert states(report) == ["in_doubt"]
    assert not report.is_clean


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.usefixtures("quick")
def test_a_server_error_is_settled_by_looking(world: World, when: Any) -> None:
    world.server.arm("answer", on=PATCHES, status=500, when=when)

    async def work() -> None:
        if when == "after":
            await world.patch({"Status": "Won"})
        else:
            with pytest.raises(AnswerLost):
                await world.patch({"Status": "Won"})

    report = world.fail_after(work)
    assert report.is_clean
    assert states(report) == ["undone" if when == "after" else "not_landed"]
    assert world.record() == world.start


def test_an_expired_session_is_renewed_once_and_the_write_is_sent_again_as_it_was(world: World) -> None:
    world.server.act("arrange", on=PATCHES, moves=[{"move": "expire_sessions"}])
    world.keep_after(lambda: world.patch({"Status": "Won"}))
    first, second = world.writes()
    assert (first["status"], second["status"]) == (401, 204)
    assert first["headers"] == second["headers"]
    assert world.server.snapshot()["logins"] == 2


@pytest.mark.parametrize(
    ("edited", "expected"),
    [({"Status": "Working - Contacted"}, "Working - Contacted"), ({"Phone": "555"}, OPEN)],
    ids=["the same field", "another field"],
)
def test_an_edit_while_the_session_of_the_revert_expires_survives(
    world: World, edited: dict[str, str], expected: str
) -> None:
    """The vendor's library would resend the write without its guard, and overwrite the person's edit."""

    async def work() -> None:
        await world.patch({"Status": "Won"})
        edit = {"move": "edit", "facts": {"object_id": world.lead, "fields": edited}}
        world.server.act("arrange", on=PATCHES, moves=[{"move": "expire_sessions"}, edit])

    report = world.fail_after(work)
    assert world.record() == {**world.start, "Status": expected, **edited}
    statuses = [write["status"] for write in world.writes()]
    assert statuses[:3] == [204, 401, 412], "the guard held on the request that was sent again"
    assert states(report) == (["undone"] if expected == OPEN else ["conflict"])


def test_a_credential_that_cannot_be_renewed_ends_the_call_with_nothing_written(
    world: World, give_credential: Callable[..., str]
) -> None:
    token = world.server.act("log_in")["access_token"]
    ref = give_credential(access_token=token)
    world.server.act("arrange", on=PATCHES, moves=[{"move": "expire_sessions"}])

    async def work() -> None:
        with pytest.raises(SessionRefused) as refused:
            await world.patch({"Status": "Won"}, credential_ref=ref)
        assert token not in str(refused.value)

    report = world.fail_after(work)
    assert states(report) == ["not_landed"]
    assert world.record() == world.start


def test_a_wrong_credential_is_refused_before_anything_is_read(
    world: World, give_credential: Callable[..., str]
) -> None:
    ref = give_credential(client_id="saga-local-app", client_secret="not-the-secret")

    async def work() -> None:
        with pytest.raises(SessionRefused, match="invalid_client") as refused:
            await world.patch({"Status": "Won"}, credential_ref=ref)
        assert "not-the-secret" not in str(refused.value)

    report = world.fail_after(work)
    assert report.steps == ()
    assert world.writes() == []


@pytest.mark.parametrize("form", ["refresh_token", "password", "rotated"])
def test_each_form_of_credential_survives_an_expired_session(
    world: World, give_credential: Callable[..., str], form: str
) -> None:
    secrets = world.server.act("credential")
    app = {"client_id": secrets["client_id"], "client_secret": secrets["client_secret"]}
    match form:
        case "refresh_token":
            ref = give_credential(**app, refresh_token=secrets["refresh_token"])
        case "password":
            ref = give_credential(**app, username=secrets["username"], password=secrets["password"])
        case _:
            ref = give_credential(access_token=world.server.act("log_in")["access_token"])

    async def work() -> None:
        await world.patch({"Status": "Won"}, credential_ref=ref)
        world.server.act("expire_sessions")
        if form == "rotated":
            give_credential(ref, access_token=world.server.act("log_in")["access_token"])

    assert world.fail_after(work).is_clean
    assert world.record() == world.start


@in_both_stores
def test_a_flow_that_rewrites_the_patch_is_undone_too(world: World) -> None:
    flow = {"object_type": "Lead", "when": {"Status": "Won"}, "sets": {"Status": "Closed - Not Converted"}}
    world.server.act("add_flow", **flow)

    async def work() -> None:
        await world.patch({"Status": "Won", "Rating": "Hot"})
        assert world.record()["Status"] == "Closed - Not Converted"

    report = world.fail_after(work)
    assert report.is_clean
    assert world.record() == world.start


def test_a_flow_that_rewrites_the_revert_becomes_a_case_that_names_the_field(world: World) -> None:
    flow = {"object_type": "Lead", "when": {"Status": OPEN}, "sets": {"Rating": "Cold"}}

    async def work() -> None:
        await world.patch({"Status": "Won", "Rating": "Hot"})
        world.server.act("add_flow", **flow)

    report = world.fail_after(work)
    assert states(report) == ["conflict"]
    assert world.record() == {**world.start, "Rating": "Cold"}
    assert len(report.cases) == 1
    assert "we wrote {'Rating': None}, found {'Rating': 'Cold'}" in report.steps[0].words


def test_a_validation_rule_that_blocks_the_revert_becomes_a_case_with_the_rule_in_it(world: World) -> None:
    rule = {
        "object_type": "Lead",
        "name": "Keep_Won",
        "message": "Keep_Won: an open lead needs a phone number",
        "when": {"Status": OPEN, "Phone": None},
        "field": "Phone",
    }

    async def work() -> None:
        await world.patch({"Status": "Won"})
        world.server.act("add_validation_rule", **rule)

    report = world.fail_after(work)
    assert states(report) == ["conflict"]
    assert world.record()["Status"] == "Won"
    assert len(report.cases) == 1
    assert "FIELD_CUSTOM_VALIDATION_EXCEPTION (Phone): Keep_Won" in report.steps[0].words


def test_a_refused_write_is_no_doubt(world: World) -> None:
    rule = {"object_type": "Lead", "name": "No", "message": "a Won lead has a phone", "when": {"Status": "Won"}}
    world.server.act("add_validation_rule", **rule)

    async def work() -> None:
        with pytest.raises(WriteRefused) as refused:
            await world.patch({"Status": "Won"})
        assert refused.value.reason == "FIELD_CUSTOM_VALIDATION_EXCEPTION", "the rule's text holds the value"
        assert "Won" not in str(refused.value)

    report = world.fail_after(work)
    assert states(report) == ["not_landed"]
    assert report.is_clean
    assert world.record() == world.start


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ("Colour__c", "no such field"),
        ("status", "the name is Status"),
        ("CreatedDate", "read-only"),
        ("Full_Title__c", "formula"),
        ("Address", "write its parts: Street, City"),
        ("Name", "write its parts: Salutation, FirstName, LastName"),
        ("Tax_Number__c", "encrypted"),
        ("Id", "read-only"),
    ],
)
def test_a_field_that_cannot_be_restored_is_refused_before_the_effect(world: World, field: str, why: str) -> None:
    async def work() -> None:
        with pytest.raises(FieldRefused, match=why) as refused:
            await world.patch({"Status": "Won", field: "x"})
        assert field in str(refused.value)

    report = world.fail_after(work)
    assert report.steps == ()
    assert world.writes() == []


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ({"object_type": "Lead/../Account"}, FieldRefused),
        ({"object_type": "Sheep"}, RecordMissing),
        ({"object_id": "00Q1"}, FieldRefused),
        ({"object_id": "00Q5gQ000009999"}, RecordMissing),
        ({"patch": {}}, FieldRefused),
        ({"patch": {"OwnerId": {"Email": "a@b.example"}}}, FieldRefused),
    ],
)
def test_a_call_that_names_no_record_is_refused_before_the_effect(
    world: World, place: dict[str, Any], error: type[Exception]
) -> None:
    async def work() -> None:
        with pytest.raises(error):
            await world.patch(**{"patch": {"Status": "Won"}, **place})

    report = world.fail_after(work)
    assert report.steps == ()
    assert world.writes() == []


def test_a_record_that_was_deleted_since_becomes_a_case(world: World) -> None:
    async def work() -> None:
        await world.patch({"Status": "Won"})
        world.server.act("delete", object_id=world.lead)

    report = world.fail_after(work)
    assert states(report) == ["conflict"]
    assert len(report.cases) == 1
    assert "does not exist any more" in report.steps[0].words
    assert len(world.writes()) == 1


def test_a_locked_record_is_no_doubt_and_the_revert_waits_for_it(world: World) -> None:
    async def work() -> None:
        world.server.act("lock_row", object_id=world.lead)
        with pytest.raises(RecordBusy):
            await world.patch({"Status": "Won"})
        await world.patch({"Status": "Won"})
        world.server.act("lock_row", object_id=world.lead)

    report = world.fail_after(work)
    assert states(report) == ["not_landed", "undone"]
    assert world.record() == world.start


def test_an_exhausted_allowance_stops_a_patch_before_it_starts(world: World) -> None:
    async def work() -> None:
        world.server.act("spend_calls", left=20)
        with pytest.raises(CallsExhausted, match="kept for undoing"):
            await world.patch({"Status": "Won"})
        world.server.act("spend_calls", left=0)
        with pytest.raises(CallsExhausted) as exhausted:
            await world.patch({"Status": "Won"})
        assert exhausted.value.retry_after == timedelta(minutes=15)

    report = world.fail_after(work)
    assert report.steps == ()
    assert world.writes() == []


def test_a_refused_request_for_want_of_allowance_is_no_doubt(world: World) -> None:
    world.server.act("arrange", on=PATCHES, moves=[{"move": "spend_calls", "facts": {"left": 0}}])

    async def work() -> None:
        with pytest.raises(CallsExhausted):
            await world.patch({"Status": "Won"})

    assert states(world.fail_after(work)) == ["not_landed"]
    assert world.record() == world.start


def test_a_server_that_is_not_there_is_no_doubt(world: World, give_credential: Callable[..., str]) -> None:
    gone = LocalServer.in_thread(SalesforceOrg())
    ref = give_credential(instance_url=gone.url, access_token="a-token")
    gone.close()

    async def work() -> None:
        with pytest.raises(Unreadable):
            await world.patch({"Status": "Won"}, credential_ref=ref)

    assert world.fail_after(work).steps == ()


def test_an_edit_between_the_capture_and_the_write_is_what_the_undo_restores(world: World) -> None:
    edit = {"move": "edit", "facts": {"object_id": world.lead, "fields": {"Status": "Working - Contacted"}}}
    world.server.act("arrange", on=world.reads, nth=2, moves=[edit])
    report = world.fail_after(lambda: world.patch({"Status": "Won"}))
    assert report.is_clean
    assert world.record()["Status"] == "Working - Contacted"


def test_an_edit_just_before_the_write_is_what_the_undo_restores(world: World) -> None:
    edit = {"move": "edit", "facts": {"object_id": world.lead, "fields": {"Status": "Working - Contacted"}}}
    world.server.act("arrange", on=PATCHES, moves=[edit])
    report = world.fail_after(lambda: world.patch({"Status": "Won"}))
    assert report.is_clean
    assert [write["status"] for write in world.writes()] == [412, 204, 204]
    assert world.record()["Status"] == "Working - Contacted"


def test_an_edit_just_after_the_write_is_not_taken_for_ours(world: World) -> None:
    edit = {"move": "edit", "facts": {"object_id": world.lead, "fields": {"Status": "Working - Contacted"}}}
    world.server.act("arrange", on=world.reads, nth=3, moves=[edit])
    report = world.fail_after(lambda: world.patch({"Status": "Won"}))
    assert states(report) == ["conflict"]
    assert world.record()["Status"] == "Working - Contacted"


def test_a_record_that_others_keep_changing_is_given_back_untouched(world: World) -> None:
    edit = {"move": "edit", "facts": {"object_id": world.lead, "fields": {"Phone": "555"}}}
    for nth in (1, 2, 3):
        world.server.act("arrange", on=PATCHES, nth=nth, moves=[edit])

    async def work() -> None:
        with pytest.raises(RecordBusy):
            await world.patch({"Status": "Won"})

    assert states(world.fail_after(work)) == ["not_landed"]
    assert world.record() == {**world.start, "Phone": "555"}


def test_a_read_that_fails_after_the_write_does_not_make_it_a_failure(world: World) -> None:
    world.server.arm("drop", on=world.reads, nth=3)
    report = world.fail_after(lambda: world.patch({"Status": "Won"}))
    assert report.is_clean
    assert world.record() == world.start


START = {
    "Next_Call__c": "2026-01-01T00:00:00Z",
    "Follow_Up__c": "2026-01-01",
    "Interests__c": "Lifts;Drills",
    "AnnualRevenue": 1000.5,
    "Rating": "Warm",
    "Description": "as it was",
    "Title": "Boss",
}
PATCH = {
    "Next_Call__c": "2026-12-01T10:00:00.750+02:00",
    "Follow_Up__c": "2026-12-01",
    "Interests__c": "Pumps;Cranes",
    "AnnualRevenue": 7,
    "NumberOfEmployees": 3.0,
    "Score__c": 0.1,
    "Discount__c": Decimal("12.50"),
    "Rating": None,
    "Title": "",
    "HasOptedOutOfEmail": True,
    "OwnerId": "0055gQ000000003",
    "Description": "ünï\nçode; 'quoted' \"twice\" \u2028",
}


@pytest.mark.parametrize("answer", ["arrives", "is lost"])
def test_each_kind_of_value_is_recognised_and_restored(world: World, answer: str) -> None:
    world.edit(**START)
    before = world.record()
    if answer == "is lost":
        world.server.arm("drop", on=PATCHES, when="after")

    async def work() -> None:
        await world.patch(PATCH)
        written = world.record()
        assert all(written[name] != before[name] for name in PATCH)

    report = world.fail_after(work)
    assert states(report) == ["undone"], report
    assert world.record() == before


def test_a_cancelled_write_is_found_and_reverted(world: World) -> None:
    world.server.arm("hang", on=PATCHES, when="after")

    async def work() -> None:
        writing = asyncio.create_task(world.patch({"Status": "Won"}))
        while world.record()["Status"] != "Won":  # noqa: ASYNC110 -- the org tells over HTTP alone
            await asyncio.sleep(0.01)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        world.server.release()

    report = world.fail_after(work)
    assert states(report) == ["undone"]
    assert world.record() == world.start


def test_an_account_is_patched_like_a_lead(world: World) -> None:
    account = world.server.act("create", object_type="Account", fields={"Name": "Acme", "BillingCity": "Rome"})["id"]
    before = world.record(account)

    async def work() -> None:
        await world.patch({"Name": "Apex", "BillingCity": "Oslo"}, object_type="Account", object_id=account)

    assert world.fail_after(work).is_clean
    assert world.record(account) == before


@in_both_stores
def test_no_secret_is_logged(world: World, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    world.server.act("arrange", on=PATCHES, moves=[{"move": "expire_sessions"}])

    async def work() -> None:
        await world.patch({"Status": "Won", "Description": "a very private remark"})
        world.server.arm("drop", on=PATCHES)

    report = world.fail_after(work)
    assert report.is_clean
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    if world.store != "memory:":
        assert b"salesforce.patch_object" in files, "the log is where it is looked for"
    secrets = [world.server.act("credential")["client_secret"], *world.server.act("tokens")["tokens"]]
    assert len(secrets) >= 3
    for secret in secrets:
        assert secret not in caplog.text
        assert secret.encode() not in files
    assert "a very private remark" not in caplog.text


def test_a_plain_address_is_refused_outside_this_machine(world: World, give_credential: Callable[..., str]) -> None:
    ref = give_credential(instance_url="http://org.example", access_token="a-token")

    async def work() -> None:
        with pytest.raises(Exception, match="SG602") as refused:
            await world.patch({"Status": "Won"}, credential_ref=ref)
        assert "a-token" not in str(refused.value)

    assert world.fail_after(work).steps == ()
