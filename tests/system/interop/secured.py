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

from tests.support import namesrv as tests_namesrv
from tests.support.command import run
from tests.system.ha.processes import Node

from . import certificates, checks
from .access import users
from .access.signing import Keys
from .access.users import SUPER
from .conftest import built
from .drivers import Driver
from .store import peer
from .store.tool import Tool
from .txn import PEER_CONF, TIMING

CLIENT: Keys = ("a-client", "client-secret")
OTHER: Keys = ("other", "other-secret")
COUNT = 12
PLAN = "a:commit;b:rollback;c:unknown>commit"
ALLOWED = "Allowed-"
"""Topics that the client may send to and consume have this prefix. The other user has no rights."""
_RIGHTS = (("Topic", f"{ALLOWED}*", "Pub,Sub"), ("Group", "*", "Sub"))
_OF_CHECKS = ("Topic", "RMQ_SYS_TRANS_HALF_TOPIC", "Pub")
"""What Apache's broker needs as well from Java clients of 5.x that are asked about a half: they
answer with the topic of the question, which is this one. Ours must not need it."""
_OF_OURS = {"brokerName": "broker-a", "mappedFileSizeCommitLog": 1 << 24}


@dataclass(frozen=True)
class Started:
    """A server that runs, for messages of failures with what it logged."""

    address: str
    state: Callable[[], str]


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
        if self.tls is None or client == "pyrmq":
            return driver
        return driver.with_jvm_options(*certificates.jvm_options(properties or self.tls.client))

    def words(self, client: str) -> dict[str, str]:
        """Further ones for a driver, with which it signs; our client is told of TLS as well."""
        ours = client == "pyrmq" and self.tls is not None
        return sign(CLIENT) | ({"tlsConfig": str(self.tls.client)} if ours and self.tls else {})

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
def name_server(
    whose: str, folder: Path, tls: certificates.Tls | None, **keys: str
) -> Iterator[Started]:
    """Apache's, which has no access control; "open": ours without; "guarded": ours with it, and
    with further keys of its configuration."""
    if whose == "apache":
        options = _jvm_options(tls)
        with peer.NameServer(folder / "namesrv", options=options) as names:
            yield Started(names.address, names.state)
        return
    (folder / "namesrv").mkdir(parents=True)
    conf = _lines_of_tls(tls) + (
        users.conf(timerWheelEnable="", **keys) if whose == "guarded" else ""
    )
    with tests_namesrv.name_server(folder / "namesrv", conf) as process:
        yield Started(process.facts["namesrv"], process.stderr)


@contextmanager
def broker(
    whose: str, folder: Path, namesrv: str, tls: certificates.Tls | None, **keys: object
) -> Iterator[Started]:
    """Apache's or ours, with access control; with TLS it takes nothing else. `keys`: further ones
    of its configuration."""
    more = "".join(f"{key}={value}\n" for key, value in keys.items())
    if whose == "apache":
        conf = users.conf() + TIMING + PEER_CONF + more
        options = _jvm_options(tls)
        real = peer.RealBroker(folder / "store", namesrv, conf, home=folder, options=options)
        with real as started:
            yield Started(started.name_and_port, started.state)
        return
    text = users.conf(timerWheelEnable="") + TIMING + _lines_of_tls(tls) + more
    lines = (line.split("=", 1) for line in text.splitlines())
    node = Node(folder, namesrv, **{**_OF_OURS, **dict(lines)})
    try:
        node.start()
        yield Started(node.text_address, node.stderr)
    finally:
        node.end()


def _jvm_options(tls: certificates.Tls | None) -> list[str]:
    more = ("-Dtls.server.mode=enforcing",)
    return [] if tls is None else certificates.jvm_options(tls.server, *more)


def _lines_of_tls(tls: certificates.Tls | None) -> str:
    if tls is None:
        return ""
    return f"tls.server.mode=enforcing\ntls.enable=true\ntls.config.file={tls.server}\n"


@contextmanager
def running(
    names: str, whose: str, folder: Path, tls: certificates.Tls | None = None
) -> Iterator[Secured]:
    """A name server, as `name_server` calls them, and the broker of `whose` make."""
    with (
        name_server(names, folder / "names", tls) as namesrv,
        broker(whose, folder / "broker", namesrv.address, tls) as started,
    ):
        state = lambda: f"{namesrv.state()}\n{started.state()}"  # noqa: E731
        yield Secured(namesrv.address, started.address, tls, folder, state)


@contextmanager
def serving(
    whose: str, folder: Path, *, with_tls: bool, names: str | None = None
) -> Iterator[Secured]:
    """Servers with the user CLIENT and its rights. Without a word about the name server it is of
    the same make as the broker, and takes whatever it is asked, as Apache's does."""
    tls = certificates.make(folder / "tls") if with_tls else None
    rights = _RIGHTS if whose == "pyrmq" else (*_RIGHTS, _OF_CHECKS)
    with running(names or ("open" if whose == "pyrmq" else whose), whose, folder, tls) as secured:
        make_users(secured, rights)
        if names == "guarded":
            copy_users(secured)
        yield secured


def copy_users(secured: Secured, *to: str) -> None:
    """From the broker to the name server, or to these servers, as an operator does."""
    file = secured.home / "access.json"
    at = {"PYRMQ_ACCESS_KEY": SUPER[0], "PYRMQ_SECRET_KEY": SUPER[1]}
    if secured.tls is not None:
        at["PYRMQ_TLS_CONFIG"] = str(secured.tls.client)
    for words in (
        ("export", "-b", secured.broker, "-f", str(file), "--with-passwords"),
        *(("import", "-b", server, "-f", str(file)) for server in to or (secured.namesrv,)),
    ):
        done = run("admin", "auth", *words, "-n", secured.namesrv, **at)
        assert done.returncode == 0, f"{words}: {done.stdout!r} {done.stderr!r}"


def make_users(secured: Secured, rights: Sequence[tuple[str, str, str]] = _RIGHTS) -> None:
    """At the broker: CLIENT with these rights, and OTHER."""
    at = ("-b", secured.broker)
    with secured.mqadmin(SUPER) as tool:
        for name, secret in (CLIENT, OTHER):
            succeeded(tool, secured, "createUser", *at, "-u", name, "-p", secret, "-t", "Normal")
        for kind, name, actions in rights:
            right = ("-r", f"{kind}:{name}", "-a", actions, "-d", "Allow")
            succeeded(tool, secured, "createAcl", *at, "-s", f"User:{CLIENT[0]}", *right)


def succeeded(tool: Tool, secured: Secured, *words: str) -> str:
    """What the command printed; it says nothing of exceptions."""
    out, err = tool.command(secured.namesrv, *words)
    assert "Exception" not in out + err, f"{words}: {out}{err}\n{secured.state()}"
    return out


def sends_and_consumes(driver: Driver, topic: str) -> None:
    words = {"topic": topic, "count": COUNT, **sign(CLIENT)}
    sent = driver.run("produce", group=f"P-{topic}", **words).sent
    checks.sent_well(sent, COUNT)
    checks.arrived(sent, driver.run("consume", group=f"G-{topic}", **words).received)


def transactions(driver: Driver, topic: str) -> None:
    """One is committed, one rolled back, one asked about."""
    words = {"topic": topic, **sign(CLIENT)}
    with driver.start("produce-transaction", group=f"P-{topic}", plan=PLAN, **words) as producer:
        producer.wait_for(
            lambda report: any(line.get("event") == "complete" for line in report.lines), "checks"
        )
        consumed = driver.run("consume", group=f"G-{topic}", count=2, **words).received
        producer.finish()
    assert {line["properties"]["name"] for line in consumed} == {"a", "c"}
