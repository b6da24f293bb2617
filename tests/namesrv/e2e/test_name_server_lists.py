"""Name servers that know no broker: all of them, right after a start, or the first of a list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from pyrmq import ConsumeFrom, LitePullConsumer, Message, Producer, PushConsumer, SendStatus
from tests.support.command import Serving, assert_refused, run

WITHIN = 60.0
"""Seconds that a broker may take to start on a busy machine."""


def name_server(folder: Path, name: str) -> Serving:
    conf = folder / f"{name}.conf"
    conf.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={folder}/{name}.json\n")
    return Serving(folder / f"{name}.log", "namesrv", "-c", str(conf))


def broker(folder: Path, namesrv: str) -> Serving:
    conf = folder / "broker.conf"
    conf.write_text(
        f"brokerName=b\nlistenPort=0\nbindAddress=127.0.0.1\nstorePathRootDir={folder}/store\n"
    )
    return Serving(folder / "broker.log", "broker", "-c", str(conf), "-n", namesrv)


async def test_a_send_that_is_earlier_than_the_broker(tmp_path: Path) -> None:
    found: list[SendStatus] = []
    with name_server(tmp_path, "names") as names:
        namesrv = names.facts["namesrv"]
        async with Producer("pg", namesrv=namesrv) as producer, trio.open_nursery() as nursery:

            async def send() -> None:
                result = await producer.send(Message("Early", b"x"), timeout=WITHIN)
                found.append(result.status)

            nursery.start_soon(send)
            with await trio.to_thread.run_sync(broker, tmp_path, namesrv):
                with trio.fail_after(WITHIN):
                    while not found:  # noqa: ASYNC110 - the other task says so
                        await trio.sleep(0.01)
    assert found == [SendStatus.SEND_OK]


def test_the_command_says_that_there_is_no_broker(tmp_path: Path) -> None:
    with name_server(tmp_path, "names") as names:
        namesrv = names.facts["namesrv"]
        sent = run("send", "-n", namesrv, "-t", "Early", "-b", "x")
        assert_refused(sent, f"no broker has registered with name server {namesrv} yet")


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A list whose first name server no broker registers with."""
    folder = tmp_path_factory.mktemp("lists")
    with name_server(folder, "first") as first, name_server(folder, "second") as second:
        known = second.facts["namesrv"]
        with broker(folder, known):
            yield f"{first.facts['namesrv']};{known}"


async def test_clients(namesrv: str) -> None:
    async with Producer("pg", namesrv=namesrv) as producer:
        assert (await producer.send(Message("Listed", b"x"))).status is SendStatus.SEND_OK
    async with PushConsumer(
        "g", {"Listed": "*"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        with trio.fail_after(WITHIN):
            async for message in consumer:
                assert message.body == b"x"
                break
    async with LitePullConsumer("g2", namesrv=namesrv) as puller:
        assert await puller.queues("Listed")


def test_commands(namesrv: str) -> None:
    sent = run("send", "-n", namesrv, "-t", "ByCommand", "-b", "x")
    assert sent.returncode == 0, sent.stderr.decode()
    for words in (
        ("admin", "topic", "route", "-n", namesrv, "ByCommand"),
        ("admin", "cluster", "list", "-n", namesrv),
        ("admin", "txn", "stats", "-n", namesrv),
        ("mqadmin", "topicRoute", "-n", namesrv, "-t", "ByCommand"),
        ("mqadmin", "clusterList", "-n", namesrv),
        ("mqadmin", "topicList", "-n", namesrv),
    ):
        done = run(*words)
        assert done.returncode == 0, (words, done.stderr.decode())
    listed = run("mqadmin", "topicList", "-n", namesrv).stdout
    assert b"ByCommand" in listed
    shown = run("mqadmin", "topicRoute", "-n", namesrv, "-t", "ByCommand").stdout
    assert json.loads(shown)["brokerDatas"]


def test_a_topic_that_neither_knows(namesrv: str) -> None:
    first, second = namesrv.split(";")
    done = run("admin", "topic", "route", "-n", namesrv, "Nowhere")
    assert_refused(done, f"name servers that say so: {first}, {second}")
