"""Keys of TLS: from a configuration, from tls.properties, and what they are together."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.config import tls
from pyrmq.config.table import keys_of, values_of
from pyrmq.config.tls_keys import TlsKeys
from pyrmq.errors import ConfigError
from pyrmq.namesrv.config import NamesrvConfig

SECRET = "not-to-be-seen"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The default file is one of the test's own, which is not there."""
    path = tmp_path / "default.properties"
    monkeypatch.setattr(tls, "DEFAULT_CONFIG_FILE", path)
    return path


@pytest.mark.parametrize("kind", [BrokerConfig, NamesrvConfig])
def test_servers_have_all_keys(kind: type[BrokerConfig] | type[NamesrvConfig]) -> None:
    assert {tls.MODE, tls.CONFIG_FILE, *tls.SERVER_FILE_KEYS} <= keys_of(kind).keys()
    assert keys_of(TlsKeys).keys() <= keys_of(kind).keys()
    config = kind.from_properties(
        {
            tls.MODE: "enforcing",
            tls.SERVER_KEY: "/a/key.pem",
            tls.SERVER_KEY_PASSWORD: SECRET,
            tls.SERVER_CERT: "/a/cert.pem",
            tls.NEED_CLIENT_AUTH: "require",
            tls.SERVER_AUTH_CLIENT: "true",
            tls.SERVER_TRUST: "/a/ca.pem",
        }
    )
    assert config.tls_settings() == tls.TlsServerSettings(
        mode="enforcing",
        need_client_auth="require",
        key_path="/a/key.pem",
        key_password=SECRET,
        cert_path="/a/cert.pem",
        auth_client=True,
        trust_cert_path="/a/ca.pem",
    )
    shown = [repr(config), repr(config.tls_settings()), str(values_of(config))]
    assert not [text for text in shown if SECRET in text]
    assert values_of(config)[tls.SERVER_KEY_PASSWORD] == "******"
    assert kind.from_properties({}).tls_settings() == tls.TlsServerSettings()


def test_a_password_with_odd_letters_is_taken_as_it_is() -> None:
    config = BrokerConfig.from_properties({tls.SERVER_KEY_PASSWORD: "${user.home}$x"})
    assert config.tls_settings().key_password == "${user.home}$x"


def test_the_file_wins(tmp_path: Path, nowhere: Path) -> None:
    file = tmp_path / "tls.properties"
    file.write_text(
        f"tls.test.mode.enable=false\ntls.server.certPath=/file/cert.pem\n"
        f"tls.client.trustCertPath=/file/ca.pem\n{tls.SERVER_KEY_PASSWORD}={SECRET}\n"
    )
    values = {tls.SERVER_CERT: "/conf/cert.pem", tls.SERVER_KEY: "/conf/key.pem"}
    found = BrokerConfig.from_properties({**values, tls.CONFIG_FILE: str(file)}).tls_settings()
    assert (found.cert_path, found.key_path) == ("/file/cert.pem", "/conf/key.pem")
    assert (found.test_mode, found.key_password) == (False, SECRET)
    nowhere.write_text("tls.server.certPath=/default/cert.pem\n")
    found = BrokerConfig.from_properties(values).tls_settings()
    assert found.cert_path == "/default/cert.pem"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tls.server.mode=enforcing", "does not belong into this file"),
        ("tls.server.keypath=/a", "unknown key 'tls.server.keypath'"),
    ],
)
def test_a_file_with_a_wrong_key(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "tls.properties"
    file.write_text(f"{line}\n{tls.SERVER_KEY_PASSWORD}={SECRET}\n")
    with pytest.raises(ConfigError, match=words) as caught:
        tls.with_file({tls.CONFIG_FILE: str(file)})
    assert str(caught.value).startswith(f"tls.config.file: {file}")
    assert SECRET not in str(caught.value)


def test_values_that_are_none(tmp_path: Path) -> None:
    for name, value in [
        (tls.MODE, "both"),
        (tls.NEED_CLIENT_AUTH, "always"),
        (tls.TEST_MODE, "perhaps"),
        (tls.SERVER_AUTH_CLIENT, "1"),
    ]:
        with pytest.raises(ConfigError, match=f"{name}={value}"):
            tls.server_settings({name: value})
        with pytest.raises(ConfigError, match=f"{name}={value}"):
            BrokerConfig.from_properties({name: value})
    with pytest.raises(ConfigError, match="cannot read"):
        tls.with_file({tls.CONFIG_FILE: str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, True),
        ({tls.SERVER_CERT: "/a"}, False),
        ({tls.SERVER_TRUST: "/a"}, False),
        ({tls.MODE: "enforcing"}, False),
        ({tls.MODE: "enforcing", tls.TEST_MODE: "true"}, True),
        ({tls.SERVER_CERT: "/a", tls.TEST_MODE: "TRUE"}, True),
        ({tls.TEST_MODE: "false"}, False),
    ],
)
def test_when_the_certificate_is_made(values: dict[str, str], expected: bool) -> None:
    assert tls.server_settings(values).is_self_signed is expected


def test_keys_of_a_client() -> None:
    found = tls.client_settings(
        {tls.ENABLE: "true", tls.CLIENT_AUTH_SERVER: "true", tls.CLIENT_TRUST: "/a/ca.pem"}
    )
    assert found == tls.TlsClientSettings(
        enable=True, auth_server=True, trust_cert_path="/a/ca.pem"
    )
