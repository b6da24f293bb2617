"""Transactions with foreign clients: the broker they talk to, and runs of their listeners.

The broker is ours with short intervals, or Apache RocketMQ's with the environment variable
PYRMQ_INTEROP_PEER=1: that is how the tests themselves are checked.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.client import Client
from tests.support.records import Record
from tests.support.server import ServerProcess

from . import halves, toolchain
from .drivers import Driver, Line, Report, Running
from .store import peer

CHECK_MAX = 5
TIMING = """\
transactionTimeOut=2000
transactionCheckInterval=1000
"""
CONF = f"{TIMING}transactionCheckMax={CHECK_MAX}\n"
PEER_CONF = "transactionOpBatchInterval=100\n"
"""Otherwise Apache's broker asks again about what it has settled within the last 3 s."""
QUEUES = 4
PROBE = "probe"


@dataclass(frozen=True)
class TxnServer:
    """A name server and a broker with short intervals; `state` is for messages of failures."""

    process: ServerProcess | peer.RealBroker
    namesrv: str
    address: tuple[str, int]

    def state(self) -> str:
        text = self.process.stderr_text() if isinstance(self.process, ServerProcess) else ""
        return f"the server {'runs' if self.process.running else 'has ended'}; {text[-4000:]}"

    @property
    def ours(self) -> bool:
        return isinstance(self.process, ServerProcess)


def use_peer() -> bool:
    return os.environ.get("PYRMQ_INTEROP_PEER") == "1"


@contextmanager
def serving(folder: Path, conf: str = CONF, peer_conf: str = PEER_CONF) -> Iterator[TxnServer]:
    """A server with this configuration; Apache's broker gets `peer_conf` as well."""
    if use_peer():
        with peer.NameServer(folder / "namesrv") as names:
            home = folder / "apache"
            both = conf + peer_conf
            with peer.RealBroker(folder / "store", names.address, both, home=home) as broker:
                yield TxnServer(broker, names.address, broker.address)
    else:
        with ServerProcess(folder / "store", conf=conf) as server:
            yield TxnServer(server, "{}:{}".format(*server.namesrv), server.broker)


@dataclass(frozen=True)
class Topics:
    """Those of one client: one for each sample, one for the rest."""

    client: str

    @property
    def numbers(self) -> str:
        return f"Numbers-{self._safe}"

    @property
    def tags(self) -> str:
        return f"Tags-{self._safe}"

    @property
    def matrix(self) -> str:
        return f"Matrix-{self._safe}"

    @property
    def every(self) -> tuple[str, ...]:
        return self.numbers, self.tags, self.matrix

    @property
    def _safe(self) -> str:
        return self.client.replace(".", "-")


@dataclass(frozen=True)
class Run:
    """What became of all messages of one client: its own lines, its consumer's, and the store's."""

    topics: Topics
    report: Report
    received: Sequence[Line]
    records: dict[str, list[Record]]
    """Everything in the topics, by topic."""
    overflow: list[Record]

    def sent(self, name: str) -> Line:
        (line,) = (line for line in self.report.sent if line["name"] == name)
        return line

    def checks(self, name: str) -> list[Line]:
        return [line for line in self.report.of("checked") if line["name"] == name]

    def delivered(self, name: str) -> list[Line]:
        return [line for line in self.received if line["properties"].get("name") == name]

    def names(self, topic: str) -> Counter[str]:
        """How often each message is stored in the topic."""
        return Counter(halves.names(self.records[topic]))


NUMBERS = [
    f"Num{i}:{'rollback' if i < 2 else 'commit' if i < 8 else 'unknown>commit'}" for i in range(10)
]
"""Sample of RocketMQ's documentation: two rolled back, two left to the check, six committed."""
TAGS = ["a:commit?tag=TAGA", "b:rollback?tag=TAGB", "c:unknown>commit?tag=TAGC"]
"""Sample of RocketMQ's documentation: the tag says what becomes of a message."""
MATRIX = [
    "commit:commit?tag=TagX&flag=77",
    "rollback:rollback",
    "check-commit:unknown>commit?tag=TagX&flag=77",
    "check-rollback:unknown>rollback",
    "third:unknown>unknown*2>commit",
    "throw:throw>commit",
    "null:null>commit",
    f"forever:unknown>unknown*{CHECK_MAX}",
    "immune:unknown>commit?immunity=3",
    "no-keys:commit?key=",
    "no-keys-check:unknown>commit?key=",
    "large:commit?size=30000",
    "large-check:unknown>commit?size=30000",
    "late:await-1-commit>unknown",
]
OLD_JAVA_ONLY = ["delayed:commit?delay=4"]
"""The client says that it ignores the delay; from 5.5 on it refuses to send that."""
JAVA_ONLY = [
    "check-throw:unknown>throw>commit",
    "check-null:unknown>null>commit",
    "late-check:unknown>await-2-commit>unknown",
]
GO_ONLY = ["queue:commit?queue=3", "queue-check:unknown>commit?queue=2"]
LOST = {"rollback", "check-rollback", "forever"}
DECIDED_AT_ONCE = {"commit", "rollback", "no-keys", "large", "queue", "delayed"}


def _matrix(client: str) -> list[str]:
    if client == "go":
        return MATRIX + GO_ONLY
    old = client.removeprefix("java-") in toolchain.OLDER_JAVA_CLIENTS
    return MATRIX + JAVA_ONLY + (OLD_JAVA_ONLY if old else [])


def plans_of(client: str) -> list[str]:
    topics = Topics(client)
    tags = [f"{plan}&topic={topics.tags}" for plan in TAGS]
    return [f"{plan}?topic={topics.numbers}" for plan in NUMBERS] + tags + _matrix(client)


def names_of(client: str) -> set[str]:
    """The names of the matrix."""
    return {plan.split(":")[0] for plan in _matrix(client)}


def run_plans(server: TxnServer, driver: Driver, plans: Sequence[str], deliveries: int) -> Run:
    """Sends what the plans say, one of them never answered, answers the checks, consumes
    `deliveries` messages and one more.

    That one is sent when every listener has been called as often as planned, and is committed by a
    check: once it is there, a pass has gone by that has asked about whatever was still pending.
    """
    topics = Topics(driver.name)
    group = f"PG-{driver.name}".replace(".", "-")
    words: dict[str, Any] = {"topic": topics.matrix, "group": group, "plan": ";".join(plans)}
    with driver.start("produce-transaction", timeout=150, **words) as producer:
        producer.wait_for(lambda report: len(report.of("executed")) == len(plans), "all halves")
        every = ",".join(topics.every)
        words = {"topic": every, "group": f"C-{group}", "count": deliveries + 1}
        with driver.start("consume", timeout=150, **words) as consumer:
            producer.wait_for(lambda report: bool(report.of("complete")), "all checks")
            producer.tell(f"{PROBE}:unknown>commit")
            producer.wait_for(lambda report: len(report.of("complete")) == 2, "the last check")
            received = consumer.finish().received
        with Client(server.address) as client:
            overflow = halves.await_stored(
                client, halves.OVERFLOW, lambda records: bool(_of(topics, records))
            )
            records = {topic: halves.stored(client, topic, QUEUES) for topic in topics.every}
        report = producer.finish()
    return Run(topics, report, received, records, _of(topics, overflow))


def _of(topics: Topics, records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.properties["REAL_TOPIC"] in topics.every]


ORPHANS = {f"orphan{i}" for i in range(6)}


def names_checked(report: Report) -> set[str]:
    return {line["name"] for line in report.of("checked")}


def take_over(server: TxnServer, victim: Driver, heir: Driver) -> list[str]:
    """A producer is killed in the middle of its local transactions, another one of its group
    commits them; the names of what is stored then."""
    group = f"PG-{victim.name}-{heir.name}".replace(".", "-")
    topic = f"T-{group}"
    words: dict[str, Any] = {"topic": topic, "group": group}
    plan = ";".join(f"{name}:unknown>commit" for name in sorted(ORPHANS))
    with heir.start("answer-transaction", plan=plan, **words) as lives:
        plan = ";".join(f"{name}:never>never" for name in sorted(ORPHANS))
        with victim.start("produce-transaction", plan=plan, **words) as dies:
            dies.wait_for(lambda report: len(report.of("executed")) == len(ORPHANS), "all halves")
            dies.kill()
        lives.wait_for(lambda report: names_checked(report) >= ORPHANS, "a check of each")
        return after_a_probe(server, lives, topic, ORPHANS)


def after_a_probe(server: TxnServer, producer: Running, topic: str, wanted: set[str]) -> list[str]:
    """Waits for what has to be stored, then for a whole pass; the names of what is stored then."""
    with Client(server.address) as client:
        halves.await_stored(client, topic, lambda r: wanted <= set(halves.names(r)), QUEUES)
        producer.tell(f"{PROBE}:unknown>commit")
        producer.wait_for(lambda report: PROBE in names_checked(report), "the last check")
        found = halves.await_stored(client, topic, lambda r: PROBE in halves.names(r), QUEUES)
    producer.finish()
    return halves.names(found)
