"""Each message is accounted for, by a broker that lies in known ways."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyrmq.bench.options import Options
from pyrmq.bench.result import BenchError, Result
from pyrmq.bench.run import run
from pyrmq.errors import ConnectError
from tests.bench.lying import END_TRANSACTION, HEART_BEAT, PULL, SEND, LyingBroker
from tests.support.records import decode_properties, encode_record
from tests.support.scripted.script import SILENCE
from tests.support.scripted.sockets import SocketServer
from tests.support.wire import Command


def measured(broker: LyingBroker, load: str = "send", **options: Any) -> Result:
    own = {"connections": 1, "in_flight": 1, "queues": 2, "size": "16", "settle": 2.0, **options}
    with SocketServer(broker).serving() as address:
        return run(Options(load, address=address, **own))


def test_what_is_lost_repeated_reordered_refused_and_unanswered_is_told() -> None:
    fates = {3: "lose", 10: "twice", 20: "swap", 30: "refuse", 31: "refuse", 40: "cheat"}
    fates |= {50: "silent", 60: "mute", 70: "lose"}
    broker = LyingBroker(lambda n: fates.get(n, "store"))
    # One queue: that of a swap is the next one's too.
    found = measured(broker, verify=True, count=100, queues=1, timeout=1.0)
    assert found.ended == "count"
    v = found.verify
    assert v is not None
    assert v.consumed
    assert (v.sent, v.acknowledged, v.refused, v.unknown) == (100, 95, 3, 2)
    assert (v.lost, v.twice, v.out_of_order) == (2, 1, 1)
    assert (v.received, v.unknown_received, v.refused_received, v.foreign) == (95, 1, 1, 0)
    errors = {(e.kind, e.name): (e.code, e.count) for e in found.errors}
    assert errors == {("code", "SYSTEM_BUSY"): (2, 3), ("timeout", "timed out"): (None, 2)}
    assert found.errors[0].first == "too busy"
    # Those that timed out count with the time they were waited for.
    assert found.latency["request"].count == 97
    # Quick refusals do not flatter the others.
    assert found.latency["refused"].count == 3
    assert found.latency["request"].max >= 1e6


def test_a_broker_that_dies_in_the_middle_and_comes_back() -> None:
    broker = LyingBroker(lambda n: "die" if n in (20, 50) else "store")
    found = measured(broker, verify=True, count=80, connections=2)
    v = found.verify
    assert v is not None
    assert (v.sent, v.acknowledged, v.unknown, v.lost) == (80, 78, 2, 0)
    assert v.received == 78
    assert (found.connections.lost, found.connections.reconnected) == (2, 2)
    assert [(e.kind, e.count) for e in found.errors] == [("connection-lost", 2)]
    assert found.messages == 78


def test_a_run_that_ends_with_the_connection() -> None:
    broker = LyingBroker(lambda n: "die" if n == 20 else "store")
    found = measured(broker, count=80, on_error="end")
    assert (found.ended, found.messages) == ("error", 20)
    assert "was lost" in found.why
    assert any(found.why in warning for warning in found.warnings)


class RepeatingBroker(LyingBroker):
    """A pull brings the first messages of the queue, wherever it begins."""

    repeats = True

    def usual(self, command: Command) -> Any:
        queue = self._queue(command) if command.code == PULL and self.repeats else []
        if not queue:
            return super().usual(command)
        end = int(command.ext["queueOffset"]) + len(queue)
        ext = self.bounds(command) | {"nextBeginOffset": str(end)}
        return command.reply(0, ext, b"".join(encode_record(r) for r in queue))


def test_a_broker_that_repeats_itself_is_not_waited_for() -> None:
    broker = RepeatingBroker(lambda n: "lose" if n == 3 else "store")
    options = {"verify": True, "count": 20, "queues": 1, "settle": 1.0}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(measured, broker, **options)
        try:
            found = running.result(timeout=60)
        finally:
            broker.repeats = False  # else a run that waits never ends
    v = found.verify
    assert v is not None
    assert (found.ended, v.sent, v.received, v.lost) == ("count", 20, 19, 1)
    assert v.twice > 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((1, {}, "no such queue"), "no such queue"),
        ((0, {"offset": "9" * 30}, None), "no offset came"),
        ((0, {}, None), "no offset came"),
    ],
)
def test_a_consumer_that_is_not_told_where_to_begin(
    answer: tuple[int, dict[str, str], str | None], why: str
) -> None:
    class Aimless(LyingBroker):
        honest = False

        def _max(self, c: Command) -> Command:
            if self.honest:
                return super()._max(c)
            reply = c.reply(*answer[:2])
            reply.remark = answer[2]
            return reply

    broker = Aimless()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(measured, broker, "push", duration=0.1, timeout=0.2)
        try:
            with pytest.raises(BenchError, match=f"did not begin: .*{why}"):
                running.result(timeout=60)
        finally:
            broker.honest = True  # else a run that asks again never ends


class Transactions(LyingBroker):
    """Keeps the ends of transactions, and answers them where `answers`."""

    def __init__(self, *, answers: bool) -> None:
        super().__init__()
        self.ends: list[Command] = []
        self._answers = answers

    def usual(self, command: Command) -> Any:
        if command.code != END_TRANSACTION:
            return super().usual(command)
        self.ends.append(command)
        return command.reply(0) if self._answers else SILENCE


@pytest.mark.parametrize("oneway", [True, False])
def test_the_end_of_a_transaction_is_oneway_if_that_was_asked_for(oneway: bool) -> None:
    broker = Transactions(answers=not oneway)
    found = measured(broker, "transaction", count=50, in_flight=4, oneway_end=oneway)
    assert len(broker.ends) == found.messages == 50
    if oneway:  # a request behind the last one: its answer says that the broker has read all
        codes = [c.code for c in broker.asked if c.code in (END_TRANSACTION, HEART_BEAT)]
        assert codes[-1] == HEART_BEAT
    assert {c.is_oneway for c in broker.ends} == {oneway}
    assert {c.ext["msgId"] for c in broker.ends} == {
        decode_properties(c.ext["i"])["UNIQ_KEY"] for c in broker.sends
    }
    assert found.errors == []
    assert set(found.latency) == ({"request"} if oneway else {"request", "commit"})


def test_codes_that_are_ever_new_are_told_together() -> None:
    class Codes(LyingBroker):
        def usual(self, command: Command) -> Any:
            answer = super().usual(command)
            if command.code == SEND:
                answer.code = 1000 + len(self.sends)
            return answer

    found = measured(Codes(), count=200)
    assert sum(error.count for error in found.errors) == 200
    further, *others = found.errors
    assert (further.kind, further.code, further.name) == ("code", None, "further codes")
    assert {error.count for error in others} == {1}
    assert further.count == 200 - len(others) > 100


def test_a_disk_that_is_full_is_named() -> None:
    found = measured(LyingBroker(lambda n: "full" if n >= 10 else "store"), count=30)
    (error,) = found.errors
    assert (error.code, error.name, error.count) == (14, "SERVICE_NOT_AVAILABLE", 20)
    assert error.first == "the disk is full"
    assert found.messages == 10


def test_a_rate_that_cannot_be_reached_is_told_with_the_one_that_was() -> None:
    # One request at a time over Python: never 100,000/s.
    found = measured(LyingBroker(), rate=100_000.0, duration=0.3)
    assert found.loop == "open"
    assert found.rate_reached is False
    assert found.rate < 99_000
    assert found.latency["request"].measured_from == "due"
    assert any("was not reached" in warning for warning in found.warnings)
    # Measured from the time due: what waited behind the window is in it.
    assert found.latency["request"].max > 50_000


def test_messages_carry_what_was_asked_for() -> None:
    broker = LyingBroker()
    found = measured(
        broker,
        count=40,
        tags=[("A", 3.0), ("B", 1.0)],
        keys=4,
        properties=[("region", "eu")],
        flush_wait=False,
        size="5-9",
        compression="zlib",
    )
    assert found.messages == 40
    properties = [decode_properties(c.ext["i"]) for c in broker.sends]
    assert {p["WAIT"] for p in properties} == {"false"}
    assert {p["region"] for p in properties} == {"eu"}
    assert {p["KEYS"] for p in properties} == {f"key-{n:010}" for n in range(4)}
    assert len({p["UNIQ_KEY"] for p in properties}) == 40
    tags = [p["TAGS"] for p in properties]
    assert 28 <= tags.count("A") <= 32
    assert tags.count("B") == 40 - tags.count("A")
    assert {c.ext["f"] for c in broker.sends} == {"1"}
    assert {c.ext["e"] for c in broker.sends} == {"0", "1"}


@pytest.mark.parametrize("serialize", ["json", "rocketmq"])
def test_headers_of_both_kinds(serialize: str) -> None:
    broker = LyingBroker()
    found = measured(broker, count=10, serialize=serialize, verify=True)
    assert found.verify is not None
    assert found.verify.received == 10
    assert {c.serialize for c in broker.sends} == {int(serialize == "rocketmq")}


def test_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectError, match="cannot connect"):
        run(Options("send", address=f"127.0.0.1:{port}", count=1))


def test_topics_without_messages_cannot_be_pulled() -> None:
    found = measured(LyingBroker(), "pull", count=1)
    assert found.ended == "error"
    assert "no messages to pull" in found.why
