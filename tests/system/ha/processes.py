"""A name server and brokers as processes, which are killed and started again where they were."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from tests.support.client import Client
from tests.support.command import Serving, run
from tests.support.ports import free_port_triple
from tests.support.wire import Command

FILE = 1 << 16
"""Bytes of a file of the log: small, so that it rolls."""
HA_STATUS = 907
UPDATE_CONFIG = 25


class Node:
    """One broker. `keys` go into its broker.conf."""

    def __init__(self, folder: Path, namesrv: str, **keys: object) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.store = folder / "store"
        self._namesrv = namesrv
        self.keys: dict[str, object] = {
            "brokerName": "pair",
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": free_port_triple(),
            "storePathRootDir": self.store,
            "mappedFileSizeCommitLog": FILE,
            "mappedFileSizeConsumeQueue": 20 * 200,
            "slaveReadEnable": "true",
            **keys,
        }
        self._starts = 0
        self.process: Serving | None = None

    def start(self) -> Self:
        conf = self.folder / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in self.keys.items()))
        self._starts += 1
        log = self.folder / f"{self._starts}.log"
        self.process = Serving(log, "broker", "-c", str(conf), "-n", self._namesrv, timeout=60)
        host, port = self.process.address("broker")
        self.address = host, port
        self.keys["listenPort"] = port
        return self

    @property
    def text_address(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def kill(self) -> None:
        assert self.process is not None
        self.process.stop(signal.SIGKILL)
        self.end()

    def stop(self) -> None:
        assert self.process is not None
        assert self.process.stop() == 0, self.stderr()
        self.end()

    def end(self) -> None:
        if self.process is not None:
            self.process.__exit__(None, None, None)
            self.process = None

    def stderr(self) -> str:
        return (self.folder / f"{self._starts}.log").read_text(errors="replace")

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        with Client(self.address) as client:
            return client.call(code, body, **(ext or {}))

    def status(self) -> dict[str, Any]:
        import json

        answer: dict[str, Any] = json.loads(self.ask(HA_STATUS).body)
        return answer

    def end_of_log(self) -> int:
        status = self.status()
        return int(
            status["masterCommitLogMaxOffset"]
            if status["master"]
            else status["haClientRuntimeInfo"]["maxOffset"]
        )

    def set_role(self, **keys: object) -> Command:
        body = "".join(f"{key}={value}\n" for key, value in keys.items())
        return self.ask(UPDATE_CONFIG, body=body.encode())

    def log_bytes(self, to: int) -> dict[str, bytes]:
        """The files of the log by name, up to a physical offset."""
        found = {}
        for path in sorted((self.store / "commitlog").iterdir()):
            base = int(path.name)
            if base < to:
                found[path.name] = path.read_bytes()[: to - base]
        return found


class Pair:
    """A name server, a master and a slave."""

    def __init__(
        self,
        folder: Path,
        *,
        namesrv_keys: Mapping[str, object] | None = None,
        node: type[Node] = Node,
        **keys: object,
    ) -> None:
        conf = folder / "namesrv.conf"
        more = "".join(f"{key}={value}\n" for key, value in (namesrv_keys or {}).items())
        conf.write_text(
            f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={folder}/kv.json\n{more}"
        )
        self._namesrv = Serving(folder / "namesrv.log", "namesrv", "-c", str(conf))
        self.namesrv = self._namesrv.facts["namesrv"]
        self.folder = folder
        self.master = node(folder / "master", self.namesrv, **keys)
        slave_keys = {**keys, "brokerRole": "SLAVE", "brokerId": 1}
        self.slave = node(folder / "slave", self.namesrv, **slave_keys)

    def __enter__(self) -> Self:
        self.master.start()
        self.slave.start()
        self.wait_in_sync()
        return self

    def __exit__(self, *error: object) -> None:
        self.master.end()
        self.slave.end()
        self._namesrv.__exit__(None, None, None)

    def wait_in_sync(self, timeout: float = 60) -> int:
        """Waits until the slave has all of the master's log; where that ends."""
        end = 0

        def same() -> bool:
            nonlocal end
            end = self.master.end_of_log()
            status = self.slave.status()["haClientRuntimeInfo"]
            return bool(status["activated"]) and status["maxOffset"] == end

        eventually(same, timeout, lambda: f"{self.slave.stderr()}\n{self.master.stderr()}")
        return end

    def command(self, *args: str, timeout: float = 60) -> str:
        """What `pyrmq ARGS -n NAMESRV` prints."""
        done = run(*args, "-n", self.namesrv, timeout=timeout)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()


def eventually(
    done: Callable[[], bool], timeout: float = 60, why: Callable[[], str] = lambda: ""
) -> None:
    end = time.monotonic() + timeout
    while not done():
        assert time.monotonic() < end, f"not within {timeout:g} s: {why()}"
        time.sleep(0.02)
