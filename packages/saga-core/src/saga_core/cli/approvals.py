"""Answer for calls that wait for a person: list, show, approve, reject, revoke; and grant calls to come.

An approval is for exactly one call and good for one run of it; the first decision wins. `approve --edit NAME=JSON` lets
it run with other arguments, which the gate judges again. The call runs when its program goes on: in place if it waits
there, else when it is run again with the same key. `revoke` takes back an approval that is not used yet, or a grant.

exit codes: 0 ok, 1 failed, 2 usage, 3 no such store, request or grant, 4 something waits for a person (list, show), 5
it is decided, expired or used, or this person may not decide it
"""

from __future__ import annotations

import json
import logging
from argparse import ArgumentTypeError
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from saga_core import approvals
from saga_core.cli import place
from saga_core.cli.ending import Exit, Stop
from saga_core.cli.masking import mask, mask_value, shown
from saga_core.cli.span import span
from saga_core.cli.wording import age, brief, moment, print_json
from saga_core.clock import SYSTEM

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from datetime import datetime

    from saga_core.approvals import Approval
    from saga_core.permissions import Grant
    from saga_core.stores.store import Backend


def configure(parser: ArgumentParser) -> None:
    """Declare the verbs and their options."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(name: str, what: str) -> ArgumentParser:
        made = verbs.add_parser(name, help=what, description=what)
        place.add_option(made)
        made.add_argument("--json", action="store_true", help="data for programs")
        return made

    listing = verb("list", "what waits for a person, oldest first")
    listing.add_argument("--key", metavar="KEY", help="only of the saga with this key")
    for name, what in (
        ("show", "one request: exactly what would run, who asks and why, who decided"),
        ("approve", "let the call run once"),
        ("reject", "refuse the call, with a reason that a model can read"),
        ("revoke", "take back an approval that is not used yet, or a grant"),
    ):
        made = verb(name, what)
        made.add_argument("id", metavar="ID", help="a request's id, or a prefix that only it has")
        if name != "show":
            _add_person(made, is_reason_needed=name != "approve")
        if name == "approve":
            made.add_argument(
                "--edit", type=_edit, action="append", default=[], metavar="NAME=JSON", help="run with this argument"
            )
    made = verb("grant", "approve calls to come, where one person's approval is enough")
    made.add_argument("actions", metavar="PATTERN", help="which actions, as in 'billing.*'")
    made.add_argument(
        "--args", type=_pattern, action="append", default=[], metavar="PATH=PATTERN", help="only with this argument"
    )
    made.add_argument("--uses", type=_uses, metavar="N", help="for N calls (default: any number)")
    made.add_argument("--limit", nargs=2, metavar=("AMOUNT", "CURRENCY"), help="at most so much a call, in minor units")
    made.add_argument("--expires-in", type=span, default=span("1d"), metavar="TIME", help="as in 90, 30m, 8h (1d)")
    _add_person(made, is_reason_needed=True)
    verb("grants", "every grant, with its uses")


def _add_person(parser: ArgumentParser, *, is_reason_needed: bool) -> None:
    parser.add_argument("--by", required=True, metavar="NAME", help="who decides; kept in the log")
    parser.add_argument("--reason", required=is_reason_needed, metavar="TEXT", help="why; kept in the log")


def _edit(text: str) -> tuple[str, Any]:
    name, is_there, value = text.partition("=")
    try:
        return name, json.loads(value) if is_there else _none(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not NAME=JSON; text stands in quotes: NAME='\"text\"'") from None


def _none(text: str) -> Any:
    raise ValueError(text)


def _pattern(text: str) -> tuple[str, str]:
    path, is_there, pattern = text.partition("=")
    if not is_there or not path:
        raise ArgumentTypeError(f"{text!r} is not PATH=PATTERN")
    return path, pattern


def _uses(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number of calls")
    return int(text)


def run(options: Namespace) -> Exit:
    """Do what the verb says."""
    logging.getLogger("saga_core").setLevel(logging.ERROR)  # what a writer should know of the place is not news here
    store = place.standing(options.store)
    match options.verb:
        case "list":
            return _list(store, options)
        case "grants":
            return _grants(store, options)
        case "grant":
            return _grant(store, options)
        case _:
            return _one(store, options)


def _list(store: Backend, options: Namespace) -> Exit:
    waiting = approvals.pending(store, key=options.key)
    if options.json:
        print_json(
            {"schema_version": 1, "store": place.name_of(store), "approvals": [_document(one) for one in waiting]}
        )
    else:
        for one in waiting:
            print(f"{one.id}  {_call(one)}  {_asked(one)}  ({shown(one.reason)})")
        if not waiting:
            print(f"nothing waits for a person in {place.name_of(store)}")
    return Exit.NEEDS_PERSON if waiting else Exit.OK


def _one(store: Backend, options: Namespace) -> Exit:
    found = _request(store, options.id)
    if found is None:
        return _revoke_grant(store, options)
    match options.verb:
        case "approve":
            found = approvals.approve(
                store, found, by=options.by, reason=options.reason, edit=dict(options.edit) or None
            )
        case "reject":
            found = approvals.reject(store, found, by=options.by, reason=options.reason)
        case "revoke":
            found = approvals.revoke(store, found, by=options.by, reason=options.reason)
        case _:
            found = approvals.get(store, found)
    if options.json:
        print_json({"schema_version": 1, "store": place.name_of(store), **_document(found)})
    elif options.verb == "show":
        _print(found)
    else:
        print(f"{found.id} is {found.state}: {_call(found)}")
        _print_next(found)
    return Exit.NEEDS_PERSON if options.verb == "show" and found.state == "pending" else Exit.OK


def _request(store: Backend, prefix: str) -> str | None:
    """Return the id that a prefix names; None where no request has it.

    Raises:
        Stop: Several have it.
    """
    wanted = prefix.strip().lower()
    if store.permits.asked(wanted) is not None:
        return wanted
    found = [one.id for one in approvals.pending(store) if wanted and one.id.startswith(wanted)]
    if len(found) > 1:
        raise Stop(Exit.NOT_FOUND, f"{shown(prefix)} names {len(found)} requests: {', '.join(found)}")
    return found[0] if found else None


def _print(one: Approval) -> None:
    lines = [("request", one.id), ("state", one.state), ("call", shown(one.action))]
    lines += [("", f"{shown(name)} = {brief(value, name)}") for name, value in one.args.items()]
    if one.amount is not None:
        lines.append(("amount", f"{one.amount} {shown(one.currency or '')} (minor units)"))
    lines.append(("asked by", f"{shown(one.reason)}"))
    lines.append(("saga", one.saga_id + ("" if one.key is None else f", key {shown(one.key)}")))
    lines += [("before", shown(step)) for step in one.story]
    given = sum(decision["verdict"] == "approve" for decision in one.decisions)
    needs = f"{one.quorum} {'person' if one.quorum == 1 else 'different people'}, {given} so far"
    lines.append(("needs", needs + ("" if one.requester is None else f", not {shown(one.requester)}")))
    for decision in one.decisions:
        edit = "" if decision["edit"] is None else f", edited: {brief(decision['edit'])}"
        lines.append(
            ("decided", f"{decision['verdict']} by {shown(decision['by'])} ({shown(decision['reason'])}){edit}")
        )
    lines.append(("expires", _utc(one.expires_at)))
    for label, text in lines:
        print(f"{label:<10}{text}")
    _print_next(one)


def _print_next(one: Approval) -> None:
    again = "" if one.key is None else f", or run it again with the key {shown(one.key)}"
    if one.state == "pending":
        print(f"next      saga approvals approve {one.id} --by NAME, or reject {one.id} --by NAME --reason TEXT")
    elif one.state == "approved":
        print(f"next      it runs when its program goes on: wait{again}")


def _call(one: Approval) -> str:
    money = "" if one.amount is None else f" for {one.amount} {shown(one.currency or '')}"
    args = ", ".join(f"{shown(name)}={brief(value, name)}" for name, value in one.args.items())
    return f"{shown(one.action)}({args}){money}"


def _asked(one: Approval) -> str:
    return f"asked {age(SYSTEM.wall() - int(one.asked_at.timestamp() * 1e9))} ago"


def _utc(at: datetime) -> str:
    return moment(int(at.timestamp() * 1_000_000_000))


def _document(one: Approval) -> dict[str, Any]:
    return {
        "id": one.id,
        "state": one.state,
        "action": mask(one.action),
        "args": mask_value(dict(one.args)),
        "amount": None if one.amount is None else str(one.amount),
        "currency": None if one.currency is None else mask(one.currency),
        "reason": mask(one.reason),
        "saga": one.saga_id,
        "key": None if one.key is None else mask(one.key),
        "story": [mask(step) for step in one.story],
        "requester": None if one.requester is None else mask(one.requester),
        "quorum": one.quorum,
        "decisions": [
            {
                "by": mask(decision["by"]),
                "verdict": decision["verdict"],
                "reason": mask(decision["reason"]),
                "edit": mask_value(decision["edit"]),
                "at": _utc(decision["at"]),
            }
            for decision in one.decisions
        ],
        "asked_at": _utc(one.asked_at),
        "expires_at": _utc(one.expires_at),
    }


def _grant(store: Backend, options: Namespace) -> Exit:
    limit, currency = options.limit or (None, None)
    try:
        made = approvals.grant(
            store,
            options.actions,
            by=options.by,
            reason=options.reason,
            args=dict(options.args),
            uses=options.uses,
            limit=None if limit is None else Decimal(limit),
            currency=currency,
            expires_in=options.expires_in,
        )
    except (ValueError, InvalidOperation) as wrong:
        raise Stop(Exit.USAGE, f"nothing was granted: {wrong or 'the limit is no number'}") from None
    if options.json:
        print_json({"schema_version": 1, "store": place.name_of(store), **_grant_document(made)})
    else:
        print(_grant_line(made))
    return Exit.OK


def _grants(store: Backend, options: Namespace) -> Exit:
    found = approvals.grants(store)
    if options.json:
        print_json(
            {"schema_version": 1, "store": place.name_of(store), "grants": [_grant_document(one) for one in found]}
        )
    else:
        for one in found:
            print(_grant_line(one))
        if not found:
            print(f"nothing is granted in {place.name_of(store)}")
    return Exit.OK


def _revoke_grant(store: Backend, options: Namespace) -> Exit:
    known = {one.id for one in approvals.grants(store)}
    if options.verb != "revoke" or options.id not in known:
        raise Stop(
            Exit.NOT_FOUND, f"no request {shown(options.id)} in {place.name_of(store)}; see: saga approvals list"
        )
    taken = approvals.revoke_grant(store, options.id, by=options.by)
    if options.json:
        print_json({"schema_version": 1, "store": place.name_of(store), **_grant_document(taken)})
    else:
        print(_grant_line(taken))
    return Exit.OK


def _grant_line(one: Grant) -> str:
    args = "".join(f" with {shown(path)}={shown(pattern)}" for path, pattern in one.args.items())
    limit = "" if one.limit is None else f" up to {one.limit} {shown(one.currency or '')}"
    uses = f"used {one.used} times" if one.uses is None else f"used {one.used} of {one.uses}"
    state = f"until {moment(one.expires_at)}" if one.revoked_by is None else f"revoked by {shown(one.revoked_by)}"
    return f"{one.id}  {shown(one.actions)}{args}{limit}  {uses}, {state}, by {shown(one.by)} ({shown(one.reason)})"


def _grant_document(one: Grant) -> dict[str, Any]:
    return {
        "id": one.id,
        "actions": mask(one.actions),
        "args": mask_value(dict(one.args)),
        "uses": one.uses,
        "used": one.used,
        "limit": one.limit,
        "currency": one.currency,
        "expires_at": moment(one.expires_at),
        "by": mask(one.by),
        "reason": mask(one.reason),
        "revoked_by": None if one.revoked_by is None else mask(one.revoked_by),
    }
