"""Asks any broker what was recorded of Apache's, and says where it differs.

Texts may differ, and what a request answers that was let through: what is compared is whether it
was refused. A difference is a line for people: what was asked, and what both do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ..store import peer
from . import administration, decisions, signatures
from .records import path_of
from .requests import Request, every
from .signing import Session, loopback
from .table import Recorder
from .users import ACTIONS, CREDENTIALS, RIGHT, SUPER, Entry, Users, entry

NOT_SUPPORTED = 3
STRANGERS = {"absent", "unknown", "wrong", "disabled"}
"""Credentials that are refused whatever the request."""
REFUSED = "16 "
"""An answer with this code, and a word for the step that refused it. (16 alone is an answer to a
request that was let through.)"""
Differences = dict[str, str]
"""By what was asked: `Apache refuses`, `Apache lets through`, or both answers."""


def kept(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path_of(name).read_text())
    return record


def _passes(answer: str) -> bool:
    return not answer.startswith(REFUSED)


def _verdict(passes: bool) -> str:
    return "Apache lets through" if passes else "Apache refuses"


def _code(answer: str) -> str:
    return answer.split(" ")[0]


class Table:
    """The requests of the table. Needs the users of CREDENTIALS."""

    def __init__(self, address: peer.Address, users: Users) -> None:
        self._address = address
        self._recorder = Recorder(address, users)
        self._users = users
        self._rows = {
            (row["code"], row["variant"]): row for row in kept("access_apache_5_5")["requests"]
        }
        self.differences: Differences = {}

    def run(self) -> Differences:
        for number, request in enumerate(every()):
            row = self._rows[request.code, request.variant]
            self._strangers(request, row, loopback(number))
            self._recorder.prepare(request)
            answer = self._recorder.session.ask(request.command(), SUPER)
            # Who may do everything is answered 16 as well: a switch is off, a key is forbidden.
            other_reason = answer is not None and answer.code == 16
            if other_reason:
                self._note(request, "super", _code(row["answers"]["super"]) != "16", False)
            elif answer is None or answer.code != NOT_SUPPORTED:
                self._rights(request, row)
        self._recorder.session.close()
        return self.differences

    def _strangers(self, request: Request, row: Any, source: str) -> None:
        """Who is nobody, or no longer somebody."""
        session = Session(self._address, source)
        for who in STRANGERS:
            answer = session.ask(request.command(), CREDENTIALS[who])
            refused = answer is not None and answer.code in (16, NOT_SUPPORTED)
            self._note(request, who, refused == _passes(row["answers"][who]), not refused)
        session.close()

    def _rights(self, request: Request, row: Any) -> None:
        needs: dict[str, list[str]] = row["needs"]
        grants = {name: entry(name, actions[0]) for name, actions in needs.items()}
        for who in CREDENTIALS.keys() - STRANGERS - {"super"}:
            self._compare(request, who, who, grants.values(), _passes(row["answers"][who]))
        for resource, actions in needs.items():
            for action in ACTIONS:
                words = f"right with {action} on {resource}"
                entries = {**grants, resource: entry(resource, action)}.values()
                self._compare(request, "right", words, entries, action in actions)

    def _compare(
        self, request: Request, who: str, words: str, rights: Iterable[Entry], passes: bool
    ) -> None:
        self._recorder.prepare(request)
        if who == "right":
            self._users.allow(RIGHT, rights)
        answer = self._recorder.session.ask(request.command(), CREDENTIALS[who])
        refused = answer is not None and answer.code == 16
        if self._unreadable(request):
            refused = answer is not None and answer.code != 0
        self._note(request, words, refused == passes, not refused)

    def _unreadable(self, request: Request) -> bool:
        """Apache's answer to fields that it cannot read is a refusal; any error will do."""
        answers = self._rows[request.code, request.variant]["answers"]
        return bool(answers["super"] == "16 bad fields")

    def _note(self, request: Request, words: str, differs: bool, passed: bool) -> None:
        if differs:
            self.differences[f"{request.code} {request.variant}, {words}"] = _verdict(not passed)


def decided(address: peer.Address, users: Users) -> Differences:
    """The policies that speak against each other. Needs the user `right`."""
    found: Differences = {}
    rows = kept("access_apache_5_5")["decisions"]
    for row, now in zip(rows, decisions.record(address, users), strict=True):
        assert row["case"] == now["case"]
        passes, refusals = _passes(row["answer"]), "policies refused" in row
        if (_code(str(now["answer"])) != "16") != passes:
            found[row["case"]] = _verdict(passes)
        elif ("policies refused" in now) != refusals:
            found[f"{row['case']}: making the policy"] = _verdict(not refusals)
    return found


def signed(address: peer.Address) -> Differences:
    """The unusual signatures. Needs the user `admin`, and the topic."""
    found: Differences = {}
    rows = kept("access_apache_5_5")["signatures"]
    for row, now in zip(rows, signatures.record(address), strict=True):
        assert row["case"] == now["case"]
        if (_code(str(now["answer"])) != "16") != _passes(row["answer"]):
            found[row["case"]] = _verdict(_passes(row["answer"]))
    return found


def administered(address: peer.Address) -> Differences:
    """Requests 3001 to 3010: codes, and bodies without the passwords. Needs the users, `right` and
    `none` without policies."""
    found: Differences = {}
    rows = kept("auth_requests_apache_5_5")["steps"]
    for row, now in zip(rows, administration.record(address), strict=True):
        assert row["step"] == now["step"]
        theirs, ours = row["answer"], now["answer"]
        if not _same(theirs, ours):
            found[row["step"]] = f"Apache {theirs}, this {ours}"
    return found


def _same(theirs: Any, ours: Any) -> bool:
    """Where Apache's broker answers with an exception of Java any refusal will do."""
    if theirs["code"] == 1 and re.search(r"Exception|system error", theirs["remark"]):
        return bool(ours["code"] != 0)
    bodies = (_comparable(answer.get("body")) for answer in (theirs, ours))
    return theirs["code"] == ours["code"] and next(bodies) == next(bodies)


def _comparable(body: Any) -> Any:
    """Without passwords, and with the entries of a policy in one order."""
    if isinstance(body, list):
        return sorted((_comparable(each) for each in body), key=str)
    if isinstance(body, dict):
        return {key: _comparable(value) for key, value in body.items() if key != "password"}
    return body
