"""Apache RocketMQ as the broker to measure, set up as its own start script does it.

Jars come from Maven Central (tests/system/interop/store/peer.py says how). Of the script's JVM
options the heap is smaller, for machines that the broker does not have to itself; broker settings
are the defaults but for folders, ports and the flush mode.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.system.interop import toolchain
from tests.system.interop.store import peer

from .harness import Broker, HarnessError

VERSION = peer.VERSION
HEAP = "4g"
JVM = (
    "-server",
    f"-Xms{HEAP}",
    f"-Xmx{HEAP}",
    "-XX:+UseG1GC",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:SoftRefLRUPolicyMSPerMB=0",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:+AlwaysPreTouch",
    "-XX:MaxDirectMemorySize=15g",
    "-XX:-UseLargePages",
    "-XX:-UseBiasedLocking",
    "-XX:+IgnoreUnrecognizedVMOptions",
)
CONF = "timerWheelEnable=true\nfileReservedTime=72\ndiskMaxUsedSpaceRatio=95\n"


class JavaBroker(peer.RealBroker):
    def start(self) -> Self:
        command = peer.java_command(self.home, "org.apache.rocketmq.broker.BrokerStartup")
        # Keeps what lets it run at all (exports, class path), not the small and quiet JVM of tests.
        kept = [word for word in command if not word.startswith(("-Xm", "-XX:"))]
        self._start([kept[0], *JVM, *kept[1:], "-c", str(self._conf)], "boot success")
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid


@contextmanager
def apache(flush: str = "ASYNC_FLUSH", directory: Path | None = None) -> Iterator[Broker]:
    """Apache RocketMQ's name server and broker with a new store, gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="apache-bench-", dir=directory))
    conf = f"{CONF}flushDiskType={flush}\n"
    try:
        with peer.NameServer(home / "namesrv") as names:
            started = time.perf_counter()
            with JavaBroker(home / "store", names.address, conf, home=home / "broker") as broker:
                yield Broker(*broker.address, broker.pid, started)
    except (toolchain.Missing, toolchain.BuildFailed, peer.PeerFailed) as error:
        raise HarnessError(f"Apache RocketMQ {VERSION}: {error}") from error
    finally:
        shutil.rmtree(home, ignore_errors=True)
