"""`pyrmq send` and `pyrmq consume` as processes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from tests.support.client import GET_ROUTEINFO_BY_TOPIC, Client
from tests.support.command import PYRMQ, Serving, assert_refused, environment, run
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

_numbers = count()


@pytest.fixture
def namesrv(process: ServerProcess) -> str:
    return f"{process.namesrv[0]}:{process.namesrv[1]}"


@pytest.fixture
def topic(namesrv: str) -> str:
    return f"Cli{next(_numbers)}"


def send(namesrv: str, topic: str, *args: str, stdin: bytes = b"") -> list[str]:
    result = run("send", "-n", namesrv, "-t", topic, *args, stdin=stdin)
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout.decode().splitlines()


def consume(namesrv: str, topic: str, *args: str) -> list[str]:
    """Lines that `consume` prints, without the place that each begins with."""
    result = run("consume", "-n", namesrv, "-t", topic, "--from-first", *args)
    assert (result.returncode, result.stderr) == (0, b"")
    return [line.partition(" ")[2] for line in result.stdout.decode().splitlines()]


def test_send_and_consume(namesrv: str, topic: str) -> None:
    (line,) = send(namesrv, topic, "-b", "grüße ✓", "--tags", "red", "-k", "k1 k2", "-p", "a=b=c")
    words = dict(word.partition("=")[::2] for word in line.split()[1:])
    assert line.startswith("SEND_OK ")
    assert (words["broker"], words["queueOffset"], len(words["msgId"])) == ("broker-a", "0", 32)
    assert consume(namesrv, topic, "--count", "1") == ["tags=red keys=k1 k2 grüße ✓"]


def test_lines_of_stdin_are_messages(namesrv: str, topic: str) -> None:
    lines = send(namesrv, topic, stdin="eins\nzwei – ü\ndrei".encode())
    assert len(lines) == 3
    got = consume(namesrv, topic, "--count", "3", "--timeout", "10")
    assert sorted(line.rpartition("keys= ")[2] for line in got) == ["drei", "eins", "zwei – ü"]


def test_lines_end_at_line_ends_only(namesrv: str, topic: str) -> None:
    """Other separators that Python's splitlines knows belong to the message."""
    lines = send(namesrv, topic, stdin="a\x0bb\x85c\u2028d\n".encode())
    assert len(lines) == 1


def test_empty_lines_do_not_end_a_stream(namesrv: str, topic: str) -> None:
    """An empty line cannot be a message: it is left out or named, and the rest is sent."""
    result = run("send", "-n", namesrv, "-t", topic, stdin=b"one\n\ntwo\n")
    assert len(result.stdout.splitlines()) == 2, result.stderr.decode()


def test_bytes_that_are_no_text_are_sent_as_they_are(namesrv: str, topic: str) -> None:
    result = run("send", "-n", namesrv, "-t", topic, stdin=b"bad \xff byte\n")
    assert (result.returncode, result.stderr) == (0, b"")


def test_a_line_is_sent_when_it_comes(namesrv: str, topic: str) -> None:
    """As in `tail -f log | pyrmq send`: nobody waits for the end of stdin."""
    with subprocess.Popen(
        [*PYRMQ, "send", "-n", namesrv, "-t", topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    ) as sender:
        assert sender.stdin is not None
        try:
            sender.stdin.write(b"now\n")
            sender.stdin.flush()
            host, _, port = namesrv.rpartition(":")
            with Client((host, int(port))) as client:
                eventually(
                    lambda: client.call(GET_ROUTEINFO_BY_TOPIC, topic=topic).code,
                    "the first message has made the topic",
                    until=lambda code: code == 0,
                )
            got = consume(namesrv, topic, "--count", "1", "--timeout", "30")
            assert len(got) == 1, "nothing was sent while stdin was open"
        finally:
            sender.kill()


def test_tags(namesrv: str, topic: str) -> None:
    for tag in ("red", "green", "blue"):
        send(namesrv, topic, "-b", tag, "--tags", tag)
    got = consume(namesrv, topic, "-s", "red || blue", "--timeout", "1.5")
    assert sorted(line.rpartition(" ")[2] for line in got) == ["blue", "red"]


def test_count_acknowledges_what_it_printed(namesrv: str, topic: str) -> None:
    send(namesrv, topic, stdin=b"1\n2\n3\n")
    first = consume(namesrv, topic, "--count", "2", "--timeout", "10")
    rest = consume(namesrv, topic, "--count", "1", "--timeout", "10")
    assert sorted(line.rpartition(" ")[2] for line in first + rest) == ["1", "2", "3"]


def test_timeout_acknowledges_what_it_printed(namesrv: str, topic: str) -> None:
    send(namesrv, topic, stdin=b"1\n2\n3\n")
    assert len(consume(namesrv, topic, "--timeout", "1")) == 3
    assert consume(namesrv, topic, "--timeout", "1") == [], "printed before"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_acknowledges_what_was_printed(namesrv: str, topic: str, signum: int) -> None:
    send(namesrv, topic, "-b", "printed")
    command = [*PYRMQ, "consume", "-n", namesrv, "-t", topic, "--from-first"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as reader:
        assert reader.stdout is not None
        assert b"printed" in reader.stdout.readline()
        reader.send_signal(signum)
        assert reader.wait(10) == 0
    send(namesrv, topic, "-b", "next")
    got = consume(namesrv, topic, "--timeout", "1")
    assert [line.rpartition(" ")[2] for line in got] == ["next"]


def test_a_message_with_a_delay_level(namesrv: str, topic: str) -> None:
    send(namesrv, topic, "-b", "at once")
    send(namesrv, topic, "-b", "later", "-p", "DELAY=1")
    got = consume(namesrv, topic, "--count", "2", "--timeout", "10")
    assert sorted(line.rpartition("keys= ")[2] for line in got) == ["at once", "later"]


def test_timer_messages_and_a_priority(namesrv: str, topic: str) -> None:
    (soon,) = send(namesrv, topic, "-b", "soon", "--delay", "1")
    assert "recallHandle=" in soon
    at = datetime.now(UTC) + timedelta(seconds=2)
    (then,) = send(namesrv, topic, "-b", "then", "--deliver-at", at.isoformat())
    assert "recallHandle=" in then
    (urgent,) = send(namesrv, topic, "-b", "urgent", "--priority", "2")
    assert "queueId=2 " in urgent
    assert "recallHandle" not in urgent
    got = consume(namesrv, topic, "--count", "3", "--timeout", "20")
    assert sorted(line.rpartition("keys= ")[2] for line in got) == ["soon", "then", "urgent"]


def test_timeout_ends_without_a_message(namesrv: str, topic: str) -> None:
    assert consume(namesrv, topic, "--timeout", "0.3", "-g", "nobody") == []


def test_a_body_that_cannot_be_decompressed(
    process: ServerProcess, namesrv: str, topic: str
) -> None:
    """It is named, and what follows is printed; raw output has bodies alone."""
    with Client(process.broker) as client:
        for body, sys_flag in ((b"\x1b[31mno zlib", "1"), (b"good", "0")):
            properties = {"TAGS": "a", "UNIQ_KEY": "id"}
            sent = client.send(topic, body, properties=properties, change={"f": sys_flag})
            assert sent.code == 0, sent.remark
    damaged, good = consume(namesrv, topic, "--count", "2", "--timeout", "10")
    assert damaged.startswith("tags=a keys= (the body of message id: ")
    assert good == "tags=a keys= good"
    args = ("-n", namesrv, "-t", topic, "--from-first", "-g", "raw", "--raw", "--count", "2")
    result = run("consume", *args, "--timeout", "10")
    assert (result.returncode, result.stdout) == (0, b"good\n")
    assert b"(the body of message id: " in result.stderr
    assert b"\x1b" not in result.stderr


def test_consume_of_a_missing_topic_says_so(namesrv: str) -> None:
    result = run("consume", "-n", namesrv, "-t", "NotThere", "--timeout", "1")
    assert result.returncode == 0
    assert b"NotThere" in result.stderr, "silence looks like an empty topic"


def test_name_server_from_the_environment(namesrv: str, topic: str) -> None:
    result = run("send", "-t", topic, "-b", "x", NAMESRV_ADDR=namesrv)
    assert result.returncode == 0


def test_refusals_are_one_line(namesrv: str, topic: str) -> None:
    start = ("send", "-n", namesrv, "-t")
    assert_refused(run(*start, "bad topic", "-b", "x"), "bad topic")
    assert_refused(run(*start, topic, "-b", ""), "empty")
    assert_refused(run(*start, topic, "-b", "x", "-p", "DELAY=x"), "DELAY")
    assert_refused(run(*start, topic, "-b", "x", "-p", "TIMER_DELAY_SEC=3"), "TIMER_DELAY_SEC")
    assert_refused(run(*start, topic, "-b", "x", "-p", "novalue"), "novalue")
    assert_refused(run("send", "-b", "x"), "--topic")
    assert_refused(run("consume", "-n", namesrv, "-t", topic, "-s", "||"), "||")
    assert_refused(run("consume", "-n", namesrv, "-t", "bad topic"), "bad topic")
    assert_refused(run("consume", "-n", "nowhere", "-t", topic), "nowhere")


def test_no_server(topic: str) -> None:
    result = run("send", "-n", "127.0.0.1:1", "-t", topic, "-b", "x")
    assert_refused(result, "127.0.0.1:1", "cannot connect")
    assert len(result.stderr.splitlines()) == 1, result.stderr.decode()


def test_a_reader_that_closes_the_pipe(namesrv: str, topic: str) -> None:
    """`pyrmq consume | head -1` is no error worth a report."""
    send(namesrv, topic, stdin=b"1\n2\n3\n")
    command = [*PYRMQ, "consume", "-n", namesrv, "-t", topic, "--from-first", "--timeout", "3"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), bufsize=0
    ) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        reader.stdout.read(1)
        reader.stdout.close()
        reader.wait(10)
        assert b"Traceback" not in reader.stderr.read()


@pytest.fixture
def unused(tmp_path: Path) -> Iterator[Serving]:
    """A server that creates no topics."""
    conf = tmp_path / "broker.conf"
    conf.write_text("autoCreateTopicEnable=false\n")
    args = ("--store", str(tmp_path / "store"), "--namesrv-port", "0", "--broker-port", "0")
    with Serving(tmp_path / "log", "server", "-c", str(conf), *args) as server:
        yield server


def test_send_to_a_topic_that_is_not_made_on_demand(unused: Serving) -> None:
    result = run("send", "-n", unused.facts["namesrv"], "-t", "Mine", "-b", "x")
    assert_refused(result, "Mine", "autoCreateTopicEnable")
    assert "TBW102" not in result.stderr.decode(), "the user knows nothing of the template topic"
