"""A name server and some brokers, ours or Apache RocketMQ's, each of which can go and come back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from pyrmq.net import fastjson
from tests.support import ports
from tests.support.client import GET_ROUTEINFO_BY_TOPIC, UPDATE_AND_CREATE_TOPIC, Client, Closed
from tests.support.command import Serving
from tests.support.waiting import eventually

from .store import peer

GET_CONSUMER_LIST_BY_GROUP = 38
GET_CONSUMER_RUNNING_INFO = 307
Queue = tuple[str, int]
"""The name of a broker and the number of a queue."""


class Broker(Protocol):
    address: peer.Address

    def start(self) -> object: ...

    def kill(self) -> None: ...


class OurBroker:
    """`pyrmq broker` on a port that it keeps."""

    def __init__(self, folder: Path, name: str, namesrv: str, conf: str) -> None:
        self._folder = folder
        self._namesrv = namesrv
        self._starts = 0
        self._serving: Serving | None = None
        port = ports.free_port_triple()
        self.address = ("127.0.0.1", port)
        folder.mkdir()
        own = f"brokerName={name}\nlistenPort={port}\nbrokerIP1=127.0.0.1\n"
        own += f"bindAddress=127.0.0.1\nstorePathRootDir={folder / 'store'}\n"
        (folder / "broker.conf").write_text(own + conf)

    def start(self) -> None:
        self._starts += 1
        conf = str(self._folder / "broker.conf")
        log = self._folder / f"log-{self._starts}"
        self._serving = Serving(log, "broker", "-c", conf, "-n", self._namesrv)

    def kill(self) -> None:
        if self._serving is not None:
            self._serving.__exit__(None, None, None)
            self._serving = None


class Cluster:
    """`brokers` by name; those that were added run until they are killed."""

    def __init__(self, kind: str, folder: Path, stack: ExitStack, conf: str) -> None:
        self.kind = kind
        self.brokers: dict[str, Broker] = {}
        self._folder = folder
        self._stack = stack
        self._conf = conf
        if kind == "pyrmq":
            file = folder / "namesrv.conf"
            kept = folder / "kvConfig.json"
            file.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={kept}\n")
            names = Serving(folder / "namesrv.log", "namesrv", "-c", str(file))
            stack.enter_context(names)
            self.namesrv = names.facts["namesrv"]
        else:
            self.namesrv = stack.enter_context(peer.NameServer(folder / "namesrv")).address

    def add(self, name: str) -> Broker:
        """Starts one more broker."""
        folder = self._folder / name
        broker: Broker
        if self.kind == "pyrmq":
            broker = OurBroker(folder, name, self.namesrv, self._conf)
        else:
            conf = f"brokerName={name}\n{self._conf}"
            broker = peer.RealBroker(folder / "store", self.namesrv, conf, home=folder)
        self._stack.callback(broker.kill)
        broker.start()
        self.brokers[name] = broker
        return broker

    def state(self) -> str:
        """For messages of failed tests."""
        logs = sorted(self._folder.rglob("log-*"))
        return "\n".join(f"--- {log}\n{log.read_text()[-1500:]}" for log in logs)

    # What operators do.

    def make_topic(self, topic: str, queues: int, *names: str) -> None:
        """On these brokers, or all; until the name server knows."""
        for name in names or self.brokers:
            with Client(self.brokers[name].address) as client:
                made = client.call(
                    UPDATE_AND_CREATE_TOPIC,
                    topic=topic, defaultTopic="TBW102", readQueueNums=queues,
                    writeQueueNums=queues, perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0,
                    order="false",
                )  # fmt: skip
                assert made.code == 0, made.remark

        eventually(
            lambda: self.queues(topic),
            f"{topic} has a route",
            until=lambda found: {name for name, _ in found} >= set(names or self.brokers),
        )

    def know_group(self, group: str, topic: str) -> None:
        """Its retry topics have routes: clients look for a missing one every 30 s."""
        for broker in self.brokers.values():
            with Client(broker.address) as client:
                assert client.heartbeat("early", group, topic).code == 0
        eventually(
            lambda: self.queues(f"%RETRY%{group}"),
            "the retry topic has a route",
            until=lambda found: {name for name, _ in found} >= set(self.brokers),
        )

    def queues(self, topic: str) -> set[Queue]:
        """Those that the name server knows."""
        host, _, port = self.namesrv.rpartition(":")
        with Client((host, int(port))) as names:
            answer = names.call(GET_ROUTEINFO_BY_TOPIC, topic=topic)
        if answer.code != 0:
            return set()
        datas = fastjson.loads_object(answer.body)["queueDatas"]
        return {(data["brokerName"], n) for data in datas for n in range(data["readQueueNums"])}

    def owners(self, group: str, topic: str) -> dict[str, set[Queue]]:
        """Which queues of the topic each member says that it has, by client id. A member that does
        not say has none."""
        asked: dict[str, peer.Address] = {}
        try:
            for broker in self.brokers.values():
                with Client(broker.address) as client:
                    answer = client.call(GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)
                if answer.code == 0:
                    for member in fastjson.loads_object(answer.body)["consumerIdList"]:
                        asked.setdefault(member, broker.address)
            return {member: _held(at, group, member, topic) for member, at in asked.items()}
        except (OSError, Closed):
            return {}  # a broker is away


def _held(broker: peer.Address, group: str, member: str, topic: str) -> set[Queue]:
    with Client(broker) as client:
        ext = {"consumerGroup": group, "clientId": member, "jstackEnable": "false"}
        answer = client.call(GET_CONSUMER_RUNNING_INFO, **ext)
    if answer.code != 0 or not answer.body:
        return set()  # the Go client fails at a rate that is no number between second 10 and 20
    found: dict[Any, dict[str, Any]] = fastjson.loads_object(answer.body)["mqTable"]
    queues = [(dict(key), info) for key, info in found.items()]
    return {
        (queue["brokerName"], queue["queueId"])
        for queue, info in queues
        if queue["topic"] == topic and not info.get("droped", info.get("dropped"))
    }


@contextmanager
def cluster(kind: str, folder: Path, brokers: int, conf: str = "") -> Iterator[Cluster]:
    """`kind`: "pyrmq" or "apache". Its brokers are broker-a, broker-b, …"""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        running = Cluster(kind, folder, stack, conf)
        for letter in "abcdefgh"[:brokers]:
            running.add(f"broker-{letter}")
        yield running
