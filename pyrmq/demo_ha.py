"""`make demo-ha`: nothing acknowledged is lost when the master's machine is gone.

A name server, a SYNC_MASTER and its slave run as processes of their own. A producer sends, a
consumer reads. The master is killed (SIGKILL); the consumer reads on from the slave, an operator
promotes the slave, and sends go on. At the end every acknowledged message must have arrived.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from pyrmq.admin import Admin
from pyrmq.client import ConsumeFrom, Producer, PushConsumer
from pyrmq.errors import PyrmqError
from pyrmq.model.message import Message, SendStatus

TOPIC = "DemoOrders"
GROUP = "demo-consumers"
DEADLINE = 180.0
READ_ON = 60.0
"""Seconds that the consumer may take to read on from the slave."""

_BROKER = """brokerName=demo
brokerIP1=127.0.0.1
bindAddress=127.0.0.1
listenPort=0
mappedFileSizeCommitLog=1048576
slaveReadEnable=true
inSyncReplicas=2
brokerRole={role}
brokerId={number}
storePathRootDir={store}
"""


class Node:
    """One server as a process."""

    def __init__(self, folder: Path, name: str, *args: str, config: str) -> None:
        path = folder / f"{name}.conf"
        path.write_text(config)
        command = [sys.executable, "-m", "pyrmq", *args, "-c", str(path), "--log-level", "error"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        words = dict(w.partition("=")[::2] for w in self._process.stdout.readline().split())
        if "ready" not in words:
            self.kill()
            raise SystemExit(f"demo: the {name} did not start, see above")
        self.address = words.get("broker") or words["namesrv"]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Cluster:
    """A name server, a master and a slave."""

    def __init__(self, folder: Path) -> None:
        self._nodes: list[Node] = []
        names = f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={folder}/kv.json\n"
        try:
            self.namesrv = self._node(folder, "namesrv", "namesrv", config=names).address
            self.master = self._broker(folder, "master", "SYNC_MASTER", 0)
            self.slave = self._broker(folder, "slave", "SLAVE", 1)
        except BaseException:
            self.stop()
            raise

    def _broker(self, folder: Path, name: str, role: str, number: int) -> Node:
        config = _BROKER.format(role=role, number=number, store=folder / name)
        return self._node(folder, name, "broker", "-n", self.namesrv, config=config)

    def _node(self, folder: Path, name: str, *args: str, config: str) -> Node:
        node = Node(folder, name, *args, config=config)
        self._nodes.append(node)
        return node

    def stop(self) -> None:
        """Ends all that run, whatever has failed."""
        for node in reversed(self._nodes):
            node.kill()


async def _in_sync(namesrv: str, master: str) -> None:
    async with Admin(namesrv) as admin:
        while True:
            (outcome,) = await admin.brokers.ha(broker=master)
            if outcome.value is not None and outcome.value.in_sync_slaves:
                return
            await trio.sleep(0.1)


async def _send(producer: Producer, first: int, count: int, acknowledged: set[str]) -> None:
    """Sends until each is acknowledged: a message that is not may have arrived all the same."""
    for n in range(first, first + count):
        key = f"order-{n}"
        while key not in acknowledged:
            try:
                result = await producer.send(Message(TOPIC, key.encode(), keys=key))
            except PyrmqError:
                await trio.sleep(0.2)
                continue
            if result.status is SendStatus.SEND_OK:
                acknowledged.add(key)


async def _all_seen(seen: Counter[str], acknowledged: set[str]) -> None:
    while not acknowledged <= seen.keys():  # noqa: ASYNC110 - what feeds it is no event
        await trio.sleep(0.05)


async def run(count: int) -> int:
    """Exit code: 0 if nothing that was acknowledged is lost."""
    acknowledged: set[str] = set()
    seen: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        try:
            with trio.fail_after(DEADLINE):
                await _play(cluster, count, acknowledged, seen)
        finally:
            cluster.stop()
    lost = acknowledged - seen.keys()
    print(
        f"acknowledged {len(acknowledged)}, delivered {len(seen)} "
        f"({sum(seen.values()) - len(seen)} more than once), lost {len(lost)}"
    )
    return 1 if lost else 0


async def _play(cluster: Cluster, count: int, acknowledged: set[str], seen: Counter[str]) -> None:
    late: Counter[str] = Counter()

    async def listen(group: str, into: Counter[str], *, task_status: trio.TaskStatus[None]) -> None:
        async with PushConsumer(
            group, {TOPIC: "*"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
        ) as consumer:
            task_status.started()
            async for message in consumer:
                into[message.keys[0]] += 1
                consumer.acknowledge(message)

    namesrv = cluster.namesrv
    async with trio.open_nursery() as nursery:
        await _in_sync(namesrv, cluster.master.address)
        print(f"master {cluster.master.address} (SYNC_MASTER), slave {cluster.slave.address}")
        async with Producer("demo-producers", namesrv=namesrv) as producer:
            await _send(producer, 0, count, acknowledged)
            await nursery.start(listen, GROUP, seen)
            await _all_seen(seen, acknowledged)
            print(f"{len(acknowledged)} messages sent and consumed")
            await _send(producer, count, count, acknowledged)
            cluster.master.kill()
            began = time.monotonic()
            print(f"{count} more sent; the master is killed (SIGKILL)")
            with trio.fail_after(READ_ON):
                await nursery.start(listen, f"{GROUP}-late", late)
                await _all_seen(seen, acknowledged)
                await _all_seen(late, acknowledged)
            seconds = time.monotonic() - began
            print(f"the consumer went on, and a new group read all from the slave: {seconds:.1f} s")
            async with Admin(namesrv) as admin:
                await admin.brokers.promote(cluster.slave.address, sync=False)
            print("the slave is promoted: pyrmq admin broker promote")
            began = time.monotonic()
            await _send(producer, 2 * count, count, acknowledged)
            print(f"{count} more sent to it in {time.monotonic() - began:.1f} s")
            await _all_seen(seen, acknowledged)
            await _all_seen(late, acknowledged)
        nursery.cancel_scope.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    logging.disable(logging.WARNING)  # that connections end here is no news
    parser.add_argument("--count", type=int, default=300, help="messages of each part")
    sys.exit(trio.run(run, parser.parse_args().count))


if __name__ == "__main__":
    main()
