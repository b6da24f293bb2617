"""`Tls`: its options, RocketMQ's tls.properties, and the files that it names."""

from __future__ import annotations

import logging
import pickle
import ssl
from pathlib import Path
from typing import Any

import pytest

from pyrmq import ConfigError, Tls
from pyrmq.net.client import tls_context
from pyrmq.net.client.tls_context import MAX_FILE, MAX_KEPT, context_of
from tests.support.certificates import Authority


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ca": ""}, "ca of Tls is empty"),
        ({"ca": 7}, "ca of Tls is 7; the path of a file is needed"),
        ({"key": "k"}, "key and key_password of Tls go with cert"),
        ({"key_password": "secret"}, "key and key_password of Tls go with cert"),
        ({"cert": "c", "key_password": b"secret"}, r"key_password of Tls must be a text"),
        ({"cert": "c", "key_password": "s" * 1025}, "key_password of Tls has more than 1024 byt"),
        ({"insecure": 1}, "insecure of Tls must be True or False"),
        ({"insecure": True, "ca": "c"}, "insecure of Tls verifies nothing: leave out ca"),
        ({"server_hostname": ""}, "server_hostname of Tls is ''; a host name is needed"),
        ({"server_hostname": ".a"}, "server_hostname of Tls is '.a'"),
        ({"server_hostname": "a", "check_hostname": False}, "server_hostname of Tls is checked"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{text}") as caught:
        Tls(**options)
    assert "secret" not in str(caught.value)


def test_a_password_is_not_shown() -> None:
    tls = Tls(cert="c", key="k", key_password="my secret")
    assert "my secret" not in f"{tls}{tls!r}"
    assert pickle.loads(pickle.dumps(tls)) == tls


def test_what_a_context_verifies(ca: Authority, caplog: pytest.LogCaptureFixture) -> None:
    made = context_of(Tls(ca=ca.file))
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert made.check_hostname
    assert made.minimum_version is ssl.TLSVersion.TLSv1_2
    assert made.cert_store_stats()["x509"] == 1
    assert not context_of(Tls(ca=ca.file, check_hostname=False)).check_hostname
    with caplog.at_level(logging.WARNING):
        nothing = context_of(Tls(insecure=True, server_hostname="of this test"))
    assert "TLS verifies nothing" in caplog.text
    assert nothing.verify_mode is ssl.CERT_NONE
    assert not nothing.check_hostname
    assert context_of(Tls()).verify_mode is ssl.CERT_REQUIRED


def test_a_context_is_made_once(ca: Authority) -> None:
    first = context_of(Tls(ca=ca.file))
    assert context_of(Tls(ca=ca.file)) is first
    ca.file.write_bytes(ca.file.read_bytes() + b"\n")
    assert context_of(Tls(ca=ca.file)) is not first


def test_few_contexts_are_kept(ca: Authority) -> None:
    for n in range(MAX_KEPT + 5):
        context_of(Tls(ca=ca.file, server_hostname=f"host{n}"))
    assert len(tls_context._made) == MAX_KEPT


def test_files_that_cannot_be_used(ca: Authority, tmp_path: Path) -> None:
    own, other = ca.issue("client"), ca.issue("other")
    wrong = tmp_path / "wrong.pem"
    cases: list[tuple[Tls, bytes, str]] = [
        (Tls(ca=wrong), b"", "ca .* has no certificate"),
        (Tls(ca=wrong), b"-----BEGIN CERTIFICATE-----\nxx\n", "ca .* has no valid certificate"),
        (Tls(ca=wrong), b"x" * (MAX_FILE + 1), "ca .* has more than 4194304 bytes"),
        (Tls(cert=own.cert), b"", "has no private key in it: give the file of its key"),
        (Tls(cert=own.cert, key=other.key), b"", "is not the key of cert"),
        (Tls(cert=own.cert, key=wrong), b"words", "is not valid PEM"),
        (Tls(cert=own.cert, key=tmp_path), b"", "key .* cannot be read: Is a directory"),
        (Tls(cert=own.cert, key=tmp_path / "gone"), b"", "key .* cannot be read: No such file"),
    ]
    for tls, content, text in cases:
        wrong.write_bytes(content)
        with pytest.raises(ConfigError, match=f"^TLS: .*{text}"):
            context_of(tls)


def test_a_key_with_a_password(ca: Authority, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    own = ca.issue("client")
    key = serialization.load_pem_private_key(own.key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"my secret"),
        )
    )
    context_of(Tls(cert=own.cert, key=locked, key_password="my secret"))
    with pytest.raises(ConfigError, match="is encrypted: give its password"):
        context_of(Tls(cert=own.cert, key=locked))
    with pytest.raises(ConfigError, match="is the password wrong") as caught:
        context_of(Tls(cert=own.cert, key=locked, key_password="your secret"))
    assert "your secret" not in f"{caught.value!r}{caught.value.__cause__!r}"


def properties(folder: Path, *lines: str) -> Path:
    file = folder / "tls.properties"
    file.write_text("\n".join(lines))
    return file


def test_properties_of_rocketmq(tmp_path: Path) -> None:
    file = properties(
        tmp_path,
        "tls.client.trustCertPath=/c/ca.pem",
        "tls.client.certPath=/c/own.pem",
        "tls.client.keyPath=/c/own.key",
        "tls.client.keyPassword=my secret",
        "tls.client.authServer=true",
        "tls.server.keyPath=/not/ours",
    )
    assert Tls.from_properties(file) == Tls(
        ca="/c/ca.pem", cert="/c/own.pem", key="/c/own.key", key_password="my secret"
    )
    found = Tls.from_properties(file, server_hostname="b")
    assert found.server_hostname == "b"
    assert not Tls.from_properties(file, check_hostname=False).check_hostname


@pytest.mark.parametrize(
    ("lines", "made"),
    [
        ([], Tls()),
        (["tls.client.authServer=true"], Tls()),
        (["tls.client.authServer=false"], Tls(insecure=True)),
        (["tls.client.authServer=false", "tls.client.trustCertPath=/c"], Tls(insecure=True)),
        (["tls.client.trustCertPath=/c"], Tls(ca="/c")),
        (["tls.test.mode.enable=true", "tls.client.trustCertPath=/c"], Tls(insecure=True)),
        (["tls.test.mode.enable=false"], Tls()),
        (
            ["tls.client.authServer=false", "tls.client.certPath=/o", "tls.client.keyPath=/k"],
            Tls(cert="/o", key="/k", insecure=True),
        ),
    ],
)
def test_servers_are_verified_unless_the_file_says_no(
    tmp_path: Path, lines: list[str], made: Tls
) -> None:
    file = properties(tmp_path, *lines)
    found = Tls.from_properties(file)
    assert (found.ca, found.cert, found.key) == (made.ca, made.cert, made.key)
    assert found.insecure is made.insecure


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("tls.client.keyPath=/k", "tls.client.keyPath needs tls.client.certPath"),
        ("tls.client.authServer=perhaps", "tls.client.authServer=perhaps"),
        ("tls.client.keyPasword=my secret", "unknown key"),
    ],
)
def test_properties_that_cannot_be(tmp_path: Path, line: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        Tls.from_properties(properties(tmp_path, line))
    assert "my secret" not in str(caught.value)
