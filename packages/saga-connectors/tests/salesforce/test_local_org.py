"""The local org, looked at through the vendor's own library over TCP."""

from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, cast

import pytest
import requests
from requests import Session
from simple_salesforce.api import Salesforce, SFType
from simple_salesforce.exceptions import (
    SalesforceExpiredSession,
    SalesforceGeneralError,
    SalesforceMalformedRequest,
    SalesforceRefusedRequest,
    SalesforceResourceNotFound,
)

from saga_connectors.testing import LocalServer

OPPORTUNITY = {"Name": "Ten cranes", "StageName": "Prospecting", "CloseDate": "2026-12-31", "Amount": 1000.5}


def leads(library: Salesforce) -> SFType:
    return cast("SFType", library.Lead)


def code_of(error: pytest.ExceptionInfo[Any]) -> str:
    return cast("str", error.value.content[0]["errorCode"])


def test_what_was_written_is_read_back(library: Salesforce, server: LocalServer) -> None:
    created = leads(library).create({"LastName": "Lem", "Company": "Cyberiad", "Interests__c": "Pumps;Cranes"})
    leads(library).update(created["id"], {"Status": "Won", "Next_Call__c": "2026-12-01T10:00:00+02:00"})
    read = leads(library).get(created["id"])
    assert (read["Status"], read["Name"], read["Full_Title__c"]) == ("Won", "Lem", "Lem, Cyberiad")
    assert read["Interests__c"] == "Cranes;Pumps", "the platform keeps the order of its value set"
    assert read["Next_Call__c"] == "2026-12-01T08:00:00.000+0000"
    history = [(each["Field"], each["OldValue"], each["NewValue"]) for each in server.snapshot()["history"]]
    assert ("Status", "Open - Not Contacted", "Won") in history


def test_the_description_tells_what_can_be_written(library: Salesforce) -> None:
    fields = {field["name"]: field for field in leads(library).describe()["fields"]}
    assert fields["Status"]["updateable"]
    assert not fields["Full_Title__c"]["updateable"]
    assert fields["Full_Title__c"]["calculated"]
    assert fields["City"]["compoundFieldName"] == "Address"
    assert not fields["LastName"]["nillable"]
    assert leads(library).describe()["undeletable"]


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({"Colour__c": "red"}, "INVALID_FIELD"),
        ({"CreatedDate": "2020-01-01T00:00:00Z"}, "INVALID_FIELD_FOR_INSERT_UPDATE"),
        ({"Address": {"city": "Rome"}}, "INVALID_FIELD_FOR_INSERT_UPDATE"),
        ({"Full_Title__c": "x"}, "INVALID_FIELD_FOR_INSERT_UPDATE"),
        ({"LastName": None}, "REQUIRED_FIELD_MISSING"),
        ({"FirstName": "x" * 41}, "STRING_TOO_LONG"),
        ({"Tier__c": "Lead"}, "INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST"),
        ({"Email": "nobody"}, "INVALID_EMAIL_ADDRESS"),
        ({"AnnualRevenue": "much"}, "JSON_PARSER_ERROR"),
        ({"HasOptedOutOfEmail": None}, "JSON_PARSER_ERROR"),
        ({"OwnerId": "00Q5gQ000000000"}, "INVALID_CROSS_REFERENCE_KEY"),
        ({"OwnerId": "somebody"}, "MALFORMED_ID"),
    ],
)
def test_an_impossible_value_is_refused_and_nothing_of_the_patch_is_kept(
    library: Salesforce, lead: str, patch: dict[str, Any], code: str
) -> None:
    before = leads(library).get(lead)
    with pytest.raises(SalesforceMalformedRequest) as refused:
        leads(library).update(lead, {"Status": "Won", **patch})
    assert code_of(refused) == code
    assert leads(library).get(lead) == before


def test_a_record_answers_to_both_forms_of_its_id(library: Salesforce, lead: str) -> None:
    assert leads(library).get(lead[:15])["Id"] == lead
    assert leads(library).get(lead[:15].lower() + lead[15:])["Id"] == lead
    with pytest.raises(SalesforceResourceNotFound):
        leads(library).get(lead[:15].lower())
    with pytest.raises(SalesforceMalformedRequest) as malformed:
        leads(library).get("00Q123")
    assert code_of(malformed) == "MALFORMED_ID"


def test_the_guard_compares_to_the_second(library: Salesforce, server: LocalServer, lead: str) -> None:
    url = f"{library.base_url}sobjects/Lead/{lead}"
    read = library.session.get(url, headers=library.headers)
    last_modified = read.headers["Last-Modified"]
    assert "ETag" not in read.headers, "only accounts have entity tags"
    assert leads(library).update(lead, {"Rating": "Hot"}, headers={"If-Unmodified-Since": last_modified}) == 204
    with pytest.raises(SalesforceGeneralError) as late:
        leads(library).update(lead, {"Rating": "Cold"}, headers={"If-Unmodified-Since": last_modified})
    assert late.value.status == 412
    with pytest.raises(SalesforceMalformedRequest):
        leads(library).update(lead, {"Rating": "Cold"}, headers={"If-Unmodified-Since": "last Tuesday"})
    fresh = {**library.headers, "If-Modified-Since": format_datetime(datetime.now(UTC), usegmt=True)}
    assert library.session.get(url, headers=fresh).status_code == 304


def test_the_guard_lets_a_second_save_in_the_named_second_pass(
    library: Salesforce, server: LocalServer, lead: str
) -> None:
    """The vendor calls this validation weak; a client must not take it for more."""
    server.act("stop_clock")
    server.act("edit", object_id=lead, fields={"Rating": "Hot"})
    url = f"{library.base_url}sobjects/Lead/{lead}"
    guard = {"If-Unmodified-Since": library.session.get(url, headers=library.headers).headers["Last-Modified"]}
    server.act("edit", object_id=lead, fields={"Rating": "Warm"})
    assert leads(library).update(lead, {"Rating": "Cold"}, headers=guard) == 204


def test_an_account_is_guarded_by_its_entity_tag(library: Salesforce, server: LocalServer) -> None:
    account = server.act("create", object_type="Account", fields={"Name": "Acme"})["id"]
    url = f"{library.base_url}sobjects/Account/{account}"
    tag = library.session.get(url, headers=library.headers).headers["ETag"]
    server.act("edit", object_id=account, fields={"Phone": "1"})
    accounts = cast("SFType", library.Account)
    with pytest.raises(SalesforceGeneralError) as late:
        accounts.update(account, {"Phone": "2"}, headers={"If-Match": tag})
    assert late.value.status == 412
    tag = library.session.get(url, headers=library.headers).headers["ETag"]
    answer = accounts.update(account, {"Phone": "2"}, headers={"If-Match": f'"other", {tag}'}, raw_response=True)
    assert cast("requests.Response", answer).headers["ETag"] != tag


def test_a_deleted_record_lies_in_the_recycle_bin_with_its_children(library: Salesforce, server: LocalServer) -> None:
    account = server.act("create", object_type="Account", fields={"Name": "Acme"})["id"]
    contact = server.act("create", object_type="Contact", fields={"LastName": "Bo", "AccountId": account})["id"]
    cast("SFType", library.Account).delete(account)
    assert set(server.snapshot()["recycle_bin"]) == {account, contact}
    with pytest.raises(SalesforceResourceNotFound) as gone:
        cast("SFType", library.Contact).update(contact, {"Title": "x"})
    assert code_of(gone) == "ENTITY_IS_DELETED"
    server.act("undelete", object_id=account)
    assert set(server.snapshot()["records"]) == {account, contact}
    cast("SFType", library.Contact).delete(contact)
    server.act("purge")
    with pytest.raises(SalesforceResourceNotFound) as purged:
        cast("SFType", library.Contact).get(contact)
    assert code_of(purged) == "NOT_FOUND"


def test_a_rule_blocks_and_a_flow_rewrites_every_save(library: Salesforce, server: LocalServer, lead: str) -> None:
    server.act("add_flow", object_type="Lead", when={"Status": "Won"}, sets={"Rating": "Hot"})
    server.act(
        "add_validation_rule",
        object_type="Lead",
        name="Hot_leads_have_a_phone",
        message="Give a hot lead a phone number",
        when={"Rating": "Hot", "Phone": None},
        field="Phone",
    )
    with pytest.raises(SalesforceMalformedRequest) as blocked:
        leads(library).update(lead, {"Status": "Won"})
    assert code_of(blocked) == "FIELD_CUSTOM_VALIDATION_EXCEPTION"
    with pytest.raises(ValueError, match="Give a hot lead a phone number"):
        server.act("edit", object_id=lead, fields={"Status": "Won"})
    leads(library).update(lead, {"Status": "Won", "Phone": "555"})
    assert leads(library).get(lead)["Rating"] == "Hot"


def test_assignment_rules_run_unless_the_header_forbids_it(library: Salesforce, server: LocalServer, lead: str) -> None:
    server.act("add_assignment_rule", object_type="Lead", owner="sam")
    owner = leads(library).get(lead)["OwnerId"]
    leads(library).update(lead, {"Rating": "Hot"}, headers={"Sforce-Auto-Assign": "FALSE"})
    assert leads(library).get(lead)["OwnerId"] == owner
    leads(library).update(lead, {"Rating": "Cold"})
    assert leads(library).get(lead)["OwnerId"] == server.snapshot()["users"]["sam"]


def test_a_locked_row_is_refused_until_the_lock_is_gone(library: Salesforce, server: LocalServer, lead: str) -> None:
    server.act("lock_row", object_id=lead)
    with pytest.raises(SalesforceMalformedRequest) as locked:
        leads(library).update(lead, {"Rating": "Hot"})
    assert code_of(locked) == "UNABLE_TO_LOCK_ROW"
    assert leads(library).update(lead, {"Rating": "Hot"}) == 204


def test_the_daily_allowance_ends(library: Salesforce, server: LocalServer, lead: str) -> None:
    server.act("spend_calls", left=1)
    assert library.limits()["DailyApiRequests"] == {"Max": 15000, "Remaining": 0}
    assert library.api_usage["api-usage"].used == library.api_usage["api-usage"].total
    with pytest.raises(SalesforceRefusedRequest) as refused:
        leads(library).get(lead)
    assert code_of(refused) == "REQUEST_LIMIT_EXCEEDED"


def test_an_expired_session_is_refused_and_the_library_logs_in_again(
    library: Salesforce, wire: Session, server: LocalServer, lead: str
) -> None:
    secrets = server.act("credential")
    renewing = Salesforce(
        consumer_key=secrets["client_id"], consumer_secret=secrets["client_secret"], domain="org", session=wire
    )
    server.act("expire_sessions")
    with pytest.raises(SalesforceExpiredSession) as expired:
        leads(library).get(lead)
    assert code_of(expired) == "INVALID_SESSION_ID"
    assert leads(renewing).get(lead)["Id"] == lead
    assert server.snapshot()["logins"] == 2


def test_composite_calls_share_answers_and_a_transaction(library: Salesforce, server: LocalServer) -> None:
    path = f"/services/data/v{library.sf_version}/sobjects"
    create = {
        "method": "POST",
        "url": f"{path}/Account",
        "referenceId": "made",
        "body": {"Name": "Acme"},
    }
    read = {"method": "GET", "url": f"{path}/Account/@{{made.id}}?fields=Name", "referenceId": "read"}
    fail = {"method": "PATCH", "url": f"{path}/Account/@{{made.id}}", "referenceId": "fail", "body": {"Nope": 1}}

    def send(*requests: dict[str, Any], all_or_none: bool) -> list[dict[str, Any]]:
        body = {"allOrNone": all_or_none, "compositeRequest": requests}
        answer = cast("dict[str, Any]", library.restful("composite", method="POST", json=body))
        return cast("list[dict[str, Any]]", answer["compositeResponse"])

    halted = send(create, fail, read, all_or_none=True)
    assert [each["httpStatusCode"] for each in halted] == [400, 400, 400]
    assert [each["body"][0]["errorCode"] for each in halted] == [
        "PROCESSING_HALTED",
        "INVALID_FIELD",
        "PROCESSING_HALTED",
    ]
    assert server.snapshot()["records"] == {}
    single = send(create, fail, read, all_or_none=False)
    assert [each["httpStatusCode"] for each in single] == [201, 400, 200]
    assert single[2]["body"]["Name"] == "Acme"


def test_an_answer_can_be_lost_after_the_effect(library: Salesforce, server: LocalServer, lead: str) -> None:
    server.arm("drop", on="PATCH /services/data/*/sobjects/Lead/*", when="after")
    with pytest.raises(requests.ConnectionError):
        leads(library).update(lead, {"Status": "Won"})
    assert leads(library).get(lead)["Status"] == "Won"
    server.arm("drop", on="PATCH /services/data/*/sobjects/Lead/*")
    with pytest.raises(requests.ConnectionError):
        leads(library).update(lead, {"Status": "Closed - Not Converted"})
    assert leads(library).get(lead)["Status"] == "Won"


def test_a_server_error_says_nothing_about_the_effect(library: Salesforce, server: LocalServer, lead: str) -> None:
    on = "PATCH /services/data/*/sobjects/Lead/*"
    server.arm("answer", on=on, status=500)
    with pytest.raises(SalesforceGeneralError) as failed:
        leads(library).update(lead, {"Rating": "Hot"})
    assert code_of(failed) == "UNKNOWN_EXCEPTION"
    assert leads(library).get(lead)["Rating"] is None
    server.arm("answer", on=on, status=500, when="after")
    with pytest.raises(SalesforceGeneralError):
        leads(library).update(lead, {"Rating": "Hot"})
    assert leads(library).get(lead)["Rating"] == "Hot"


def test_somebody_can_act_between_two_requests(library: Salesforce, server: LocalServer, lead: str) -> None:
    edit = {"move": "edit", "facts": {"object_id": lead, "fields": {"Rating": "Warm"}}}
    server.act("arrange", on="GET /services/data/*/sobjects/Lead/*", nth=2, moves=[edit])
    assert leads(library).get(lead)["Rating"] is None
    assert leads(library).get(lead)["Rating"] == "Warm"


def test_a_server_process_of_its_own_serves_the_same_org() -> None:
    with LocalServer.in_process("salesforce") as server:
        made = server.act("create", object_type="Opportunity", fields=OPPORTUNITY)["id"]
        record = server.snapshot()["records"][made]
        assert record["StageName"] == "Prospecting"
        with pytest.raises(ValueError, match="REQUIRED_FIELD_MISSING"):
            server.act("create", object_type="Opportunity", fields={"Name": "no stage"})
        server.reset()
        assert server.snapshot()["records"] == {}
