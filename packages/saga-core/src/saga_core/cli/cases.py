"""Settle what only a person can: list, show, claim, release and resolve cases.

A case is opened where the engine may not go on alone: somebody changed what was to be undone, an undo failed too
often, nobody could tell whether a call landed. `resolve --how retry` lets `saga recover` go on with the step; `--how
undone` says that nothing of it stands any more, `--how left` that it stands on purpose. The log keeps the evidence.

exit codes: 0 ok, 1 failed, 2 usage, 3 no such store or case, 4 a case is open (list, show), 5 it is settled already, or
somebody else is at it, or a live process owns the saga, 6 its log is damaged
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from saga_core import cases
from saga_core.cli import place
from saga_core.cli.ending import Exit, Stop
from saga_core.cli.lookup import resolve
from saga_core.cli.masking import mask, shown
from saga_core.cli.wording import age, moment, print_json
from saga_core.clock import SYSTEM

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from saga_core.cases import Case
    from saga_core.stores.store import Backend


def configure(parser: ArgumentParser) -> None:
    """Declare the verbs and their options."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, what in (
        ("list", "what waits for a person, oldest saga first"),
        ("show", "one case, and how it was settled"),
        ("claim", "tell others that somebody is at it"),
        ("release", "tell others that nobody is at it any more"),
        ("resolve", "settle it, with evidence"),
    ):
        made = verbs.add_parser(name, help=what, description=what)
        place.add_option(made)
        made.add_argument("--json", action="store_true", help="data for programs")
        if name != "list":
            made.add_argument("id", metavar="ID", help="SAGA:NUMBER as listed; a prefix of the saga's id will do")
        if name in {"claim", "resolve"}:
            made.add_argument("--by", required=True, metavar="NAME", help="who; kept in the log")
        if name == "resolve":
            made.add_argument("--how", required=True, choices=("retry", "undone", "left"), help="see above")
            made.add_argument("--evidence", required=True, metavar="TEXT", help="how it is known; kept in the log")


def run(options: Namespace) -> Exit:
    """Do what the verb says."""
    logging.getLogger("saga_core").setLevel(logging.ERROR)  # what a writer should know of the place is not news here
    store = place.standing(options.store)
    if options.verb == "list":
        return _list(store, options)
    saga, colon, number = options.id.partition(":")
    if not colon:
        raise Stop(Exit.USAGE, f"{shown(options.id)} names no case: SAGA:NUMBER, see saga cases list")
    named = f"{resolve(store, saga)}:{number}"
    try:
        match options.verb:
            case "claim":
                found = cases.claim(store, named, by=options.by)
            case "release":
                found = cases.release(store, named)
            case "resolve":
                found = cases.resolve(store, named, by=options.by, how=options.how, evidence=options.evidence)
            case _:
                found = cases.get(store, named)
    except ValueError as wrong:
        raise Stop(Exit.USAGE, str(wrong)) from None
    if options.json:
        print_json({"schema_version": 1, "store": place.name_of(store), **_document(found)})
    else:
        _print(store, found)
    return Exit.NEEDS_PERSON if options.verb == "show" and found.resolved is None else Exit.OK


def _list(store: Backend, options: Namespace) -> Exit:
    found = cases.open_cases(store)
    if options.json:
        print_json({"schema_version": 1, "store": place.name_of(store), "cases": [_document(one) for one in found]})
    else:
        for one in found:
            print(f"{one.id}  {_what(one)}  {shown(one.words)}  {_age(one)}{_who(one)}")
        if not found:
            print(f"no case is open in {place.name_of(store)}")
    return Exit.NEEDS_PERSON if found else Exit.OK


def _print(store: Backend, one: Case) -> None:
    lines = [("case", one.id), ("saga", shown(one.name) + ("" if one.key is None else f", key {shown(one.key)}"))]
    lines += [("about", _what(one)), ("why", shown(one.words)), ("opened", _age(one) + _who(one))]
    if one.resolved is None:
        lines.append(("next", f"saga show {one.saga_id}, then: saga cases resolve {one.id} --by NAME --how HOW"))
    else:
        by = "" if one.by is None else f" by {shown(one.by)}: {shown(one.evidence or '')}"
        lines.append(("settled", f"{one.resolved}{by}"))
        reading = store.read(one.saga_id)
        if reading is not None and not reading.settled:
            lines.append(("next", "saga recover" if one.resolved == "retry" else f"saga show {one.saga_id}"))
    for label, text in lines:
        print(f"{label:<9}{text}")


def _what(one: Case) -> str:
    if one.action is None:
        return "the saga"
    money = "" if one.amount is None else f", {one.amount} {shown(one.currency or '')}"
    return f"step {one.step} {shown(one.action)}{money}"


def _age(one: Case) -> str:
    return f"{age(SYSTEM.wall() - int(one.opened_at.timestamp() * 1_000_000_000))} ago"


def _who(one: Case) -> str:
    return "" if one.claimed_by is None else f", {shown(one.claimed_by)} is at it"


def _document(one: Case) -> dict[str, Any]:
    return {
        "id": one.id,
        "saga": one.saga_id,
        "name": mask(one.name),
        "key": None if one.key is None else mask(one.key),
        "words": mask(one.words),
        "action": None if one.action is None else mask(one.action),
        "step": one.step,
        "state": one.state,
        "amount": None if one.amount is None else str(one.amount),
        "currency": one.currency,
        "opened_at": moment(int(one.opened_at.timestamp() * 1_000_000_000)),
        "claimed_by": None if one.claimed_by is None else mask(one.claimed_by),
        "resolved": one.resolved,
        "by": None if one.by is None else mask(one.by),
        "evidence": None if one.evidence is None else mask(one.evidence),
    }
