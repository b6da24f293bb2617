"""`make demo`: messages survive a broker that is killed.

A server process is started on free loopback ports with a temporary store. One producer sends
messages with tags and keys, two consumers of one group share them; in between the server is
killed (SIGKILL) and started again. At the end every acknowledged message must have arrived.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from pyrmq.client import ConsumeFrom, Producer, PushConsumer
from pyrmq.errors import PyrmqError, leaves
from pyrmq.escape import escape
from pyrmq.model.message import Message

TOPIC = "DemoOrders"
GROUP = "demo-consumers"
TAGS = ("created", "paid", "shipped")
DEADLINE = 120.0
SMALL_FILES = "mappedFileSizeCommitLog=1048576\n"


class Server:
    """The server as a process of its own, so that killing it is real."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._config = folder / "broker.conf"
        self._config.write_text(SMALL_FILES)
        self._process: subprocess.Popen[str] | None = None
        self.namesrv = "127.0.0.1:0"
        self._broker_port = "0"

    def start(self) -> float:
        """Starts it (on the ports it had before) and returns the seconds it took."""
        began = time.monotonic()
        ports = ["--namesrv-port", self.namesrv.rpartition(":")[2]]
        ports += ["--broker-port", self._broker_port]
        command = [sys.executable, "-m", "pyrmq", "server", "-c", str(self._config), *ports]
        command += ["--store", str(self._folder / "store"), "--log-level", "error"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        words = dict(w.partition("=")[::2] for w in self._process.stdout.readline().split())
        if "namesrv" not in words:
            raise SystemExit("demo: the server did not start, see above")
        self.namesrv = words["namesrv"]
        self._broker_port = words["broker"].rpartition(":")[2]
        return time.monotonic() - began

    def kill(self) -> None:
        """Ends it at once, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=30)


async def _produce(namesrv: str, first: int, count: int, sent: set[str]) -> None:
    async with Producer("demo-producers", namesrv=namesrv) as producer:
        for n in range(first, first + count):
            tag = TAGS[n % len(TAGS)]
            body = f"order {n} {tag}".encode()
            await producer.send(Message(TOPIC, body, tags=tag, keys=f"order-{n}"))
            sent.add(f"order-{n}")


async def _consume(namesrv: str, seen: Counter[str], done: Callable[[], bool]) -> None:
    async with PushConsumer(
        GROUP, {TOPIC: "*"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        async for message in consumer:
            seen[message.keys[0]] += 1
            consumer.acknowledge(message)
            if done():
                return


async def _run(folder: Path, count: int) -> bool:
    server = Server(folder)
    try:
        return await _play(server, count)
    finally:
        server.kill()  # whatever failed: it outlives the demo otherwise


async def _play(server: Server, count: int) -> bool:
    seconds = await trio.to_thread.run_sync(server.start)
    print(f"  server ready in {seconds:.2f} s, name server {server.namesrv}")
    sent: set[str] = set()
    seen: tuple[Counter[str], Counter[str]] = (Counter(), Counter())

    def arrived() -> set[str]:
        return set(seen[0]) | set(seen[1])

    def all_arrived() -> bool:
        return len(sent) == count and sent <= arrived()

    with trio.move_on_after(DEADLINE) as limit:
        async with trio.open_nursery() as nursery:
            for counter in seen:
                nursery.start_soon(_consume, server.namesrv, counter, all_arrived)
            await _produce(server.namesrv, 0, count // 2, sent)
            print(f"  {len(sent)} messages acknowledged; now the server is killed (SIGKILL)")
            print("  the consumers wait until it is back")
            await trio.to_thread.run_sync(server.kill)
            seconds = await trio.to_thread.run_sync(server.start)
            print(f"  server ready again in {seconds:.2f} s, store recovered")
            await _produce(server.namesrv, count // 2, count - count // 2, sent)
            print(f"  {len(sent)} messages acknowledged in all")
            while not all_arrived():  # noqa: ASYNC110 - two consumers feed this
                await trio.sleep(0.02)
            nursery.cancel_scope.cancel()
    code = await trio.to_thread.run_sync(server.stop)
    lost = sent - arrived()
    twice = sum(n - 1 for n in (seen[0] + seen[1]).values())
    tags = Counter(k for k in (TAGS[int(key[6:]) % len(TAGS)] for key in arrived()))
    print()
    print(f"  sent and acknowledged   {len(sent)}")
    print(f"  arrived                 {len(arrived())}  ({_by_tag(tags)})")
    print(f"  consumer 1 / 2          {sum(seen[0].values())} / {sum(seen[1].values())}")
    print(f"  delivered again         {twice}  (at least once: a kill may repeat some)")
    print(f"  lost                    {len(lost)}")
    print(f"  server's exit code      {code}")
    if limit.cancelled_caught:
        print(f"  NOT finished within {DEADLINE:g} s")
    return not lost and not code and not limit.cancelled_caught and len(sent) == count


def _by_tag(tags: Counter[str]) -> str:
    return ", ".join(f"{tag}: {tags[tag]}" for tag in TAGS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=600)
    count = parser.parse_args().messages
    print("pyrmq demo: one producer, two consumers of one group, a broker that is killed\n")
    with TemporaryDirectory(prefix="pyrmq-demo-") as folder:
        try:
            ok = trio.run(_run, Path(folder), count)
        except (PyrmqError, BaseExceptionGroup) as e:
            print(
                *(escape(f"  failed: {type(leaf).__name__}: {leaf}") for leaf in leaves(e)),
                sep="\n",
            )
            ok = False
    print("\nnothing is lost" if ok else "\nFAILED")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
