"""`pyrmq bench pop` against a broker that is scripted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyrmq.bench.options import GROUP, OptionError, Options
from pyrmq.bench.result import Result
from pyrmq.bench.run import run
from pyrmq.bench.text import report
from tests.bench.lying import LyingBroker
from tests.bench.popping import PoppedBroker
from tests.support.scripted.sockets import SocketServer
from tests.support.wire import Command


def measured(broker: LyingBroker, **options: Any) -> Result:
    own = {"connections": 1, "in_flight": 4, "queues": 2, "size": "16", "settle": 2.0}
    own |= {"rate": 2000.0, "verify": True}
    with SocketServer(broker).serving() as address:
        return run(Options("pop", address=address, **{**own, **options}))


def test_what_is_popped_is_acknowledged_with_the_broker_s_handle() -> None:
    broker = PoppedBroker()
    found = measured(broker, count=100, consumers=2, invisible_time=30.0, max_msgs=8, group="G")
    v = found.verify
    assert v is not None
    assert (v.sent, v.received, v.lost, v.twice, v.foreign) == (100, 100, 0, 0, 0)
    assert (found.ended, found.messages, found.errors) == ("count", 100, [])
    assert set(found.latency) == {"request", "end_to_end", "ack"}
    assert found.latency["end_to_end"].count == found.latency["ack"].count == 100
    assert found.latency["end_to_end"].measured_from == "due"
    assert found.latency["ack"].measured_from == "sent"
    assert "latency      ACK_MESSAGE: p50" in report(found)
    # Each message once, by what the broker knows it by.
    assert sorted(c.ext["extraInfo"] for c in broker.acks) == sorted(broker.handles)
    for c in broker.acks:
        words = c.ext["extraInfo"].split(" ")
        assert (c.ext["queueId"], c.ext["offset"]) == (words[6], words[7])
        assert (c.ext["topic"], c.ext["consumerGroup"]) == ("PyrmqBench", "G")
    asked = {
        tuple(c.ext[k] for k in ("queueId", "maxMsgNums", "invisibleTime", "pollTime", "exp"))
        for c in broker.pops
    }
    assert asked == {("-1", "8", "30000", "15000", "*")}
    # Two connections popped.
    assert {c.ext["order"] for c in broker.pops} == {"false"}


@pytest.mark.parametrize("by_retry", [False, True])
def test_what_comes_again_after_its_invisible_time_is_twice(by_retry: bool) -> None:
    broker = PoppedBroker(again=3, by_retry=by_retry)
    found = measured(broker, count=100)
    v = found.verify
    assert v is not None
    assert (v.received, v.twice, v.lost, v.out_of_order) == (100, 3, 0, 0)
    # Those too are acknowledged, in the retry topic if they came from there.
    assert sorted(c.ext["extraInfo"] for c in broker.acks) == sorted(broker.handles)
    retried = [c for c in broker.acks if c.ext["topic"] == f"%RETRY%{GROUP}_PyrmqBench"]
    assert len(retried) == (3 if by_retry else 0)
    # Only the first delivery counts for the latency.
    assert found.latency["end_to_end"].count == 100
    assert found.latency["ack"].count == 103


def test_an_acknowledgement_that_is_refused_is_an_error() -> None:
    broker = PoppedBroker()

    def refuse(c: Command) -> Command | None:
        broker.acks.append(c)
        if len(broker.acks) > 5:
            return c.reply(0)
        answer = c.reply(208)
        answer.remark = "offset is illegal"
        return answer

    broker.change[200051] = refuse
    found = measured(broker, count=50)
    (error,) = found.errors
    assert (error.code, error.name, error.count) == (208, "NO_MESSAGE", 5)
    assert error.first == "ACK_MESSAGE: offset is illegal"
    # A quick refusal does not flatter the others.
    assert (found.latency["refused"].count, found.latency["ack"].count) == (5, 45)


def test_an_answer_without_offsets_is_told() -> None:
    broker = PoppedBroker()
    pops: list[Command] = []

    def without(c: Command) -> Command | None:
        answer: Command = broker.usual(c)
        if answer.code == 0:
            pops.append(answer)
            answer.ext.pop("startOffsetInfo")
        return answer

    broker.change[200050] = without
    found = measured(broker, count=20, rate=100.0)
    (error,) = found.errors
    assert (error.kind, error.count) == ("protocol", len(pops))
    assert broker.acks == []


@pytest.mark.parametrize(
    ("group", "known", "placed"), [(GROUP, True, True), ("G", False, True), ("G", True, False)]
)
def test_where_a_group_begins(group: str, known: bool, placed: bool) -> None:
    """The harness's own group at the end of each queue; another one where it stopped."""
    broker = PoppedBroker()
    with SocketServer(broker).serving() as address:
        run(Options("send", address=address, count=20, queues=2, size="16"))
        before = {(group, "PyrmqBench", str(queue)): 7 for queue in range(2)} if known else {}
        broker.offsets.update(before)
        broker._taken.update({key[1:]: 7 for key in before})
        options = Options("pop", address=address, count=10, rate=1000.0, verify=True)
        options.queues, options.group, options.size = 2, group, "16"
        found = run(options)
    assert found.verify is not None
    assert (found.verify.received, found.verify.foreign) == (10, 0 if placed else 6)


def test_a_mixed_load_that_pops(tmp_path: Path) -> None:
    path = tmp_path / "load.toml"
    path.write_text("""
        [[producer]]
        topic = "MixedPop"
        rate = 1000
        size = "16"
        [[consumer]]
        topic = "MixedPop"
        kind = "pop"
        group = "billing"
    """)
    broker = PoppedBroker()
    with SocketServer(broker).serving() as address:
        options = Options("mixed", address=address, file=path, count=50, verify=True)
        found = run(options)
    assert found.verify is not None
    assert (found.verify.received, found.verify.lost) == (50, 0)
    assert {c.ext["consumerGroup"] for c in broker.acks} == {"billing"}
    assert {key[:2] for key in broker.offsets} == {("billing", "MixedPop")}


def test_a_broker_without_pop_is_told_with_the_code() -> None:
    with SocketServer(LyingBroker()).serving() as address:
        words = ["pop", "--address", address, "--count", "10", "--verify"]
        done = subprocess.run(
            [sys.executable, "-m", "pyrmq", "bench", *words],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "POP_MESSAGE (code 200050)" in done.stderr
    assert "REQUEST_CODE_NOT_SUPPORTED (3): it has no POP consumption" in done.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"serialize": "rocketmq"}, "200050, does not fit into a binary header"),
        ({"max_msgs": 33}, "--max-msgs must be 1 to 32"),
        ({"invisible_time": 0.01}, "--invisible-time must be 100ms to 12h"),
    ],
)
def test_what_a_pop_cannot_be(options: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        measured(PoppedBroker(), count=10, **options)
