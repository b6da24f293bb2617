"""Whether figures are true when the broker is slow, silent, early, shared or hostile."""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrmq.bench.options import Options
from pyrmq.bench.result import BenchError, Result
from pyrmq.bench.run import run
from tests.bench.hdr import counts, percentile
from tests.bench.lying import HEART_BEAT, PULL, SEND, LyingBroker
from tests.support.scripted.script import SILENCE
from tests.support.scripted.sockets import SocketServer
from tests.support.wire import Command, FrameReader, encode

MAX_OFFSET, TOPIC_CONFIG, BROKER_CONFIG, RUNTIME_INFO = 30, 351, 26, 28


def measured(broker: LyingBroker, load: str = "send", **options: Any) -> Result:
    own: dict[str, Any] = {
        "connections": 1,
        "in_flight": 1,
        "queues": 2,
        "size": "16",
        "settle": 2.0,
    }
    own |= {"timeout": 60.0, **options}
    with SocketServer(broker).serving() as address:
        return run(Options(load, address=address, **own))


def test_a_stall_is_in_the_latency_of_all_that_were_due_meanwhile(tmp_path: Path) -> None:
    def fate(n: int) -> str:
        if n == 100:
            time.sleep(1.0)
        return "store"

    hdr = tmp_path / "stall.hdr"
    found = measured(LyingBroker(fate), rate=200.0, duration=2.0, hdr=hdr)
    latency = found.latency["request"]
    # A message is due every 5 ms: half of the 200 that were due in this second waited half of it.
    assert latency.count == 400
    assert latency.p90 >= 450_000
    assert latency.max >= 1_000_000
    # Another reader of the log comes to the same values, in three digits.
    values = counts(hdr, "request")
    assert values.total() == 400
    for part, us in ((0.5, latency.p50), (0.9, latency.p90), (0.99, latency.p99), (1, latency.max)):
        assert percentile(values, part) / 1000 == pytest.approx(us, rel=0.002)


def test_what_was_due_and_never_sent_has_waited() -> None:
    # The broker falls silent: one request is under way, and all others wait until the window ends.
    broker = LyingBroker(lambda n: "store" if n < 20 else "silent")
    found = measured(broker, rate=200.0, duration=1.0, timeout=2.0)
    assert found.latency["request"].count == 200
    assert found.latency["request"].p90 >= 500_000
    assert found.messages == 20
    assert any("due and not sent" in warning for warning in found.warnings)


def test_a_connection_that_is_lost_keeps_what_was_due() -> None:
    broker = LyingBroker()
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(SocketServer(broker).serving())

        def fate(n: int) -> str:
            if n < 20:
                return "store"
            stack.close()  # nobody listens any more
            return "die"

        broker.fate = fate
        own: dict[str, Any] = {
            "connections": 1,
            "in_flight": 1,
            "rate": 200.0,
            "duration": 1.0,
            "timeout": 0.5,
        }
        found = run(Options("send", address=address, **own))
    # The one that was lost has no answer and no time; the others have.
    assert found.latency["request"].count == 199


def test_the_warm_up_has_seconds_of_its_own() -> None:
    found = measured(LyingBroker(), rate=200.0, warmup=0.1, duration=1.0)
    assert not found.intervals[0].measured
    # Not one second that is of both.
    assert any(i.measured for i in found.intervals)
    assert found.latency["request"].count == 200


def test_messages_that_come_before_their_delay_are_told() -> None:
    # This broker knows no delay: all come at once.
    found = measured(LyingBroker(), "delay", delay_level=3, count=20, verify=True)
    assert found.verify is not None
    assert found.verify.received == 20
    assert any("20 messages came before their delay" in warning for warning in found.warnings)


def test_timers_that_come_before_their_time_are_told() -> None:
    found = measured(LyingBroker(), "timer", timer_delay=2.5, count=20, verify=True)
    assert found.verify is not None
    assert found.verify.received == 20
    assert any("20 messages came before their delay" in warning for warning in found.warnings)


def test_messages_of_others_are_not_counted() -> None:
    broker = LyingBroker()

    def fate(n: int) -> str:
        broker.append((broker.sends_topic(), "0"), broker.sends_topic(), 0, b"x" * 100, {"A": "B"})
        return "store"

    broker.fate = fate
    found = measured(broker, "latency", count=30, rate=500.0, queues=1, verify=True)
    assert found.verify is not None
    assert (found.verify.received, found.verify.foreign) == (30, 30)
    assert (found.messages, found.bytes) == (30, 30 * 16)
    assert found.latency["end_to_end"].count == 30


def test_a_wait_for_what_is_lost_can_be_interrupted() -> None:
    broker = LyingBroker(lambda n: "lose")

    def stop(snapshot: dict[str, Any]) -> None:
        if snapshot["state"] == "ending":
            raise KeyboardInterrupt

    with SocketServer(broker).serving() as address:
        options = Options("send", address=address, duration=0.2, rate=100.0, verify=True)
        options.settle = 3600.0
        found = run(options, stop)
    assert found.ended == "interrupted"
    assert found.verify is not None
    assert found.verify.lost == 20
    assert any("Nobody waited" in warning for warning in found.warnings)


def test_a_load_that_cannot_begin_ends() -> None:
    broker = LyingBroker()

    def refuse(c: Command) -> Command:
        answer = c.reply(1)
        answer.remark = 'the "disk" is gone'
        return answer

    broker.change[MAX_OFFSET] = refuse
    with pytest.raises(BenchError, match=r'did not begin: 2 .*SYSTEM_ERROR, the "disk" is gone'):
        measured(broker, "latency", count=1, timeout=0.1)


def test_answers_to_nobody_are_not_counted() -> None:
    broker = LyingBroker()

    def wrong(c: Command) -> Command | None:
        broker.sends.append(c)
        answer = c.reply(0)
        answer.opaque += 1 if len(broker.sends) % 2 else 0
        return answer

    broker.change[SEND] = wrong
    found = measured(broker, count=4, timeout=1.5)
    assert found.messages == 2
    assert [(e.kind, e.count) for e in found.errors] == [("timeout", 2)]


def test_an_answer_that_comes_too_late_is_none() -> None:
    late: list[Command] = []
    broker = LyingBroker()

    def later(c: Command) -> Command:
        # Each answer is that of the request before.
        late.append(c.reply(0))
        return SILENCE if len(late) == 1 else late[-2]

    broker.change[SEND] = later
    found = measured(broker, count=6, timeout=0.2, verify=True, settle=0.2)
    v = found.verify
    assert v is not None
    assert (v.sent, v.acknowledged, v.unknown, found.messages) == (6, 0, 6, 0)


@pytest.mark.parametrize(
    "raw",
    [
        struct.pack(">i", -(1 << 31)),
        struct.pack(">I", (1 << 31) - 1),
        struct.pack(">I", 3),
        struct.pack(">II", 8, 0xFFFFFF) + b"{}{}",
        struct.pack(">II", 4 + 2, 2) + b"{}",
        struct.pack(">II", 4 + 30, 1 << 24 | 30) + b"\xff" * 30,
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00" * 4096,
    ],
)
def test_garbage_is_an_error_and_not_a_count(raw: bytes) -> None:
    broker = LyingBroker()
    with _garbage(broker, raw) as address:
        own: dict[str, Any] = {"connections": 1, "in_flight": 1, "timeout": 0.3, "count": 5}
        found = run(Options("send", address=address, **own))
    assert (found.messages, found.ended) == (0, "count")
    assert sum(e.count for e in found.errors if e.kind != "connect-failed") == 5
    assert {e.kind for e in found.errors} <= {"protocol", "timeout", "connection-lost"}


def test_an_answer_that_comes_again_counts_once() -> None:
    broker = LyingBroker()
    with _garbage(broker, lambda c: encode(broker.answer(c)) * 3) as address:
        own: dict[str, Any] = {
            "connections": 1,
            "in_flight": 4,
            "queues": 1,
            "count": 50,
            "verify": True,
        }
        own["timeout"] = 60.0
        found = run(Options("send", address=address, **own))
    v = found.verify
    assert v is not None
    assert (found.messages, v.acknowledged, v.received, v.twice) == (50, 50, 50, 0)
    assert found.latency["request"].count == 50


@pytest.mark.parametrize("load", ["send", "pull"])
def test_a_count_begins_with_the_run(load: str) -> None:
    # Answers that nobody waits for wake the generator all the time, so it hears that the run begins
    # a moment before it does. What it sent then would be of no count.
    broker = LyingBroker()
    if load == "pull":
        measured(broker, count=200, in_flight=16)

    def serve(connection: socket.socket) -> None:
        reader = FrameReader()
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(1 << 16):
                for command in reader.feed(data):
                    answer = encode(broker.answer(command))
                    connection.sendall(answer)
                while command.code == HEART_BEAT and not select.select([connection], [], [], 0)[0]:
                    connection.sendall(answer)

    with _served(serve) as address:
        own: dict[str, Any] = {"connections": 1, "in_flight": 4, "queues": 2, "timeout": 60.0}
        found = run(Options(load, address=address, count=50, verify=load == "send", **own))
    assert found.latency["request"].count == found.requests
    if load == "send":
        assert found.verify is not None
        assert (found.messages, found.verify.sent) == (50, 50)


def test_ctrl_c_before_the_window_opens() -> None:
    broker = LyingBroker()
    asked = threading.Event()

    def silent(c: Command) -> Command:
        asked.set()
        return SILENCE

    broker.change[MAX_OFFSET] = silent
    with SocketServer(broker).serving() as address:
        words = [sys.executable, "-m", "pyrmq", "bench", "latency", "--address", address]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
            said = process.communicate()[0].decode()
    assert (process.returncode, "Traceback" in said) == (130, False)


@contextlib.contextmanager
def _garbage(broker: LyingBroker, raw: bytes | Callable[[Command], bytes]) -> Iterator[str]:
    """Answers sends with these bytes, and everything else as the broker does."""

    def serve(connection: socket.socket) -> None:
        reader = FrameReader()
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(1 << 16):
                for command in reader.feed(data):
                    if command.code == SEND:
                        connection.sendall(raw if isinstance(raw, bytes) else raw(command))
                    else:
                        connection.sendall(encode(broker.answer(command)))

    with _served(serve) as address:
        yield address


@contextlib.contextmanager
def _served(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Each connection has a thread that serves it."""

    def accept(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("code", "body", "said"),
    [
        (TOPIC_CONFIG, b'{"writeQueueNums": "many"}', "-1 and 2 queues"),
        (TOPIC_CONFIG, b'{"readQueueNums": 1000000000}', "1000000000 queues"),
        (TOPIC_CONFIG, b"[1]", "no JSON object"),
        (TOPIC_CONFIG, b"{", "no JSON"),
        (BROKER_CONFIG, b"messageDelayLevel=soon", "messageDelayLevel has 'soon'"),
        (BROKER_CONFIG, b"messageDelayLevel=999999999d", "more than a year"),
        (RUNTIME_INFO, b"\xff\xfe", "not UTF-8"),
    ],
)
def test_what_a_broker_says_of_itself_is_checked(code: int, body: bytes, said: str) -> None:
    broker = LyingBroker()
    broker.change[code] = lambda c: c.reply(0, None, body)
    with pytest.raises(Exception, match=said) as error:
        measured(broker, "delay", count=1)
    # Whatever it is, it is said as an error of ours.
    assert type(error.value).__module__.startswith("pyrmq."), repr(error.value)


def test_texts_of_a_broker_do_not_reach_the_terminal_as_they_are() -> None:
    from pyrmq.bench.text import report

    broker = LyingBroker()

    def escape(c: Command) -> Command:
        answer = c.reply(1)
        answer.remark = "\x1b]0;owned\x07\x1b[2J\nfake: all is well"
        return answer

    broker.change[SEND] = escape
    broker.change[RUNTIME_INFO] = lambda c: c.reply(
        0, None, b'{"table":{"brokerVersionDesc":"<b>\\u001b[31m</b>"}}'
    )
    found = measured(broker, count=1)
    assert found.errors[0].first.startswith("\x1b]0;owned")
    text = report(found)
    assert "\x1b" not in text
    assert "\nfake" not in text
    assert "\\x1b]0;owned" in text


def test_what_nobody_receives_does_not_wait(tmp_path: Path) -> None:
    path = tmp_path / "load.toml"
    path.write_text("""
        [[producer]]
        topic = "A"
        [[producer]]
        topic = "B"
        [[consumer]]
        topic = "A"
    """)
    found = measured(LyingBroker(), "mixed", file=path, duration=1.5, rate=100.0)
    assert found.latency["end_to_end"].count > 0
    # B's messages are no backlog of A's consumer.
    assert sum(i.backlog for i in found.intervals) < found.messages / 4


def test_what_comes_behind_the_window_is_in_the_latency() -> None:
    broker, closed = LyingBroker(), threading.Event()
    broker.change[PULL] = lambda c: None if closed.is_set() else c.reply(19)

    def close(snapshot: dict[str, Any]) -> None:
        if snapshot["state"] == "ending":
            closed.set()

    with SocketServer(broker).serving() as address:
        options = Options("latency", address=address, rate=100.0, duration=0.5, queues=1)
        found = run(options, close)
    assert (found.messages, found.latency["end_to_end"].count) == (0, 50)
    # The first was due when the window opened.
    assert found.latency["end_to_end"].max >= 490_000
    assert not any("not received" in warning for warning in found.warnings)


def test_what_is_never_received_is_told() -> None:
    broker = LyingBroker(lambda n: "lose" if n in (3, 4) else "store")
    found = measured(broker, "latency", rate=100.0, duration=0.3, settle=0.5)
    assert any("2 messages were acknowledged and not received" in w for w in found.warnings)


def test_a_count_ends_with_the_pull_that_reaches_it() -> None:
    broker = LyingBroker()
    measured(broker, count=200, in_flight=16)
    found = measured(broker, "pull", count=100, in_flight=4, connections=2)
    assert 100 <= found.messages < 100 + 32
    assert found.latency["request"].count == found.requests
