"""The official Java client with TLS: without a key, and with certificates that are verified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from tests.support.certificates import Authority
from tests.support.server import ServerProcess

from . import checks
from .conftest import Command
from .drivers import Driver, DriverFailed

# The broker registers with its own name server as it comes: that one takes plain connections too.
NAME_SERVER = {"PYRMQ_NAMESRV_CONF_TLS_SERVER_MODE": "permissive"}


@contextmanager
def serving(folder: Path, conf: str) -> Iterator[ServerProcess]:
    with ServerProcess(folder / "store", conf=conf, env=NAME_SERVER) as server:
        yield server


def driver(
    java_command: tuple[str, Command], server: ServerProcess, **properties: object
) -> Driver:
    name, command = java_command
    host, port = server.namesrv
    found = Driver(name, tuple(command), f"{host}:{port}", server.log.read_text)
    return found.with_jvm_options(*(f"-D{name}={value}" for name, value in properties.items()))


def exchange(java: Driver, topic: str, group: str) -> None:
    sent = java.run("produce", topic=topic, group="P-" + group, count=40, large=300_000).sent
    checks.sent_well(sent, 40)
    checks.arrived(sent, java.run("consume", topic=topic, group=group, count=40).received)


def test_tls_enable_is_enough(
    java_command: tuple[str, Command], tmp_path: Path, topic: str, group: str
) -> None:
    conf = "tls.server.mode=enforcing\ntls.test.mode.enable=true\n"
    with serving(tmp_path, conf) as server:
        exchange(driver(java_command, server, **{"tls.enable": "true"}), topic, group)
        with pytest.raises(DriverFailed):
            driver(java_command, server).run(
                "produce", topic=topic, group="P-" + group, count=1, timeout=20
            )


def test_both_sides_are_verified(
    java_command: tuple[str, Command], tmp_path: Path, topic: str, group: str
) -> None:
    authority = Authority(tmp_path)
    own, client = authority.issue("127.0.0.1"), authority.issue("client")
    key = serialization.load_pem_private_key(client.key.read_bytes(), None)
    client.key.write_bytes(  # Netty reads no other form
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    conf = (
        f"tls.server.mode=enforcing\ntls.server.keyPath={own.key}\ntls.server.certPath={own.cert}\n"
        f"tls.server.need.client.auth=require\ntls.server.authClient=true\n"
        f"tls.server.trustCertPath={authority.file}\n"
    )
    verifying = {
        "tls.enable": "true",
        "tls.test.mode.enable": "false",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": authority.file,
    }
    shows = {"tls.client.keyPath": client.key, "tls.client.certPath": client.cert}
    with serving(tmp_path, conf) as server:
        exchange(driver(java_command, server, **verifying, **shows), topic, group)
        with pytest.raises(DriverFailed):
            driver(java_command, server, **verifying).run(
                "produce", topic=topic, group="P-" + group, count=1, timeout=20
            )
