"""Apache Kafka, loaded by its own clients, kafka-producer-perf-test.sh and, for pulls,
kafka-consumer-perf-test.sh. It is an unpacked release, or its jars by Maven.

A window of it is a number of records: what it did in the window before says how many. Its client is
a new JVM for each window, so a window is LEAST_SECONDS long or longer. Its producer
makes batches by itself (batch.size, linger.ms: defaults), so its requests are not ours: compare
rates of messages, not of requests. Its latency begins when a record is given to the producer.
Its consumer's fetches bring up to a MiB of each partition.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from pyrmq.bench.peers.jvm import cache, fetch, fetched, java
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
PULLED = 500_000
"""Records of a window that pulls."""
LEAST_SECONDS = 10.0
"""A shorter run of a client would mostly measure its start."""
VERSION = "4.1.1"
ADVICE = (
    "fetch it with --install (needs Maven), or unpack a binary release of "
    "kafka.apache.org/downloads (kafka_2.13-….tgz) and give its folder with --kafka-home"
)
TOPIC = "bench"
BROKER_JVM = (
    *("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:+ExplicitGCInvokesConcurrent"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-Djava.awt.headless=true"),
)
TOOLS = {
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-producer-perf-test.sh": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test.sh": "org.apache.kafka.tools.ConsumerPerformance",
}
"""Scripts of a release, and the classes that they start."""
_TOTAL = re.compile(
    r"([\d]+) records sent, ([\d.]+) records/sec .*?([\d.]+) ms avg latency, ([\d.]+) ms max "
    r"latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th"
)
_CONSUMED = re.compile(
    r"^[\d: .-]+, [\d: .-]+, [\d.]+, [\d.]+, (\d+), [\d.]+, .*, ([\d.]+)$", re.MULTILINE
)


class Kafka:
    """home: an unpacked release, with bin/ and libs/; default: that of the script on PATH, or its
    jars by Maven, kept. install: fetches these."""

    key, title, compiles = "kafka", "Apache Kafka", True

    def __init__(self, home: Path | None = None, install: bool = False) -> None:
        found = shutil.which("kafka-producer-perf-test.sh")
        self._home = home or (Path(found).resolve().parent.parent if found else None)
        self._install = install
        self._rates: dict[str, float] = {}
        self._stored = 0

    @property
    def _fetched(self) -> Path:
        return cache() / f"kafka-{VERSION}"

    def _tool(self, name: str, *options: str) -> list[str]:
        """What starts it; `options` are for its JVM where no script has its own."""
        if self._home is not None:
            return [str(self._home / "bin" / name)]
        return [java(), *options, "-cp", str(self._fetched / "lib" / "*"), TOOLS[name]]

    def require(self) -> None:
        if self._home is None and not (self._install or fetched(self._fetched)):
            raise Unavailable(f"it is not here: {ADVICE}")
        for name in TOOLS if self._home is not None else ():
            if not Path(self._tool(name)[0]).is_file():
                raise Unavailable(f"{escape(str(self._home))} has no bin/{name}: {ADVICE}")
        java()
        if self._home is None:
            parts = ("kafka_2.13", "kafka-tools")
            artifacts = [("org.apache.kafka", part, VERSION) for part in parts]
            fetch(self._fetched, artifacts, "give an unpacked release with --kafka-home")

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
            heap = [f"-Xms{plan.heap}", f"-Xmx{plan.heap}", "-XX:+AlwaysPreTouch"]
            environment = {"KAFKA_HEAP_OPTS": " ".join(heap), "LOG_DIR": str(home / "logs")}
            format_ = ["format", "-t", _identity(), "-c", str(conf)]
            output_of([*self._tool("kafka-storage.sh"), *format_], 120.0)
            start = [*self._tool("kafka-server-start.sh", *heap, *BROKER_JVM), str(conf)]
            self._rates, self._stored = {}, 0
            # What it prints depends on how its logs are configured.
            with process(start, port, home / "log", environment, home) as (server, _):
                yield Serving(
                    f"127.0.0.1:{port}",
                    server.pid,
                    self._version(),
                    [Path(start[0]).name, *start[1:]],
                    f"KRaft, 4 partitions, acks=1{', ' if flush else ''}{flush}",
                )

    def _version(self) -> str:
        libs = self._home / "libs" if self._home is not None else self._fetched / "lib"
        names = sorted(path.name for path in libs.glob("kafka-clients-*.jar"))
        match = re.search(r"clients-(.+)\.jar$", names[-1]) if names else None
        return match[1] if match else ""

    def load(self, serving: Serving, load: Load, seconds: float, warmup: float) -> Measured:
        if load.mode == "latency" or load.topics > 1:
            raise Unavailable("its clients have no such load")
        cores = len(os.sched_getaffinity(0))
        if load.connections > cores:
            raise Unavailable(
                f"{load.connections} connections would be as many JVMs on {cores} cores: their "
                "start would be most of what is measured"
            )
        if load.mode == "pull":
            return self._run(serving, load, PULLED)
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
        pulls = load.mode == "pull"
        if pulls and self._stored < each:
            self._send(serving, each - self._stored, load.size)
        name = "kafka-consumer-perf-test.sh" if pulls else "kafka-producer-perf-test.sh"
        words = self._consume(serving, each) if pulls else self._produce(serving, each, load.size)
        before, began = cpu_seconds(serving.pid), time.perf_counter()
        with ThreadPoolExecutor(load.connections) as pool:
            texts = list(pool.map(lambda _: output_of(words, 600.0), range(load.connections)))
        spent = time.perf_counter() - began
        cpu = cpu_per_message(before, cpu_seconds(serving.pid), each * load.connections)
        command = [name, *words[len(self._tool(name)) :]]
        if pulls:
            return read_consumed(texts, command, cpu)
        self._stored += each * load.connections
        return read_output(texts, spent, command, cpu)

    def _produce(self, serving: Serving, count: int, size: int) -> list[str]:
        words = [*self._tool("kafka-producer-perf-test.sh"), "--topic", TOPIC]
        words += ["--num-records", str(count), "--record-size", str(size), "--throughput", "-1"]
        return [*words, "--producer-props", f"bootstrap.servers={serving.address}", "acks=1"]

    def _consume(self, serving: Serving, count: int) -> list[str]:
        words = [*self._tool("kafka-consumer-perf-test.sh"), "--topic", TOPIC]
        return [*words, "--messages", str(count), "--bootstrap-server", serving.address]

    def _send(self, serving: Serving, count: int, size: int) -> None:
        """Stores what is consumed."""
        output_of(self._produce(serving, count, size), 600.0)
        self._stored += count


def _identity() -> str:
    """A cluster's, as random-uuid of kafka-storage.sh has it: no dash in front."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def read_consumed(texts: list[str], command: list[str], cpu: float | None = None) -> Measured:
    """What kafka-consumer-perf-test.sh printed, as one window: without the time in which its group
    came about. BenchError if one printed no figures."""
    found = [_CONSUMED.search(text) for text in texts]
    missing = next((text for text, match in zip(texts, found, strict=True) if not match), None)
    if missing is not None:
        said = escape(missing[-500:])
        raise BenchError(f"kafka-consumer-perf-test.sh printed no figures: {said}")
    messages = sum(int(match[1]) for match in found if match)
    rate = sum(float(match[2]) for match in found if match)
    if rate <= 0:
        raise BenchError("kafka-consumer-perf-test.sh had a rate of 0")
    return Measured(
        rate=rate,
        messages=messages,
        seconds=messages / rate,
        p50_us=None,
        p99_us=None,
        p999_us=None,
        server_cpu_us=cpu,
        errors=0,
        client="kafka-consumer-perf-test.sh",
        command=command,
        notes=["its consumer's fetches bring up to a MiB of each partition"],
    )


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
