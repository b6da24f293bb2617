"""Apache RocketMQ: an installed one, or its jars from Maven Central.

JVM options are those of its start script but for the heap, which is smaller, and touched at first
so that no window pays for that.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyrmq.bench.peers import remoting
from pyrmq.bench.peers.jvm import cache, fetch, java
from pyrmq.bench.peers.ours import folder
from pyrmq.bench.peers.peer import (
    Load,
    Measured,
    Plan,
    Serving,
    Unavailable,
    free_ports,
    process,
)
from pyrmq.escape import escape

VERSION = "5.3.3"
BROKER_JVM = (
    *("-server", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:G1ReservePercent=25"),
    *("-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0"),
    *("-XX:-OmitStackTraceInFastThrow", "-XX:+AlwaysPreTouch", "-XX:MaxDirectMemorySize=15g"),
    *("-XX:-UseLargePages", "-XX:-UseBiasedLocking", "-XX:+IgnoreUnrecognizedVMOptions"),
)
OPENED = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)
READY = "boot success"


class Apache:
    """home: an unpacked release (with lib/); default: jars of `version` by Maven, kept."""

    key, title, compiles = "apache", "Apache RocketMQ", True

    def __init__(self, home: Path | None = None, version: str = VERSION) -> None:
        self._home = home
        self._version = version

    @property
    def _jars(self) -> Path:
        return self._home / "lib" if self._home else cache() / f"rocketmq-{self._version}" / "lib"

    def require(self) -> None:
        java()
        if self._home is not None:
            if not list(self._jars.glob("rocketmq-broker-*.jar")):
                raise Unavailable(
                    f"--apache-home {escape(str(self._home))} has no lib/rocketmq-broker-*.jar: "
                    "unpack rocketmq-all-…-bin-release.zip of rocketmq.apache.org"
                )
        else:
            parts = ("rocketmq-namesrv", "rocketmq-broker")
            fetch(
                self._jars.parent,
                [("org.apache.rocketmq", part, self._version) for part in parts],
                f"give an unpacked release {self._version} with --apache-home",
            )

    def _command(self, home: Path, heap: str, *words: str) -> list[str]:
        classes = os.pathsep.join([str(self._jars / "*")])
        heaps = [f"-Xms{heap}", f"-Xmx{heap}"]
        return [java(), *heaps, *OPENED, f"-Duser.home={home}", "-cp", classes, *words]

    def _found_version(self) -> str:
        names = sorted(path.name for path in self._jars.glob("rocketmq-broker-*.jar"))
        match = re.search(r"broker-(.+)\.jar$", names[-1]) if names else None
        return match[1] if match else self._version

    @contextmanager
    def serve(self, plan: Plan) -> Iterator[Serving]:
        with folder("apache", plan) as home:
            environment = {"ROCKETMQ_HOME": str(home), "NAMESRV_ADDR": ""}
            names, port = free_ports(), free_ports(-2, 1)
            conf = home / "namesrv.conf"
            conf.write_text(f"listenPort={names}\nbindAddress=127.0.0.1\n")
            main = "org.apache.rocketmq.namesrv.NamesrvStartup"
            words = self._command(home, "128m", main, "-c", str(conf))
            with process(words, READY, home / "namesrv.log", environment, home):
                conf = home / "broker.conf"
                settings = f"flushDiskType={plan.flush}\nfileReservedTime=72\n"
                settings += "diskMaxUsedSpaceRatio=95\n"
                conf.write_text(
                    f"brokerName=bench\nbrokerIP1=127.0.0.1\nlistenPort={port}\n"
                    f"namesrvAddr=127.0.0.1:{names}\nstorePathRootDir={home}/store\n"
                    f"storePathCommitLog={home}/store/commitlog\n{settings}"
                )
                main = "org.apache.rocketmq.broker.BrokerStartup"
                words = self._command(home, plan.heap, *BROKER_JVM, main, "-c", str(conf))
                with process(words, READY, home / "broker.log", environment, home) as (server, _):
                    _await_port(port)
                    yield Serving(
                        f"127.0.0.1:{port}",
                        server.pid,
                        self._found_version(),
                        ["java", *words[1:]],
                        settings.strip().replace("\n", ", "),
                    )

    def load(self, serving: Serving, load: Load, seconds: float, warmup: float) -> Measured:
        if load.topics > 1:
            raise Unavailable(
                f"it is not loaded with {load.topics:,} topics: for each that is made it writes "
                "all of them, which takes minutes"
            )
        return remoting.measure(serving, load, seconds, warmup)


def _await_port(port: int) -> None:
    """It says so when it listens; this shows it."""
    with socket.create_connection(("127.0.0.1", port), 10.0):
        pass
