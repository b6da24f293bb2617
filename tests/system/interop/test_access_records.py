"""The records of what Apache answers with access control on (access/): complete, and still so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyrmq.model.codes import OWN_REQUESTS, RequestCode
from pyrmq.model.request_kinds import ABSENT_REQUESTS, ADMIN_REQUESTS

from . import toolchain
from .access import plain, requests, users
from .access.records import RECORDS, path_of
from .store import peer


def _kept(name: str) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(path_of(name).read_text())
    return kept


@pytest.fixture
def table() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _kept("access_apache_5_5")["requests"]
    return rows


def test_every_code_is_recorded(table: list[dict[str, Any]]) -> None:
    """A new code of Apache's needs a row of what Apache does with it."""
    known = {*map(int, RequestCode), *ABSENT_REQUESTS, *ADMIN_REQUESTS} - set(OWN_REQUESTS)
    assert not known - {row["code"] for row in table}


def test_rows_are_those_that_are_sent(table: list[dict[str, Any]]) -> None:
    """The table is of the requests that stand in the code now, with all credentials."""
    sent = {(request.code, request.variant) for request in requests.every()}
    assert sent == {(row["code"], row["variant"]) for row in table}
    assert {tuple(row["answers"]) for row in table} == {tuple(users.CREDENTIALS)}
    old = _kept("access_apache_4_9")["requests"]
    assert {tuple(row["answers"]) for row in old} == {tuple(plain.CREDENTIALS)}


def test_nobody_passes_without_a_signature(table: list[dict[str, Any]]) -> None:
    refused = {"absent": "no access key", "unknown": "unknown user", "wrong": "wrong signature"}
    for row in table:
        for name, kind in {**refused, "disabled": "disabled user"}.items():
            assert row["answers"][name] == f"16 {kind}", row


def test_a_right_that_suffices_is_recorded(table: list[dict[str, Any]]) -> None:
    """Who has the rights that `needs` states gets what a super user gets."""
    for row in table:
        assert all(row["needs"].values()), row
        assert row["answers"]["right"] == row["answers"]["super"], row
        lacks = bool(row["needs"])
        assert (row["answers"]["none"] != row["answers"]["super"]) == lacks, row


@pytest.mark.thorough("Apache's versions do not change: shows that the records are repeatable")
@pytest.mark.parametrize("name", RECORDS)
def test_apache_still_answers_so(name: str) -> None:
    if peer.VERSION != toolchain.NEWEST and "5_5" in name:
        pytest.skip("the record is of the newest version")
    again = RECORDS[name]()
    kept = _kept(name)
    for part, rows in again.parts.items():
        assert json.loads(json.dumps(rows)) == kept[part]
