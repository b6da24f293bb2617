"""pyrmq itself, and the floor: the least that a broker can do."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyrmq.bench.floor import command
from pyrmq.bench.peers import remoting
from pyrmq.bench.peers.peer import Load, Measured, Plan, Serving, Unavailable, process
from pyrmq.version import __version__


@contextmanager
def folder(name: str, plan: Plan) -> Iterator[Path]:
    """A new one on the disk to measure, gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix=f"pyrmq-bench-{name}-", dir=plan.directory))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


class _Remoting:
    compiles = False

    def load(self, serving: Serving, load: Load, seconds: float, warmup: float) -> Measured:
        return remoting.measure(serving, load, seconds, warmup)


class Ours(_Remoting):
    """`pyrmq server` of this installation."""

    key, title = "pyrmq", "pyrmq"

    def require(self) -> None:
        pass

    @contextmanager
    def serve(self, plan: Plan) -> Iterator[Serving]:
        with folder("pyrmq", plan) as home:
            words = [sys.executable, "-m", "pyrmq", "server", "--host", "127.0.0.1"]
            words += ["--namesrv-port", "0", "--broker-port", "0", "--flush", plan.flush]
            words += ["--store", str(home / "store")]
            with process(words, "ready ", home / "log") as (_, text):
                facts = dict(re.findall(r"(\w+)=(\S+)", text))
                yield Serving(
                    facts["broker"], int(facts["pid"]), __version__, ["pyrmq", *words[3:]]
                )


class Floor(_Remoting):
    """A minimal broker: one thread, one epoll, one write for all that came in a pass, and for
    SYNC_FLUSH one fdatasync. It has no queues and no index, and checks nothing. No broker can be
    faster on this machine."""

    key, title = "floor", "the floor"

    def require(self) -> None:
        pass

    @contextmanager
    def serve(self, plan: Plan) -> Iterator[Serving]:
        with folder("floor", plan) as home:
            words = command(home / "store", sync=plan.flush == "SYNC_FLUSH")
            with process(words, "port ", home / "log") as (server, text):
                # Its pulls bring messages from memory.
                shown = ["python", *words[1:]]
                address = f"127.0.0.1:{text.split()[1]}"
                yield Serving(address, server.pid, "", shown, filled=True)

    def load(self, serving: Serving, load: Load, seconds: float, warmup: float) -> Measured:
        if load.mode == "latency":
            raise Unavailable("it has no queues, so nothing that it took is received")
        return super().load(serving, load, seconds, warmup)
