"""Apache Kafka, loaded by its own client, kafka-producer-perf-test.sh.

A window of it is a number of records: what it did in the window before says how many. Its client is
a new JVM for each window, so a window is LEAST_SECONDS long or longer. Its producer
makes batches by itself (batch.size, linger.ms: defaults), so its requests are not ours: compare
rates of messages, not of requests. Its latency begins when a record is given to the producer.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from pyrmq.bench.peers.apache import java
from pyrmq.bench.peers.ours import folder
from pyrmq.bench.peers.peer import (
    Load,
    Measured,
    Plan,
    Serving,
    Unavailable,
    cpu_per_message,
    cpu_seconds,
    free_ports,
    output_of,
    process,
)
from pyrmq.bench.result import BenchError
from pyrmq.escape import escape

FIRST = 20_000
"""Records of a first try."""
MOST = 20_000_000
LEAST_SECONDS = 10.0
"""A shorter run of a client would mostly measure its start."""
ADVICE = (
    "unpack a binary release of kafka.apache.org/downloads (kafka_2.13-….tgz) and give its folder "
    "with --kafka-home"
)
_TOTAL = re.compile(
    r"([\d]+) records sent, ([\d.]+) records/sec .*?([\d.]+) ms avg latency, ([\d.]+) ms max "
    r"latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th"
)


class Kafka:
    """home: an unpacked release, with bin/ and libs/."""

    key, title, compiles = "kafka", "Apache Kafka", True

    def __init__(self, home: Path | None = None) -> None:
        found = shutil.which("kafka-producer-perf-test.sh")
        self._home = home or (Path(found).resolve().parent.parent if found else None)
        self._rates: dict[str, float] = {}

    def _script(self, name: str) -> str:
        assert self._home is not None
        return str(self._home / "bin" / name)

    def require(self) -> None:
        if self._home is None:
            raise Unavailable(f"kafka-producer-perf-test.sh is missing: {ADVICE}")
        for name in ("kafka-storage.sh", "kafka-server-start.sh", "kafka-producer-perf-test.sh"):
            if not Path(self._script(name)).is_file():
                raise Unavailable(f"{escape(str(self._home))} has no bin/{name}: {ADVICE}")
        java()

    @contextmanager
    def serve(self, plan: Plan) -> Iterator[Serving]:
        with folder("kafka", plan) as home:
            port = free_ports(1)
            flush = "log.flush.interval.messages=1" if plan.flush == "SYNC_FLUSH" else ""
            conf = home / "server.properties"
            conf.write_text(
                "process.roles=broker,controller\nnode.id=1\n"
                f"controller.quorum.voters=1@127.0.0.1:{port + 1}\n"
                f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}\n"
                f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n"
                "controller.listener.names=CONTROLLER\n"
                f"log.dirs={home}/store\nnum.partitions=4\noffsets.topic.replication.factor=1\n"
                "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
                f"{flush}\n"
            )
            environment = {
                "KAFKA_HEAP_OPTS": f"-Xms{plan.heap} -Xmx{plan.heap} -XX:+AlwaysPreTouch",
                "LOG_DIR": str(home / "logs"),
            }
            identity = output_of([self._script("kafka-storage.sh"), "random-uuid"], 120.0)
            words = ["format", "-t", identity.split()[-1], "-c", str(conf)]
            output_of([self._script("kafka-storage.sh"), *words], 120.0)
            start = [self._script("kafka-server-start.sh"), str(conf)]
            # What it prints depends on how its logs are configured.
            with process(start, port, home / "log", environment, home) as (server, _):
                yield Serving(
                    f"127.0.0.1:{port}",
                    server.pid,
                    self._version(),
                    ["kafka-server-start.sh", str(conf)],
                    f"KRaft, 4 partitions, acks=1{', ' if flush else ''}{flush}",
                )

    def _version(self) -> str:
        assert self._home is not None
        names = sorted(path.name for path in (self._home / "libs").glob("kafka-clients-*.jar"))
        match = re.search(r"clients-(.+)\.jar$", names[-1]) if names else None
        return match[1] if match else ""

    def load(self, serving: Serving, load: Load, seconds: float, warmup: float) -> Measured:
        cores = len(os.sched_getaffinity(0))
        if load.connections > cores:
            raise Unavailable(
                f"{load.connections} connections would be as many JVMs on {cores} cores: their "
                "start would be most of what is measured"
            )
        if load.name not in self._rates:
            self._rates[load.name] = self._first_rate(serving, load)
        # A client of its own is warm only within its run: `warmup` is a part of that.
        length = max(seconds + warmup, LEAST_SECONDS)
        found = self._run(serving, load, min(MOST, round(self._rates[load.name] * length)))
        self._rates[load.name] = found.rate
        return found

    def _first_rate(self, serving: Serving, load: Load) -> float:
        """Of a run that is long enough to tell it."""
        count = FIRST
        while True:
            found = self._run(serving, load, count)
            if found.seconds >= LEAST_SECONDS / 3 or count * 4 > MOST:
                return found.rate
            count *= 4

    def _run(self, serving: Serving, load: Load, count: int) -> Measured:
        each = max(1, count // load.connections)
        words = [self._script("kafka-producer-perf-test.sh"), "--topic", "bench"]
        words += ["--num-records", str(each), "--record-size", str(load.size)]
        words += ["--throughput", "-1", "--producer-props", f"bootstrap.servers={serving.address}"]
        words += ["acks=1"]
        before, began = cpu_seconds(serving.pid), time.perf_counter()
        with ThreadPoolExecutor(load.connections) as pool:
            texts = list(pool.map(lambda _: output_of(words, 600.0), range(load.connections)))
        spent = time.perf_counter() - began
        cpu = cpu_per_message(before, cpu_seconds(serving.pid), each * load.connections)
        command = ["kafka-producer-perf-test.sh", *words[1:]]
        return read_output(texts, spent, command, cpu)


def read_output(
    texts: list[str], spent: float, command: list[str], cpu: float | None = None
) -> Measured:
    """What the clients printed, as one window; `spent`: seconds with the start of their JVMs.
    BenchError if one printed no total."""
    totals = []
    for text in texts:
        matches = list(_TOTAL.finditer(text))
        if not matches:
            said = escape(text[-500:])
            raise BenchError(f"kafka-producer-perf-test.sh printed no total: {said}")
        totals.append([float(value) for value in matches[-1].groups()])
    messages = int(sum(total[0] for total in totals))
    rate = sum(total[1] for total in totals)
    if rate <= 0:
        raise BenchError("kafka-producer-perf-test.sh had a rate of 0")
    notes = [
        "its producer makes batches by itself, and sends as fast as it can: its latency, in whole "
        "milliseconds, is mostly the time in the producer's own buffer"
    ]
    if len(totals) > 1:
        notes.append("rates of its clients are added, percentiles are those of the slowest")
    return Measured(
        rate=rate,
        messages=messages,
        seconds=min(messages / rate, spent) if spent else messages / rate,
        p50_us=max(total[4] for total in totals) * 1000,
        p99_us=max(total[6] for total in totals) * 1000,
        p999_us=max(total[7] for total in totals) * 1000,
        server_cpu_us=cpu,
        errors=0,
        client="kafka-producer-perf-test.sh",
        command=command,
        notes=notes,
    )
