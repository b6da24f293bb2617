"""A broker of either make with all that pops, timers and recalls need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.client import Client
from tests.support.server import ServerProcess

from ..conftest import built
from ..drivers import Driver
from ..store import peer
from .requests import make_group

READERS = "CG_test"
"""The group that `Client.pull` reads with; it has to be there."""
CONF = {
    "timerWheelEnable": "true",
    "recallMessageEnable": "true",
    "autoCreateSubscriptionGroup": "false",
}
OURS = {"brokerName": "broker-a", "brokerClusterName": "DefaultCluster"}


@dataclass(frozen=True)
class Broker:
    """One that runs. `kill`, `stop` and `start` keep its store and its address."""

    namesrv: str
    address: peer.Address
    state: Callable[[], str]
    kill: Callable[[], None]
    stop: Callable[[], None]
    start: Callable[[], object]

    def driver(self, client: str) -> Driver:
        return Driver(client, tuple(built(client)), self.namesrv, self.state)


def lines(keys: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in keys.items())


@contextmanager
def broker(whose: str, folder: Path, **keys: object) -> Iterator[Broker]:
    """ "apache" or "pyrmq"; `keys`: further ones of its configuration."""
    conf = CONF | {name: str(value) for name, value in keys.items()}
    with _apache(folder, conf) if whose == "apache" else _ours(folder, conf) as served:
        with Client(served.address) as client:
            make_group(client, READERS)
        yield served


@contextmanager
def _apache(folder: Path, conf: dict[str, str]) -> Iterator[Broker]:
    with peer.NameServer(folder / "names") as names:
        home = folder / "broker"
        with peer.RealBroker(home / "store", names.address, lines(conf), home=home) as real:
            yield Broker(
                names.address, real.address, real.state, real.kill, real.terminate, real.start
            )


@contextmanager
def _ours(folder: Path, conf: dict[str, str]) -> Iterator[Broker]:
    with ServerProcess(folder / "store", conf=lines(OURS | conf)) as server:
        state = lambda: server.log.read_text()[-4000:]  # noqa: E731
        yield Broker(
            f"{server.namesrv[0]}:{server.namesrv[1]}", server.broker, state, server.kill,
            server.terminate, server.start,
        )  # fmt: skip
