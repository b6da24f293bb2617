"""`pyrmq admin namesrv`."""

from __future__ import annotations

import json

from pyrmq.server import Running
from tests.support.mqadmin import admin
from tests.support.scripted.replicas import DEAD


async def test_configuration(embedded: Running) -> None:
    got = await admin(embedded.namesrv, "namesrv", "config", "get", "-o", "json")
    assert got.code == 0, got.err
    ((server, config),) = json.loads(got.out).items()
    assert server == embedded.namesrv
    assert "orderMessageEnable" in config
    done = await admin(embedded.namesrv, "namesrv", "config", "set", "orderMessageEnable", "true")
    assert done.code == 0, done.err
    table = await admin(embedded.namesrv, "namesrv", "config", "get")
    assert [server, "orderMessageEnable", "true"] in [line.split() for line in table.lines]
    half = await admin(f"{embedded.namesrv};{DEAD}", "namesrv", "config", "get", "-o", "json")
    assert (half.code, list(json.loads(half.out))) == (3, [server])
    assert DEAD in half.err
    refused = await admin(embedded.namesrv, "namesrv", "config", "set", "kvConfigPath", "/x")
    assert refused.code == 2


async def test_values(embedded: Running) -> None:
    for key in ("a", "b"):
        put = await admin(embedded.namesrv, "namesrv", "kv", "put", "Space", key, f"value-{key}")
        assert put.code == 0, put.err
    one = await admin(embedded.namesrv, "namesrv", "kv", "get", "Space", "a", "-o", "json")
    assert json.loads(one.out) == {"a": "value-a"}
    everything = await admin(embedded.namesrv, "namesrv", "kv", "get", "Space", "-o", "json")
    assert json.loads(everything.out) == {"a": "value-a", "b": "value-b"}
    assert (await admin(embedded.namesrv, "namesrv", "kv", "delete", "Space", "a")).code == 1
    gone = await admin(embedded.namesrv, "namesrv", "kv", "delete", "Space", "a", "--yes")
    assert gone.code == 0
    assert (await admin(embedded.namesrv, "namesrv", "kv", "get", "Space", "a")).code == 2
    assert (await admin(embedded.namesrv, "namesrv", "kv", "put", "Space", "a", " ")).code == 1


async def test_permissions(embedded: Running) -> None:
    await admin(embedded.namesrv, "topic", "create", "T", "-c", "DefaultCluster")
    wipe = ("namesrv", "write-perm", "wipe", "broker-a")
    assert (await admin(embedded.namesrv, *wipe)).code == 1
    wiped = await admin(embedded.namesrv, *wipe, "--yes", "-o", "json")
    assert wiped.code == 0, wiped.err
    (row,) = json.loads(wiped.out)
    assert (row["ok"], row["topics"] > 0) == (True, True)
    added = await admin(embedded.namesrv, "namesrv", "write-perm", "add", "broker-a")
    assert added.lines[1].split()[1:3] == ["ok", str(row["topics"])]
    nobody = await admin(embedded.namesrv, "namesrv", "write-perm", "add", "nobody")
    assert nobody.code == 0
    assert "not an address" in nobody.err
