"""Apache RocketMQ's broker of 4.9.7 as a child process: the line that has access control 1.0.

Maven Central has no broker of 4.9.8; the access control of both is the same.
"""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path
from typing import Self

from tests.support import ports

from .. import toolchain
from ..store import peer

VERSION = "4.9.7"


@functools.cache
def _classpath() -> str:
    """Fetches the jars if that is needed."""
    builder = toolchain.maven()
    sources = Path(__file__).resolve().parent / "old"
    target = toolchain.BUILD / f"old-broker-{VERSION}"
    stamp = target / "stamp"
    digest = toolchain._digest(sources, VERSION)
    with toolchain._locked(target.name):
        if not stamp.is_file() or stamp.read_text() != digest:
            shutil.rmtree(target, ignore_errors=True)
            options = [f"-Drocketmq.version={VERSION}", f"-Ddriver.target={target}"]
            toolchain._build([builder, "-q", "-B", "process-classes", *options], sources, {})
            stamp.write_text(digest)
    return str(target / "lib" / "*")


class OldBroker(peer._Process):
    """A broker with `acl` as its conf/plain_acl.yml. A context."""

    def __init__(self, namesrv: str, acl: str, *, home: Path) -> None:
        super().__init__(home, "broker")
        port = ports.free_port_triple()
        self.address: peer.Address = ("127.0.0.1", port)
        (home / "conf").mkdir(exist_ok=True)
        self.acl = home / "conf" / "plain_acl.yml"
        self.acl.write_text(acl)
        (home / "conf" / "logback_broker.xml").write_text("<configuration/>")
        store = home / "store"
        values = {
            "brokerName": "broker-a",
            "brokerClusterName": "DefaultCluster",
            "brokerIP1": "127.0.0.1",
            "listenPort": port,
            "namesrvAddr": namesrv,
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            "mappedFileSizeCommitLog": 16 << 20,
            "aclEnable": "true",
        }
        self._conf = home / "broker.conf"
        self._conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()))

    def __enter__(self) -> Self:
        opened = ("java.nio", "sun.nio.ch", "java.lang", "java.util", "jdk.internal.ref")
        command = [
            toolchain.java(),
            "-Xms256m",
            "-Xmx256m",
            *toolchain.SHORT_LIVED_JVM,
            "-XX:+IgnoreUnrecognizedVMOptions",
            "-Dtls.server.mode=disabled",
            "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
            "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.99",
            *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in opened),
            f"-Duser.home={self.home}",
            f"-Drocketmq.home.dir={self.home}",
            "-cp",
            os.pathsep.join([_classpath()]),
            "org.apache.rocketmq.broker.BrokerStartup",
            "-c",
            str(self._conf),
        ]
        self._start(command, "boot success")
        return self
