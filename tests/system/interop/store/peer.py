"""Apache RocketMQ itself as child processes: a name server, and a broker on a given store folder.

Jars come from Maven Central, once per state of `java/` (see ../toolchain.py). Nothing of the
machine is used but loopback ports and the folders named here; logs of the JVMs land beside the
store. Facts: BrokerStartup prints "boot success" when it serves; it also listens on listenPort - 2
(the VIP channel) and listenPort + 1 (replication); a clean stop takes about 11 s (two pollers of
NettyRemotingServer and DefaultMessageStore.shutdown wait 3 s each).
"""

from __future__ import annotations

import functools
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.support import ports

from .. import toolchain

VERSION = os.environ.get("PYRMQ_PEER") or toolchain.NEWEST
"""`make thorough-interop` runs the tests with PYRMQ_PEER=5.3.3 as well."""
START_TIMEOUT = 60.0
STOP_TIMEOUT = 40.0
Address = tuple[str, int]


class PeerFailed(AssertionError):
    """The broker or name server did not do as it should; the text ends with what it logged."""


_java = functools.cache(toolchain.java)


@functools.cache
def classpath() -> str:
    """Builds the peer if that is needed; what `java -cp` wants."""
    builder = toolchain.maven()
    _java()
    sources = Path(__file__).resolve().parent / "java"
    target = toolchain.BUILD / f"peer-{VERSION}"
    stamp = target / "stamp"
    digest = toolchain._digest(sources, VERSION, "peer.jar")
    with toolchain._locked(target.name):
        if not stamp.is_file() or stamp.read_text() != digest:
            shutil.rmtree(target, ignore_errors=True)
            options = [f"-Drocketmq.version={VERSION}", f"-Ddriver.target={target}"]
            toolchain._build([builder, "-q", "-B", "process-classes", *options], sources, {})
            toolchain.pack(target / "classes", target / "peer.jar")
            stamp.write_text(digest)
    return os.pathsep.join([str(target / "peer.jar"), str(target / "lib" / "*")])


@functools.cache
def _shared() -> tuple[str, ...]:
    """Options for an archive of the peer's classes, which is made where there is none."""
    target = toolchain.BUILD / f"peer-{VERSION}"
    classpath()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        namesrv = NameServer(home)
        RealBroker(home / "store", namesrv.address, home=home)  # writes its file
        files = [str(home / "namesrv.conf"), str(home / "broker.conf"), namesrv.address]
        command = _command(home, "interop.store.AllClasses", *files)
        options = toolchain.with_shared_classes(
            command, target / "peer.jsa", cwd=home, env=_environment(home)
        )
    return tuple(options)


def java_command(
    home: Path, main: str, *arguments: str, heap: str = "256m", options: Sequence[str] = ()
) -> list[str]:
    """A short-lived JVM with the peer's classes; `home` is where it logs. Its `options` win."""
    launcher, *rest = _command(home, main, *arguments, heap=heap, options=options)
    return [launcher, *_shared(), *rest]


def _command(
    home: Path, main: str, *arguments: str, heap: str = "256m", options: Sequence[str] = ()
) -> list[str]:
    return [
        _java(),
        f"-Xms{heap}",
        f"-Xmx{heap}",
        *toolchain.SHORT_LIVED_JVM,
        "-XX:-UsePerfData",
        "-XX:+IgnoreUnrecognizedVMOptions",
        # Otherwise each server spends a second on the keys of a certificate of its own.
        "-Dtls.server.mode=disabled",
        # Otherwise a CI machine whose disk is fuller than that has its log refused or deleted.
        "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
        "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.99",
        "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
        "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        f"-Duser.home={home}",
        *options,
        "-cp",
        classpath(),
        main,
        *arguments,
    ]


def run(home: Path, main: str, *arguments: str, timeout: float = 60.0) -> str:
    """Runs a program of the peer to its end; what it printed. PeerFailed if it did not end well."""
    home.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            java_command(home, main, *arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=_environment(home),
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise PeerFailed(f"{main} {arguments} not done after {timeout} s") from late
    if done.returncode != 0:
        raise PeerFailed(f"{main} {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _environment(home: Path) -> dict[str, str]:
    return {**os.environ, "ROCKETMQ_HOME": str(home), "NAMESRV_ADDR": ""}


class _Process:
    """A JVM that serves: started and waited for until it says so, stopped by SIGTERM or SIGKILL."""

    def __init__(self, home: Path, name: str) -> None:
        self.home = home
        self.name = name
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)

    def _start(self, command: Sequence[str], ready: str) -> None:
        assert self._process is None, f"{self.name} runs already"
        with open(self.home / f"{self.name}.err", "ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(self.home),
                cwd=self.home,
            )
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline, text = time.monotonic() + START_TIMEOUT, b""
        while ready.encode() not in text:
            left = deadline - time.monotonic()
            readable = left > 0 and select.select([descriptor], [], [], left)[0]
            piece = os.read(descriptor, 4096) if readable else b""
            if not piece:
                problem = f"{self.name} did not print {ready!r} but {text.decode()!r}"
                self.kill()
                raise PeerFailed(f"{problem}\n{self.state()}")
            text += piece

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def state(self) -> str:
        """The last lines of what it logged, for messages of failed tests."""
        logs = [f"rocketmqlogs/{name}.log" for name in ("broker_default", "broker", "store")]
        said = [self.home / f"{self.name}.err", *(self.home / "logs" / log for log in logs)]
        return "\n".join(f"--- {path.name}\n{_tail(path)}" for path in said if path.is_file())

    def terminate(self) -> None:
        """Stops it as an operator would; 143 is a JVM's code after SIGTERM."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise PeerFailed(f"{self.name} not stopped after {STOP_TIMEOUT} s") from None
        self._reap()
        if code not in (0, 143):
            raise PeerFailed(f"{self.name}: exit code {code}\n{self.state()}")

    def kill(self) -> None:
        """SIGKILL; fine on one that has gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT)
            self._reap()

    def _reap(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def __exit__(self, kind: object, *_: object) -> None:
        if self._process is not None:
            self.kill()


def _tail(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines()
    return "\n".join(line[:200] for line in lines[-12:])


class NameServer(_Process):
    """Apache RocketMQ's name server on a free loopback port: `address` is "host:port". `conf`:
    further lines of its configuration; `options`: of its JVM."""

    def __init__(self, home: Path, conf: str = "", options: Sequence[str] = ()) -> None:
        super().__init__(home, "namesrv")
        self._options = options
        port = ports.free_port_triple()
        self.address = f"127.0.0.1:{port}"
        file = home / "namesrv.conf"
        file.write_text(f"listenPort={port}\nbindAddress=127.0.0.1\n{conf}")
        self._arguments = ("-c", str(file))

    def __enter__(self) -> Self:
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        command = java_command(self.home, main, *self._arguments, heap="64m", options=self._options)
        self._start(command, "boot success")
        return self


class RealBroker(_Process):
    """Apache RocketMQ's broker on the folder `store`; a context that kills what still runs.

    conf: further lines of broker.conf, RocketMQ's keys. options: of its JVM. The port stays the
    same over restarts.
    """

    def __init__(
        self,
        store: Path,
        namesrv: str,
        conf: str = "",
        *,
        home: Path,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(home, "broker")
        self._options = options
        self.store = store
        port = ports.free_port_triple()
        self.address: Address = ("127.0.0.1", port)
        self.name_and_port = f"127.0.0.1:{port}"
        self._conf = home / "broker.conf"
        own = {
            "brokerName": "broker-a",
            "brokerClusterName": "DefaultCluster",
            "brokerIP1": "127.0.0.1",
            "listenPort": port,
            "namesrvAddr": namesrv,
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            "fileReservedTime": 1000,
            "diskMaxUsedSpaceRatio": 95,
            "timerWheelEnable": "false",
            # After a crash 5.5 goes back over ten log files at most, which are small here, and
            # leaves what is older out of the index.
            "commitLogRecoverMaxNum": 1000,
        }
        given = re.findall(r"^(\w+)=", conf, re.MULTILINE)
        lines = [f"{key}={value}" for key, value in own.items() if key not in given]
        self._conf.write_text("\n".join([*lines, conf, ""]))

    def __enter__(self) -> Self:
        return self.start()

    def start(self) -> Self:
        main = "interop.store.RegisteredBroker"
        command = java_command(
            self.home, main, "-c", str(self._conf), heap="512m", options=self._options
        )
        self._start(command, "registered\n")
        return self
