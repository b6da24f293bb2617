"""Name server and broker with access control 2.0, with TLS as well or without: ours or Apache's.

Programs take from here where the servers are, whom they may be, and which files of TLS they need.
The users are made by RocketMQ's own mqadmin, which signs by its conf/tools.yml.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.errors import ConfigError
from tests.support.server import ServerProcess

from . import certificates
from .access import users
from .access.signing import Keys
from .access.users import SUPER
from .conftest import built
from .drivers import Driver
from .store import peer
from .store.tool import Tool
from .txn import PEER_CONF, TIMING

CLIENT: Keys = ("client", "client-secret")
ALLOWED = "Allowed-"
"""Topics that the client may send to and consume have this prefix."""
_RIGHTS = (("Topic", f"{ALLOWED}*", "Pub,Sub"), ("Group", "*", "Sub"))
_OF_CHECKS = ("Topic", "RMQ_SYS_TRANS_HALF_TOPIC", "Pub")
"""What Apache's broker needs as well from Java clients of 5.x that are asked about a half: they
answer with the topic of the question, which is this one. Ours must not need it."""
_NOT_YET = (
    "authenticationEnabled=true is not supported by this version",
    "unknown configuration key 'tls.server.mode'",
)
"""How a broker of ours refuses the keys that it does not have yet. Any other text is a failure."""


@dataclass(frozen=True)
class Secured:
    """Servers that run; `tls` is None where they speak without. `home`: of programs of theirs."""

    namesrv: str
    broker: str
    tls: certificates.Tls | None
    home: Path
    state: Callable[[], str]

    def driver(self, client: str, properties: Path | None = None) -> Driver:
        """A client that is not signed yet; with TLS by another file of properties if wanted."""
        driver = Driver(client, tuple(built(client)), self.namesrv, self.state)
        if self.tls is None:
            return driver
        return driver.with_jvm_options(*certificates.jvm_options(properties or self.tls.client))

    def plain(self, client: str) -> Driver:
        """A client without TLS, whatever the servers speak."""
        return dataclasses.replace(self, tls=None).driver(client)

    @contextmanager
    def mqadmin(self, keys: Keys | None) -> Iterator[Tool]:
        """RocketMQ's own, with a conf/tools.yml of these keys; without the file for None."""
        home = self.home / f"tool-{keys[0] if keys else 'nobody'}"
        (home / "conf").mkdir(parents=True, exist_ok=True)
        if keys is not None:
            text = f"accessKey: {keys[0]}\nsecretKey: {keys[1]}\n"
            (home / "conf" / "tools.yml").write_text(text)
        options = [f"-Drocketmq.home.dir={home}"]
        if self.tls is not None:
            options += certificates.jvm_options(self.tls.client)
        with Tool(home, options) as tool:
            yield tool


def sign(keys: Keys) -> dict[str, str]:
    """Words for drivers."""
    return {"accessKey": keys[0], "secretKey": keys[1]}


@contextmanager
def apache(folder: Path, tls: certificates.Tls | None) -> Iterator[Secured]:
    """Apache RocketMQ's; with TLS both servers take nothing else."""
    options = [] if tls is None else certificates.jvm_options(
        tls.server, "-Dtls.server.mode=enforcing"
    )  # fmt: skip
    home = folder / "broker"
    conf = users.conf() + TIMING + PEER_CONF
    with (
        peer.NameServer(folder / "namesrv", options=options) as names,
        peer.RealBroker(home / "store", names.address, conf, home=home, options=options) as broker,
    ):
        yield Secured(names.address, broker.name_and_port, tls, folder, broker.state)


@contextmanager
def ours(folder: Path, tls: certificates.Tls | None) -> Iterator[Secured]:
    """pyrmq's; a skip as long as its configuration refuses the keys."""
    conf = users.conf(timerWheelEnable="") + TIMING
    wanted = {"authenticationEnabled": "true"}
    if tls is not None:
        wanted |= {"tls.server.mode": "enforcing"}
        conf += f"tls.server.mode=enforcing\ntls.enable=true\ntls.config.file={tls.server}\n"
    for key, value in wanted.items():
        _needs(key, value)
    with ServerProcess(folder / "store", conf=conf) as server:
        namesrv, broker = ("{}:{}".format(*each) for each in (server.namesrv, server.broker))
        yield Secured(namesrv, broker, tls, folder, server.stderr_text)


def _needs(key: str, value: str) -> None:
    try:
        BrokerConfig.from_properties({key: value})
    except ConfigError as refused:
        if str(refused).startswith(_NOT_YET):
            pytest.skip(f"the broker does not have this yet: {refused}")


@contextmanager
def serving(whose: str, folder: Path, *, with_tls: bool) -> Iterator[Secured]:
    """Servers with the user CLIENT and its rights."""
    tls = certificates.make(folder / "tls") if with_tls else None
    start, rights = (ours, _RIGHTS) if whose == "pyrmq" else (apache, (*_RIGHTS, _OF_CHECKS))
    with start(folder, tls) as secured:
        with secured.mqadmin(SUPER) as tool:
            _prepare(secured, tool, rights)
        yield secured


def _prepare(secured: Secured, tool: Tool, rights: Sequence[tuple[str, str, str]]) -> None:
    at = ("-b", secured.broker)
    succeeded(tool, secured, "createUser", *at, "-u", CLIENT[0], "-p", CLIENT[1], "-t", "Normal")
    for kind, name, actions in rights:
        right = ("-r", f"{kind}:{name}", "-a", actions, "-d", "Allow")
        succeeded(tool, secured, "createAcl", *at, "-s", f"User:{CLIENT[0]}", *right)


def succeeded(tool: Tool, secured: Secured, *words: str) -> str:
    """What the command printed; it says nothing of exceptions."""
    out, err = tool.command(secured.namesrv, *words)
    assert "Exception" not in out + err, f"{words}: {out}{err}\n{secured.state()}"
    return out
