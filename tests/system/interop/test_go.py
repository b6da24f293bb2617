"""The Go client v2.1.2 against our server, alone and together with the Java client."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from . import checks
from .drivers import Driver, body
from .txn import serving


def test_sends_and_consumes(go: Driver, topic: str, group: str) -> None:
    sent = go.run("produce", topic=topic, group="P-" + group, count=60, large=300_000).sent
    checks.sent_well(sent, 60)
    received = go.run("consume", topic=topic, group=group, count=60).received
    checks.arrived(sent, received)
    checks.stored_in_order_of_sending(sent, received)
    assert {len(body(line)) for line in received if line["sysFlag"] & checks.COMPRESSED}


def test_tags_select_messages(go: Driver, topic: str, group: str) -> None:
    sent = go.run("produce", topic=topic, group="P-" + group, count=48).sent
    wanted = [line for line in sent if line["tags"] in ("TagA", "TagC")]
    report = go.run("consume", topic=topic, group=group, filter="TagA || TagC", count=len(wanted))
    checks.arrived(wanted, report.received)


def test_sql_selects_messages(go: Driver, tmp_path: Path, topic: str, group: str) -> None:
    with serving(tmp_path, "enablePropertyFilter=true\n", "") as server:
        go = dataclasses.replace(go, namesrv=server.namesrv, alive=server.state)
        sent = go.run("produce", topic=topic, group="P-" + group, count=40).sent
        wanted = [line for line in sent if line["index"] > 25 and line["tags"] == "TagB"]
        sql = "index > 25 AND TAGS = 'TagB'"
        run = go.run(
            "consume", topic=topic, group=group, sql=sql, count=len(wanted), deliveries=len(wanted)
        )
        checks.arrived(wanted, run.received)
        assert len(run.received) == len(wanted)


def test_batches(go: Driver, topic: str, group: str) -> None:
    """The Go client gives the messages of a batch no ids of their own."""
    report = go.run("produce-batch", topic=topic, group="P-" + group, count=47, size=10)
    checks.batches_consecutive(report, [10, 10, 10, 10, 7])
    checks.sent_well(report.sent, 47)
    checks.arrived(report.sent, go.run("consume", topic=topic, group=group, count=47).received)


def test_oneway(go: Driver, topic: str, group: str) -> None:
    sent = go.run("produce-oneway", topic=topic, group="P-" + group, count=40).sent
    assert len(sent) == 41, "the last one was not sent oneway"
    received = go.run("consume", topic=topic, group=group, count=41).received
    checks.arrived_by_id(sent, received)


def test_group_goes_on_where_it_stopped(go: Driver, topic: str, group: str) -> None:
    """Between two runs of a group nothing is lost.

    The Go client may stop before the offsets of its last messages are recorded: repeats are
    allowed.
    """
    first = go.run("produce", topic=topic, group="P-" + group, count=24).sent
    checks.arrived(first, go.run("consume", topic=topic, group=group, count=24).received)
    second = go.run("produce", topic=topic, group="P-" + group, count=24, label="second").sent
    new = {(line["queueId"], line["queueOffset"]) for line in second}
    received = go.run("consume", topic=topic, group=group, count=24).received
    found = [line for line in received if (line["queueId"], line["queueOffset"]) in new]
    checks.arrived(second, found)


def test_java_sends_go_consumes(java: Driver, go: Driver, topic: str, group: str) -> None:
    sent = java.run("produce", topic=topic, group="P-" + group, count=24, large=300_000).sent
    sent += java.run("produce-batch", topic=topic, group="P-" + group, count=12, size=5).sent
    received = go.run("consume", topic=topic, group=group, count=36).received
    checks.arrived(sent, received)


def test_go_sends_java_consumes(go: Driver, java: Driver, topic: str, group: str) -> None:
    sent = go.run("produce", topic=topic, group="P-" + group, count=24, large=300_000).sent
    sent += go.run("produce-batch", topic=topic, group="P-" + group, count=12, size=5).sent
    received = java.run("consume", topic=topic, group=group, count=36).received
    checks.arrived(sent, received)
    checks.first_deliveries_in_order(received)
