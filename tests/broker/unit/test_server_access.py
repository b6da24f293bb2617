"""Brokers and name servers as clients of others: keys, signatures, TLS, and no secret told."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from pyrmq.broker import BrokerConfig
from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.registration import Registration
from pyrmq.broker.replication.peers import Peers
from pyrmq.broker.replication.rejoin import check_is_master, end_of_master
from pyrmq.broker.replication.sole_master import SoleMaster
from pyrmq.config.table import values_of
from pyrmq.errors import ConfigError
from pyrmq.namesrv.brokers import MinimumNotifier
from pyrmq.namesrv.config import NamesrvConfig, RunningConfig
from pyrmq.namesrv.routes import NewMinimum
from pyrmq.net.address import parse_address
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.server_access import credentials_of, tls_of
from pyrmq.net.client.tls import Tls
from tests.broker.unit.test_registering import open_topics
from tests.support.certificates import Authority
from tests.support.scripted.replicas import Answers
from tests.support.scripted.sockets import SocketServer
from tests.support.signatures import is_signed

SECRET = "s3cret-words"
INNER = "innerClientAuthenticationCredentials"
ME = json.dumps({"accessKey": "me", "secretKey": SECRET})
KINDS = (BrokerConfig, NamesrvConfig)


@pytest.mark.parametrize("kind", KINDS)
def test_without_keys(kind: Any) -> None:
    config = kind.from_properties({})
    assert credentials_of(config) is None
    assert tls_of(config) is None


@pytest.mark.parametrize("kind", KINDS)
def test_keys(kind: Any, tmp_path: Path) -> None:
    config = kind.from_properties({INNER: ME, "tls.enable": "true"})
    assert credentials_of(config) == Credentials("me", SECRET)
    assert tls_of(config) == Tls()
    own = {
        "tls.client.certPath": "/own", "tls.client.keyPath": "/key",
        "tls.client.keyPassword": "word", "tls.client.trustCertPath": "/ca",
    }  # fmt: skip
    config = kind.from_properties({**own, "tls.enable": "true"})
    made = Tls(ca="/ca", cert="/own", key="/key", key_password="word", check_hostname=False)
    assert tls_of(config) == made
    config = kind.from_properties({**own, "tls.enable": "false"})
    assert tls_of(config) is None
    for no in ("tls.client.authServer", "tls.test.mode.enable"):
        said = "false" if no.endswith("Server") else "true"
        found = tls_of(kind.from_properties({"tls.enable": "true", no: said}))
        assert found is not None
        assert found.insecure
    file = tmp_path / "tls.properties"
    file.write_text("tls.client.trustCertPath=/of/file\ntls.server.keyPath=/not/ours\n")
    config = kind.from_properties(
        {"tls.enable": "true", "tls.config.file": str(file), "tls.client.trustCertPath": "/ca"}
    )
    assert tls_of(config) == Tls(ca="/of/file", check_hostname=False)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (INNER, SECRET),
        (INNER, '{"accessKey":"me"}'),
        (INNER, '{"accessKey":"me","secretKey":"s3cret-words\\n"}'),
        ("tls.client.authServer", "perhaps"),
        ("tls.test.mode.enable", "perhaps"),
        ("tls.enable", "perhaps"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_values_that_cannot_be(kind: Any, key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key}=") as caught:
        kind.from_properties({key: value})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_secrets_are_in_no_text(kind: Any) -> None:
    config = kind.from_properties({INNER: ME, "tls.client.keyPassword": SECRET})
    assert SECRET not in f"{config}{config!r}{values_of(config)}"
    assert values_of(config)[INNER] == "******"
    assert config.inner_client_authentication_credentials == ME


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def script() -> Answers:
    return Answers()


@pytest.fixture
def where(ca: Authority, script: Answers) -> Iterator[str]:
    """A server whose certificate is for another name, as those of clusters are."""
    secure = ca.issue("cluster.example").serving(clients=ca)
    with SocketServer(script, secure).serving() as address:
        yield address


def settings(ca: Authority) -> dict[str, Any]:
    own = ca.issue("broker")
    return {
        "inner_client_authentication_credentials": ME,
        "tls_enable": True,
        "tls_client_trust_cert_path": str(ca.file),
        "tls_client_cert_path": str(own.cert),
        "tls_client_key_path": str(own.key),
    }


def check(script: Answers, *codes: int) -> None:
    assert {c.code for c in script.asked} >= set(codes)
    assert all(is_signed(c, "me", SECRET) for c in script.asked)


async def test_a_broker_registers(
    where: str, script: Answers, ca: Authority, config: BrokerConfig, store: Any, tmp_path: Path
) -> None:
    live = LiveConfig(replace(config, namesrv_addr=where, **settings(ca)))
    topics = open_topics(tmp_path / "topics.json", live, store)
    registration = Registration(live, topics.table, ("127.0.0.1", 10911))
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(registration.run)
            assert registration.unregistered == []
            nursery.cancel_scope.cancel()
        await registration.unregister()
    check(script, 103, 104)


async def test_a_broker_that_cannot_read_its_files_does_not_start(
    config: BrokerConfig, store: Any, tmp_path: Path
) -> None:
    changed = replace(
        config, namesrv_addr="127.0.0.1:1", tls_enable=True, tls_client_trust_cert_path="/gone"
    )
    live = LiveConfig(changed)
    topics = open_topics(tmp_path / "topics.json", live, store)
    registration = Registration(live, topics.table, ("127.0.0.1", 10911))
    with pytest.RaisesGroup(pytest.RaisesExc(ConfigError, match="ca /gone cannot be read")):
        async with trio.open_nursery() as nursery:
            await nursery.start(registration.run)


async def test_a_master_looks_for_others(
    where: str, script: Answers, ca: Authority, config: BrokerConfig, store: Any
) -> None:
    script.says(106, {"brokerAddrTable": {}, "clusterAddrTable": {}})
    live = LiveConfig(replace(config, namesrv_addr=where, **settings(ca)))
    peers = Peers(live, ("127.0.0.1", 10911))
    sole = SoleMaster(live, peers, store, 0, leave=lambda: None, stay=lambda: None)
    with trio.fail_after(30):
        await sole.at_start()
    check(script, 106)


async def tell(config: NamesrvConfig, where: str, told: threading.Event) -> None:
    notifier = MinimumNotifier(RunningConfig(config))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.run)
        notifier.tell([NewMinimum({1: where})])
        assert await trio.to_thread.run_sync(told.wait, 20)
        nursery.cancel_scope.cancel()


async def test_a_name_server_tells_brokers(where: str, script: Answers, ca: Authority) -> None:
    told = threading.Event()
    script.change[905] = lambda c: told.set()
    await tell(NamesrvConfig(notify_min_broker_id_changed=True, **settings(ca)), where, told)
    check(script, 905)


async def test_a_name_server_that_cannot_connect_goes_on(
    where: str, script: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    said = threading.Event()
    handler = logging.Handler()
    handler.emit = lambda record: said.set()  # type: ignore[method-assign]
    logging.getLogger("pyrmq.namesrv.brokers").addHandler(handler)
    try:
        config = NamesrvConfig(
            notify_min_broker_id_changed=True, tls_enable=True, tls_client_trust_cert_path="/gone"
        )
        await tell(config, where, said)
    finally:
        logging.getLogger("pyrmq.namesrv.brokers").removeHandler(handler)
    assert "smallest broker id: TLS: ca /gone cannot be read" in caplog.text
    assert not script.asked


async def test_a_slave_asks_its_master(where: str, script: Answers, ca: Authority) -> None:
    script.says(28, {"table": {"commitLogMaxOffset": "7"}})
    script.says(907, {"master": True})
    how = BrokerConfig(**settings(ca))

    def ask() -> int:
        channel = check_is_master(parse_address(where), credentials_of(how), tls_of(how))
        try:
            return end_of_master(channel)
        finally:
            channel.close()

    assert await trio.to_thread.run_sync(ask) == 7
    check(script, 28)
