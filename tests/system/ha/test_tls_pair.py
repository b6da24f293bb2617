"""A pair whose ports take nothing but TLS, with certificates on both sides."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq import Message, Tls, sync
from tests.support.certificates import Authority, Identity
from tests.support.client import Client
from tests.support.wire import Command
from tests.system.ha.processes import FILE, Node, Pair, eventually

FLUSH_SLAVE_TIMEOUT = 12


class Sealed:
    """Certificates of a cluster. `keys`: what all its servers have in their files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.authority = Authority(folder)
        self.own = self.authority.issue("cluster.example")
        trust = self.authority.file
        self.keys: dict[str, object] = {
            "tls.server.mode": "enforcing",
            "tls.server.certPath": self.own.cert,
            "tls.server.keyPath": self.own.key,
            "tls.server.trustCertPath": trust,
            "tls.server.need.client.auth": "require",
            "tls.server.authClient": "true",
            "tls.enable": "true",
            "tls.client.trustCertPath": trust,
            "tls.client.certPath": self.own.cert,
            "tls.client.keyPath": self.own.key,
        }
        # The name server tells everybody where brokers are: who may not join finds its master.
        self.namesrv_keys = {
            key: value
            for key, value in self.keys.items()
            if key not in ("tls.server.need.client.auth", "tls.server.authClient")
        }
        self.namesrv_keys["tls.server.mode"] = "permissive"
        self.tls = Tls(ca=trust, cert=self.own.cert, key=self.own.key, check_hostname=False)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname = False
        self.context.load_verify_locations(trust)
        self.context.load_cert_chain(self.own.cert, self.own.key)


class SealedNode(Node):
    """A broker that is asked with TLS."""

    context: ssl.SSLContext | None = None

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        with Client(self.address, tls=self.context) as client:
            return client.call(code, body, **(ext or {}))


class SealedPair(Pair):
    def __init__(self, folder: Path, sealed: Sealed, **keys: object) -> None:
        super().__init__(
            folder, namesrv_keys=sealed.namesrv_keys, node=SealedNode, **sealed.keys, **keys
        )
        for node in (self.master, self.slave):
            assert isinstance(node, SealedNode)
            node.context = sealed.context

    def send(self, sealed: Sealed, count: int, size: int = 700) -> list[bytes]:
        bodies = [b"%d-" % i + os.urandom(size) for i in range(count)]
        with sync.Producer("senders", namesrv=self.namesrv, tls=sealed.tls) as producer:
            for body in bodies:
                producer.send(Message("T", body))
        return bodies


@pytest.fixture
def sealed(tmp_path: Path) -> Sealed:
    return Sealed(tmp_path / "certificates")


@pytest.fixture
def pair(tmp_path: Path, sealed: Sealed) -> Iterator[SealedPair]:
    with SealedPair(tmp_path, sealed, brokerRole="SYNC_MASTER", inSyncReplicas=2) as pair:
        yield pair


def read_all(node: Node, sealed: Sealed) -> list[bytes]:
    with Client(node.address, tls=sealed.context) as client:
        found = []
        for queue in range(4):
            end = client.max_offset("T", queue)
            found += [r.body for r in client.pull_all("T", queue, 0, end)]
        return found


def why(node: Node) -> str:
    return str(node.status()["haClientRuntimeInfo"].get("why", ""))


def refused(pair: Pair, text: str) -> None:
    """The slave has no master, and says why."""
    eventually(lambda: text in why(pair.slave), why=pair.slave.stderr)


def test_what_is_acknowledged_survives_the_kill_of_either(pair: SealedPair, sealed: Sealed) -> None:
    bodies = pair.send(sealed, 200)
    assert pair.master.end_of_log() > 2 * FILE, "it went over files"
    pair.slave.kill()
    with Client(pair.master.address, tls=sealed.context) as client:
        assert client.send("T", b"alone").code == FLUSH_SLAVE_TIMEOUT
    pair.slave.start()
    pair.wait_in_sync()
    bodies += pair.send(sealed, 50)
    pair.master.kill()
    pair.master.start()
    end = pair.wait_in_sync()
    bodies += pair.send(sealed, 50)
    end = pair.wait_in_sync()
    assert pair.slave.log_bytes(end) == pair.master.log_bytes(end)
    # The slave takes over with all that was acknowledged.
    pair.master.kill()
    assert set(bodies) <= set(read_all(pair.slave, sealed))


def test_a_new_certificate_drops_no_connection(pair: SealedPair, sealed: Sealed) -> None:
    pair.send(sealed, 10)
    renewed = sealed.authority.issue("renewed.example")
    for new, old in ((renewed.cert, sealed.own.cert), (renewed.key, sealed.own.key)):
        os.replace(new, old)
    eventually(lambda: "new connections get the certificate" in pair.master.stderr())
    pair.send(sealed, 10)
    assert "the connection ended" not in pair.master.stderr()
    pair.slave.stop()
    pair.slave.start()
    pair.send(sealed, 10)
    pair.wait_in_sync()


def strange(folder: Path) -> Identity:
    folder.mkdir()
    return Authority(folder, "stranger").issue("stranger.example")


def test_who_is_refused_says_why(pair: SealedPair, sealed: Sealed, tmp_path: Path) -> None:
    pair.send(sealed, 10)
    end = pair.wait_in_sync()
    slave, master = pair.slave, pair.master
    slave.stop()
    stranger = strange(tmp_path / "strange")
    slave.keys["tls.client.certPath"] = stranger.cert
    slave.keys["tls.client.keyPath"] = stranger.key
    slave.start()
    refused(pair, f"master {master.text_address}: ")
    assert "certificate" in why(slave)
    assert slave.end_of_log() == end
    slave.stop()
    slave.keys["tls.enable"] = "false"
    slave.start()
    refused(pair, f"master {master.text_address}: ")
    assert slave.end_of_log() == end
    slave.stop()
    slave.keys["tls.enable"] = "true"
    slave.keys["tls.client.certPath"] = sealed.own.cert
    slave.keys["tls.client.keyPath"] = sealed.own.key
    slave.start()
    pair.send(sealed, 10)
    assert pair.wait_in_sync() > end
    assert master.status()["inSyncSlaveNums"] == 1
