"""Every request of broker and name server with each kind of credentials: done or refused."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from pyrmq.auth.table import NEEDS
from pyrmq.model.codes import RequestCode as Code
from tests.auth.unit.commands import command
from tests.auth.unit.samples import SAMPLES
from tests.auth.unit.stage import ALICE, DONE, REFUSED, ROOT, Stage

ROOT_FOLDER = Path(__file__).resolve().parents[3]


def test_every_request_of_the_servers_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new request comes with a decision: who may make it."""
    monkeypatch.syspath_prepend(str(ROOT_FOLDER / "scripts"))
    tables = importlib.import_module("request_tables")
    taken = {code for processors in tables.servers() for code in processors}
    assert taken == set(NEEDS), "pyrmq.auth.table has a row for every request, and for no other"


def test_every_row_has_a_sample() -> None:
    assert set(SAMPLES) == set(NEEDS)


@pytest.mark.parametrize("code", [pytest.param(code, id=Code(code).name) for code in SAMPLES])
def test_needs(code: int) -> None:
    ext, body, wanted = SAMPLES[code]
    assert {str(need) for need in NEEDS[code].find(command(code, ext, body), "C")} == wanted


def entry(need: str) -> dict[str, Any]:
    """The entry that gives one of the actions of a need."""
    actions, resource = need.split(" on ")
    return {"resource": resource, "actions": [actions.split("/")[-1]]}


@pytest.mark.parametrize("code", [pytest.param(code, id=Code(code).name) for code in SAMPLES])
async def test_who_may(code: int, stage: Stage) -> None:
    ext, body, wanted = SAMPLES[code]
    stage.user(*ALICE)

    def asked(by: tuple[str, str] | None) -> int | None:
        return stage.ask(command(code, ext, body, by=by))

    none = DONE if not wanted else REFUSED
    assert asked(None) == REFUSED
    assert asked((ALICE[0], "wrong")) == REFUSED
    assert asked(ALICE) == none
    assert len(stage.called) == (not wanted)
    if wanted:  # all but one of what is needed, for any one of them
        for left_out in wanted:
            entries = [entry(need) for need in wanted - {left_out}]
            stage.allow("alice", {"resource": "Topic:other", "actions": ["All"]}, *entries)
            assert asked(ALICE) == REFUSED
        assert not stage.called
        stage.access.acls.take({})
        stage.allow("alice", *map(entry, wanted))
        assert asked(ALICE) == DONE
    stage.access.acls.take({})
    stage.allow("alice", {"resource": "Cluster:*", "actions": ["Get", "Update"]})
    of_cluster = all("Cluster:" in need for need in wanted)
    assert asked(ALICE) == (DONE if of_cluster else REFUSED)
    stage.called.clear()
    assert asked(ROOT) == DONE
    assert len(stage.called) == 1


async def test_a_request_without_a_row_is_for_super_users(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(NEEDS, Code.GET_MAX_OFFSET)
    stage.user(*ALICE)
    stage.allow("alice", {"resource": "*", "actions": ["All"]})
    assert stage.ask(command(Code.GET_MAX_OFFSET, {"topic": "T"}, by=ALICE)) == REFUSED
    assert stage.ask(command(Code.GET_MAX_OFFSET, {"topic": "T"}, by=ROOT)) == DONE


async def test_what_no_server_takes_is_not_supported_but_for_strangers(stage: Stage) -> None:
    stage.user(*ALICE)
    assert stage.ask(command(400_000)) == REFUSED
    assert stage.ask(command(400_000, by=(ALICE[0], "wrong"))) == REFUSED
    for by in (ALICE, ROOT):
        assert stage.ask(command(400_000, by=by)) == 3
