"""How far delay levels are: over restarts, in config/delayOffset.json, and with other levels."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq.broker import BrokerConfig
from pyrmq.errors import ConfigError
from tests.support.client import Client, send_command
from tests.support.command import assert_refused, run
from tests.support.delays import (
    SCHEDULE_TOPIC,
    await_records,
    levels,
    log_end,
    parked,
    place,
    record_at,
)
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

TOPIC = "Later"
FLUSH = "flushIntervalCommitLog=20\n"
"""A stop waits for the disk."""
CONF = f"messageDelayLevel=1s 3s 1h\n{FLUSH}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "store", conf=CONF) as running:
        yield running


def offsets_file(server: ServerProcess) -> Path:
    return server.store / "config" / "delayOffset.json"


def offsets(server: ServerProcess) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(offsets_file(server).read_text())
    return value


def bodies(client: Client, count: int, queue_id: int = 0) -> list[bytes]:
    """What the topic got, once there is something of each message sent."""
    return [r.body for r in await_records(client, TOPIC, count, queue_id)]


def send(client: Client, level: int, *messages: bytes) -> None:
    for body in messages:
        assert client.send(TOPIC, body, properties={"DELAY": str(level)}).code == 0


# Restarts.


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_restart_repeats_nothing_and_forgets_nothing(tmp_path: Path, flush: str) -> None:
    with ServerProcess(tmp_path / "store", conf=CONF, flush=flush) as server:
        with Client(server.broker) as client:
            send(client, 1, b"a", b"b")
            send(client, 2, b"waits")
            send(client, 3, b"waits for long")
            assert bodies(client, 2) == [b"a", b"b"]
        server.terminate()
        kept = offsets(server)
        assert kept["offsetTable"] == {"1": 2, "2": 0, "3": 0}
        server.start()
        with Client(server.broker) as client:
            assert kept["logEnd"] <= log_end(client)
            send(client, 1, b"c")  # behind this one nothing of its level comes again
            assert sorted(bodies(client, 4)) == [b"a", b"b", b"c", b"waits"]
            (arrived,) = [r for r in await_records(client, TOPIC, 4) if r.body == b"waits"]
            (waited,) = parked(client, 2)
            assert arrived.store_timestamp >= waited.store_timestamp + 3000
            assert levels(client) == [(3, 3), (1, 1), (0, 1)]


def test_progress_is_kept_while_the_broker_runs(server: ServerProcess) -> None:
    with Client(server.broker) as client:
        send(client, 1, b"a", b"b")
        await_records(client, TOPIC, 2)
        eventually(offsets_file(server).exists, "delayOffset.json is written")
        kept = eventually(
            lambda: offsets(server),
            "both are noted",
            until=lambda found: found["offsetTable"]["1"] == 2,
        )
        assert kept["logEnd"] == log_end(client), "behind what was delivered last"
        assert kept["dataVersion"]["counter"] > 0


def test_a_stop_without_deliveries_keeps_where_the_log_ends(server: ServerProcess) -> None:
    """So that the next start has nothing to read."""
    with Client(server.broker) as client:
        send(client, 3, b"waits for long")
        end = log_end(client)
    server.terminate()
    kept = offsets(server)
    assert (kept["logEnd"], kept["offsetTable"]) == (end, {"1": 0, "2": 0, "3": 0})


def test_rocketmqs_form_of_the_file(server: ServerProcess) -> None:
    """It has no logEnd, and fastjson writes the levels without quotes: the offsets alone count."""
    with Client(server.broker) as client:
        send(client, 1, b"a", b"b")
        await_records(client, TOPIC, 2)
    server.terminate()
    version = '{"counter":7,"stateVersion":0,"timestamp":1700000000000}'
    text = '{\n\t"dataVersion":' + version + ',\n\t"offsetTable":{1:1,2:0\n\t}\n}'
    offsets_file(server).write_text(text)
    server.start()
    with Client(server.broker) as client:
        send(client, 1, b"c")
        assert bodies(client, 4) == [b"a", b"b", b"b", b"c"], "from queue offset 1 on"
    server.terminate()
    kept = offsets(server)
    assert kept["offsetTable"] == {"1": 3, "2": 0, "3": 0}
    assert kept["dataVersion"]["counter"] > 7
    assert kept["logEnd"] > 0


def test_an_offset_behind_the_end_of_the_queue(server: ServerProcess) -> None:
    with Client(server.broker) as client:
        send(client, 1, b"a")
        await_records(client, TOPIC, 1)
    server.terminate()
    offsets_file(server).write_text('{"offsetTable":{"1":99}}')
    server.start()
    with Client(server.broker) as client:
        send(client, 1, b"b")
        assert bodies(client, 2) == [b"a", b"b"]
    told = (
        "delay level 1: delayOffset.json says 99, but the queue has offsets 0 to 1: "
        "delivery goes on at 1. A message before that offset which still waited is not delivered."
    )
    assert told in server.stderr_text()


def test_offsets_that_lead_skip_nothing_that_waits(server: ServerProcess) -> None:
    """The file of another broker: what waits is delivered, what was delivered is not again."""
    with Client(server.broker) as client:
        send(client, 1, b"a")
        await_records(client, TOPIC, 1)
        send(client, 3, b"waits for long")
        send(client, 2, b"waits")
    server.terminate()
    offsets_file(server).write_text('{"offsetTable":{"1":1,"2":1,"3":700}}')
    server.start()
    with Client(server.broker) as client:
        assert bodies(client, 2) == [b"a", b"waits"]
        assert levels(client) == [(1, 1), (1, 1), (0, 1)]
    text = server.stderr_text()
    # Nothing lies before offset 0, so nothing is said of it.
    for level, said in ((2, 1), (3, 700)):
        told = f"level {level}: delayOffset.json says {said}, but the queue has offsets 0 to 1: "
        assert f"{told}delivery goes on at 0. What was delivered" in text
    assert "level 1:" not in text


def test_nonsense_in_the_file_is_told(server: ServerProcess) -> None:
    with Client(server.broker) as client:
        send(client, 1, b"a")
        await_records(client, TOPIC, 1)
    server.terminate()
    offsets_file(server).write_text('{"offsetTable":{"1":"one"},"logEnd":[]}')
    server.start()
    with Client(server.broker) as client:
        assert bodies(client, 2) == [b"a", b"a"]
    text = server.stderr_text()
    assert "says 'one' of delay level 1" in text
    assert "logEnd [] is no physical offset" in text


def test_the_log_tells_what_was_delivered_behind_the_file(server: ServerProcess) -> None:
    """A file that is older than the last deliveries, as a kill leaves it."""
    with Client(server.broker) as client:
        send(client, 1, b"a")
        await_records(client, TOPIC, 1)
    server.terminate()
    old = offsets_file(server).read_text()
    server.start()
    with Client(server.broker) as client:
        send(client, 1, b"b", b"c")
        await_records(client, TOPIC, 3)
    server.terminate()
    offsets_file(server).write_text(old)
    server.start()
    with Client(server.broker) as client:
        assert levels(client)[0] == (3, 3)
        send(client, 1, b"d")
        assert bodies(client, 4) == [b"a", b"b", b"c", b"d"]


def test_times_are_found_again_in_the_log(server: ServerProcess) -> None:
    """Queues that are made anew from the log have the times of delivery."""
    with Client(server.broker) as client:
        send(client, 2, b"waits")
        send(client, 3, b"waits for long")
    server.kill()
    shutil.rmtree(server.store / "consumequeue")
    (server.store / "checkpoint").unlink(missing_ok=True)
    server.start()
    with Client(server.broker) as client:
        (arrived,) = await_records(client, TOPIC, 1)
        (waited,) = parked(client, 2)
        assert arrived.store_timestamp >= waited.store_timestamp + 3000
        assert levels(client) == [(0, 0), (1, 1), (0, 1)]


# Levels.


def test_levels_of_ones_own(tmp_path: Path) -> None:
    """More of them than RocketMQ's 18, in no order."""
    conf = f"messageDelayLevel={'1h ' * 18}1d 1s\n"
    with ServerProcess(tmp_path / "store", conf=conf) as server:
        with Client(server.broker) as client:
            assert len(levels(client)) == 20
            for level in (1, 18, 19, 20, 21):
                send(client, level, b"%d" % level)
            assert bodies(client, 2) == [b"20", b"21"], "21 counts as the highest"
            assert levels(client)[16:] == [(0, 0), (0, 1), (0, 1), (2, 2)]
            assert [r.body for r in parked(client, 20)] == [b"20", b"21"]
        server.terminate()
        table = json.loads((server.store / "config" / "topics.json").read_text())
        topic = table["topicConfigTable"][SCHEDULE_TOPIC]
        assert (topic["readQueueNums"], topic["writeQueueNums"]) == (20, 20)
        verified = run("store", "verify", str(server.store))
        assert verified.returncode == 0, verified.stdout.decode() + verified.stderr.decode()


def test_more_levels_in_a_store_that_had_fewer(server: ServerProcess) -> None:
    with Client(server.broker) as client:
        send(client, 3, b"waits for long")
    server.terminate()
    server.conf = f"messageDelayLevel=1s 3s 1h 1s\n{FLUSH}"
    server.start()
    with Client(server.broker) as client:
        send(client, 4, b"new level")
        assert bodies(client, 1) == [b"new level"]
        assert [r.body for r in parked(client, 4)] == [b"new level"]
        assert levels(client) == [(0, 0), (0, 0), (0, 1), (1, 1)]


def test_fewer_levels_for_a_while_repeat_nothing(server: ServerProcess) -> None:
    """RocketMQ keeps the offsets of levels that it does not know at the moment."""
    with Client(server.broker) as client:
        send(client, 2, b"a")
        await_records(client, TOPIC, 1)
    server.terminate()
    server.conf = f"messageDelayLevel=1s\n{FLUSH}"
    server.start()
    server.terminate()
    server.conf = CONF
    server.start()
    with Client(server.broker) as client:
        assert levels(client)[1] == (1, 1)
        send(client, 1, b"b")
        assert bodies(client, 2) == [b"a", b"b"]


def test_a_level_that_was_made_shorter(server: ServerProcess) -> None:
    """What waits for longer than its level says now is due at once. [correctDeliverTimestamp]"""
    with Client(server.broker) as client:
        answer = client.send(TOPIC, b"x", properties={"DELAY": "3"})
        assert record_at(client, place(answer)).topic == SCHEDULE_TOPIC
    server.terminate()
    server.conf = f"messageDelayLevel=1s 3s 2s\n{FLUSH}"
    server.start()
    with Client(server.broker) as client:
        assert bodies(client, 1) == [b"x"]


def test_what_comes_amid_deliveries_waits_like_any_other(tmp_path: Path) -> None:
    """A delivery that began before a message was stored must not take its time for one of a clock
    that was set back. Each level whose queue is empty is one try to hit that moment."""
    quiet = range(2, 902)
    conf = f"messageDelayLevel=1s{' 1h' * len(quiet)}\n"
    busy = send_command("Busy", b"x", properties={"DELAY": "1"})
    with ServerProcess(tmp_path / "store", conf=conf) as server, Client(server.broker) as client:
        for _ in range(8):
            for _ in range(500):
                client.post(busy)
            assert {client.receive().code for _ in range(500)} == {0}
        eventually(lambda: client.max_offset("Busy", 0), "deliveries have begun")
        for level in quiet:
            send(client, level, b"in an hour")
        await_records(client, "Busy", 4000)
        given = {level for level, (count, _) in enumerate(levels(client), 1) if count}
        assert given == {1}, f"{len(given) - 1} messages came an hour early"
        assert client.max_offset(TOPIC, 0) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no level"),
        ("1s 5x", '"5x" is no delay'),
        ("1s,5s", "1s,5s"),
        ("10", "10"),
        ("100ms", "100ms"),
        ("0s", "0s"),
        ("-1s", "-1s"),
        ("1s 99999999999999999999d", "99999999999999999999d"),
        ("1s " * 1025, "1025 levels"),
    ],
    ids=lambda value: value[:12],
)
def test_levels_that_cannot_be_meant(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"messageDelayLevel=.*{words}"):
        BrokerConfig(message_delay_level=text)


def test_a_broker_does_not_start_with_levels_that_cannot_be_meant(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("messageDelayLevel=1s 5 10s\n")
    store = tmp_path / "store"
    args = ("--store", str(store), "--namesrv-port", "0", "--broker-port", "0", "-c", str(conf))
    assert_refused(run("server", *args), "messageDelayLevel", '"5" is no delay', "such as 30s")
    assert not (store / "commitlog").exists()
