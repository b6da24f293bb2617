"""Asks any broker what was recorded of Apache's, and says where it differs.

Texts may differ, and what a request answers that was let through: what is compared is whether it
was refused. A difference is a line for people: what was asked, and what both do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..store import peer
from . import administration, decisions, signatures
from .records import path_of
from .requests import Request, every
from .table import Recorder
from .users import ACTIONS, CREDENTIALS, RIGHT, Entry, Users, entry

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
        self._recorder = Recorder(address, users)
        self._users = users
        self._rows = {
            (row["code"], row["variant"]): row for row in kept("access_apache_5_5")["requests"]
        }
        self.differences: Differences = {}

    def run(self) -> Differences:
        for request in every():
            row = self._rows[request.code, request.variant]
            needs: dict[str, list[str]] = row["needs"]
            grants = {name: entry(name, actions[0]) for name, actions in needs.items()}
            for name, answer in row["answers"].items():
                self._compare(request, name, name, grants.values(), _passes(answer))
            for resource, actions in needs.items():
                for action in ACTIONS:
                    words = f"right with {action} on {resource}"
                    entries = {**grants, resource: entry(resource, action)}.values()
                    self._compare(request, "right", words, entries, action in actions)
        self._recorder.session.close()
        return self.differences

    def _compare(
        self, request: Request, who: str, words: str, rights: Iterable[Entry], passes: bool
    ) -> None:
        self._recorder.prepare(request)
        if who == "right":
            self._users.allow(RIGHT, rights)
        answer = self._recorder.session.ask(request.command(), CREDENTIALS[who])
        refused = answer is not None and answer.code == 16
        if refused == passes and not self._refused_for_another_reason(request):
            what = f"{request.code} {request.variant}, {words}"
            self.differences[what] = _verdict(passes)

    def _refused_for_another_reason(self, request: Request) -> bool:
        """Who may do everything is answered 16 as well: a switch is off, a key is forbidden."""
        row = self._rows[request.code, request.variant]
        return bool(row["answers"]["super"] == "16")


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
        theirs, ours = _of(row["answer"]), _of(now["answer"])
        if theirs != ours:
            found[row["step"]] = f"Apache {theirs}, this {ours}"
    return found


def _of(answer: Any) -> tuple[object, object]:
    return answer["code"], _without_passwords(answer.get("body"))


def _without_passwords(body: Any) -> Any:
    if isinstance(body, list):
        return [_without_passwords(each) for each in body]
    if isinstance(body, dict):
        return {key: value for key, value in body.items() if key != "password"}
    return body
