"""Decisions of ACL 1.0 beside those of Apache RocketMQ 4.9.7, which were recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq.auth.plain.access import AccessDeniedError, PlainAccess
from pyrmq.net.client.credentials import Credentials
from tests.auth.unit.commands import check

DATA = Path(__file__).parents[2] / "support" / "data" / "access_apache_4_9.json"
RECORD: dict[str, Any] = json.loads(DATA.read_text("utf-8"))
TOPIC, GROUP, OTHER, PRODUCERS = "AccessTopic", "AccessGroup", "OtherGroup", "PG"
RETRY = f"%RETRY%{GROUP}"
HERE, WHITE, GLOBAL = "127.0.0.1", "127.0.0.3", "127.0.0.9"
REFUSALS = ("no access key", "unknown user", "wrong signature", "no default", "no admin")
"""How the record names what access control refuses; other answers come from behind it."""


def _heartbeat(**consumer: object) -> bytes:
    consumers = [consumer] if consumer else []
    return json.dumps({"clientID": "client@1", "consumerDataSet": consumers}).encode()


def _lock(topic: str) -> bytes:
    return json.dumps({"consumerGroup": GROUP, "mqSet": [{"topic": topic}]}).encode()


READ = {"topic": TOPIC, "consumerGroup": GROUP}
READ_RETRY = {"topic": RETRY, "consumerGroup": GROUP}
FIELDS: dict[tuple[int, str], tuple[dict[str, str], bytes]] = {
    (10, "fields"): ({"topic": TOPIC, "producerGroup": PRODUCERS}, b""),
    (10, "retry topic"): ({"topic": RETRY, "producerGroup": PRODUCERS}, b""),
    (10, "retry topic, group"): ({"topic": RETRY, "group": OTHER}, b""),
    (10, "retry topic, its group"): ({"topic": RETRY, "group": GROUP}, b""),
    (11, "fields"): (READ, b""),
    (11, "retry topic"): (READ_RETRY, b""),
    (12, "fields"): ({"topic": TOPIC}, b""),
    (12, "unique key"): ({"topic": TOPIC, "_UNIQUE_KEY_QUERY": "true"}, b""),
    (14, "fields"): (READ, b""),
    (14, "retry topic"): (READ_RETRY, b""),
    (15, "fields"): (READ, b""),
    (15, "retry topic"): (READ_RETRY, b""),
    (34, "consumer"): (
        {}, _heartbeat(groupName=GROUP, subscriptionDataSet=[{"topic": TOPIC}]),
    ),
    (34, "consumer, no topics"): ({}, _heartbeat(groupName=GROUP)),
    (34, "producer"): ({}, _heartbeat()),
    (35, "consumer"): ({"consumerGroup": GROUP}, b""),
    (35, "producer"): ({"producerGroup": PRODUCERS}, b""),
    (36, "fields"): ({"group": GROUP}, b""),
    (36, "another group"): ({"group": OTHER}, b""),
    (37, "topic"): ({"topic": TOPIC}, b""),
    (38, "fields"): ({"consumerGroup": GROUP}, b""),
    (41, "fields"): ({}, _lock(TOPIC)),
    (41, "retry topic"): ({}, _lock(RETRY)),
    (42, "fields"): ({}, _lock(TOPIC)),
    (310, "fields"): ({"b": TOPIC, "a": PRODUCERS}, b""),
    (310, "batch flag"): ({"b": TOPIC, "a": PRODUCERS}, b""),
    (310, "default topic"): ({"b": "TBW102", "a": PRODUCERS}, b""),
    (310, "no such topic"): ({"b": "NewTopic", "a": PRODUCERS}, b""),
    (310, "retry topic"): ({"b": RETRY, "a": PRODUCERS}, b""),
    (310, "retry topic, its group"): ({"b": RETRY, "a": GROUP}, b""),
    (310, "retry topic, no producer group"): ({"b": RETRY, "a": ""}, b""),
    (310, "retry topic, producer group"): ({"b": RETRY, "a": OTHER}, b""),
    (310, "trace topic"): ({"b": "RMQ_SYS_TRACE_TOPIC", "a": PRODUCERS}, b""),
    (320, "fields"): ({"b": TOPIC, "a": PRODUCERS}, b""),
    (320, "retry topic"): ({"b": RETRY, "a": PRODUCERS}, b""),
    (361, "fields"): (READ, b""),
}  # fmt: skip
"""What decides, of each request that was recorded; requests that are not here need nothing more
than an account, or an administrator."""
NO_BODY = (34, "no body")
"""Apache's broker fails at it before it looks at the signature."""

ACCOUNTS = {"nothing", "denied", "pub", "sub", "both", "defaults", "white"}
NO_SUB = {"nothing", "denied", "pub", "white"}
STRICTER: dict[tuple[int, str], set[str]] = {
    (10, "retry topic"): NO_SUB,
    (10, "retry topic, group"): {"denied"},
    (14, "fields"): NO_SUB,
    (14, "retry topic"): NO_SUB,
    (37, "topic"): {"nothing", "denied", "sub", "white"},
    (41, "fields"): NO_SUB,
    (41, "retry topic"): NO_SUB,
    (42, "fields"): NO_SUB,
    **{(50, variant): ACCOUNTS for variant in
       ("fields", "odd permission", "short key", "short secret")},
    (51, "fields"): ACCOUNTS,
    (51, "again"): ACCOUNTS,
    (52, "fields"): ACCOUNTS,
    (53, "fields"): ACCOUNTS,
    (54, "fields"): ACCOUNTS,
    (222, "fields"): ACCOUNTS,
    (310, "retry topic"): {"denied"},
    (310, "retry topic, no producer group"): {"denied"},
    (310, "retry topic, producer group"): {"denied"},
    (320, "fields"): {"nothing", "denied", "sub", "white"},
    (320, "retry topic"): NO_SUB,
    (361, "fields"): NO_SUB,
}  # fmt: skip
"""Who is refused here, and not by Apache's broker: docs/differences.md says why."""
LAXER: dict[tuple[int, str], set[str]] = {
    # The group of the retry topic counts, not that of the producer, which consumers do not choose.
    (10, "retry topic, group"): {"sub", "both"},
    (310, "retry topic"): {"sub", "both"},
    (310, "retry topic, no producer group"): {"sub", "both"},
    (310, "retry topic, producer group"): {"sub", "both"},
    # The record signs this field as well, as clients from 4.9.4 on do.
    (12, "unique key"): {"sub", "both", "defaults", "admin"},
}


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> PlainAccess:
    home = tmp_path_factory.mktemp("apache")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(RECORD["about"]["plain_acl.yml"])
    return PlainAccess(home)


def _who() -> Iterator[tuple[str, Credentials | None, str]]:
    """The credentials of the record, by name, and the address that they come from."""
    yield "absent", None, HERE
    yield "unknown", Credentials("account-unknown", "secret-of-unknown"), HERE
    yield "wrong", Credentials("account-admin", "another-secret"), HERE
    for name in sorted(ACCOUNTS | {"admin"}):
        yield name, Credentials(f"account-{name}", f"secret-of-{name}"), HERE
    white = Credentials("account-white", "another-secret")
    yield "white, wrong, from its address", white, WHITE
    yield "absent, from a white address of all", None, GLOBAL
    yield "absent, from the address of white", None, WHITE


ROWS = [pytest.param(row, id=f"{row['code']}-{row['variant']}") for row in RECORD["requests"]]


@pytest.mark.parametrize("row", ROWS)
def test_who_is_refused(access: PlainAccess, row: dict[str, Any]) -> None:
    key = row["code"], row["variant"]
    ext, body = FIELDS.get(key, ({}, b""))
    stricter, laxer = set(), set()
    for name, credentials, host in _who():
        signed = ext if credentials is None else credentials.signed(ext, body)
        theirs = any(word in row["answers"][name] for word in REFUSALS)
        try:
            check(access, row["code"], signed, body, host)
            ours = False
        except AccessDeniedError:
            ours = True
        if key == NO_BODY:
            assert ours == (name not in ("admin", "white, wrong, from its address")
                            and not name.startswith("absent, from a white"))  # fmt: skip
        elif ours != theirs:
            (stricter if ours else laxer).add(name)
    assert stricter == STRICTER.get(key, set())
    assert laxer == LAXER.get(key, set())


def test_the_tables_are_of_requests_that_were_recorded() -> None:
    recorded = {(row["code"], row["variant"]) for row in RECORD["requests"]}
    assert {*FIELDS, *STRICTER, *LAXER, NO_BODY} <= recorded
    assert len(recorded) == len(ROWS) >= 70
