"""What `pyrmq config check --hardening` finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyrmq.auth.exposure import open_to
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.cli import main
from pyrmq.cli.hardening import Finding, Severity, check
from pyrmq.config.table import values_of
from pyrmq.namesrv.config import NamesrvConfig

STRONG = "k7Q-2mZx_w9tRb4VvP1n"


def _found(
    changed: dict[str, str], file: Path | None = None, *, namesrv: bool = False
) -> dict[str, Finding]:
    """By key. Keys that this broker does not have are as good as others."""
    return {one.key: one for one in _all(changed, file, namesrv=namesrv)}


def _all(
    changed: dict[str, str], file: Path | None = None, *, namesrv: bool = False
) -> list[Finding]:
    config = NamesrvConfig if namesrv else BrokerConfig
    values = {**values_of(config()), "bindAddress": "0.0.0.0", **changed}
    return check(values, changed, file, namesrv=namesrv)


def _serious(found: dict[str, Finding]) -> set[str]:
    return {key for key, one in found.items() if one.severity is Severity.SERIOUS}


SAFE = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "adminAddressAllowList": "10.0.0.0/8",
    "tls.server.mode": "enforcing",
    "tls.server.keyPath": "/nowhere/server.key",
    "tls.server.certPath": "/nowhere/server.crt",
    "autoCreateTopicEnable": "false",
    "autoCreateSubscriptionGroup": "false",
}


def test_the_defaults_on_an_open_address() -> None:
    assert _serious(_found({})) == {
        "authenticationEnabled", "adminAddressAllowList", "tls.server.certPath",
    }  # fmt: skip
    assert _serious(_found({}, namesrv=True)) == {
        "authenticationEnabled", "adminAddressAllowList", "tls.server.certPath",
    }  # fmt: skip


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_loopback_needs_nothing(address: str) -> None:
    assert _found({"bindAddress": address}) == {}


def test_a_safe_broker_has_advice_only() -> None:
    found = _found(SAFE)
    assert _serious(found) == set()
    assert set(found) == {"haListenPort"}
    assert found["haListenPort"].now == "10912"
    assert _found({**SAFE, "brokerRole": "SLAVE"}) == {}
    certificates = {
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": "ca.crt",
    }
    assert "haListenPort" not in _found({**SAFE, **certificates})
    permissive = {**SAFE, **certificates, "tls.server.mode": "permissive"}
    assert "haListenPort" in _found(permissive), "a plain slave shows no certificate"
    assert _found(SAFE, namesrv=True) == {}


@pytest.mark.parametrize(
    ("changed", "key", "serious"),
    [
        ({"authorizationEnabled": "false"}, "authorizationEnabled", True),
        ({"authenticationEnabled": "false", "authorizationEnabled": "false"},
         "authenticationEnabled", True),
        ({"adminAddressAllowList": ""}, "adminAddressAllowList", False),
        ({"tls.server.mode": "disabled"}, "tls.server.mode", True),
        ({"tls.server.mode": "permissive"}, "tls.server.mode", False),
        ({"tls.test.mode.enable": "true"}, "tls.test.mode.enable", True),
        ({"tls.server.certPath": ""}, "tls.server.certPath", True),
        ({"tls.server.authClient": "true"}, "tls.server.trustCertPath", True),
        ({"autoCreateTopicEnable": "true"}, "autoCreateTopicEnable", False),
        ({"autoCreateSubscriptionGroup": "true"}, "autoCreateSubscriptionGroup", False),
        ({"migrateAuthFromV1Enabled": "true"}, "migrateAuthFromV1Enabled", False),
        ({"authenticationWhitelist": "105"}, "authenticationWhitelist", False),
        ({"authorizationWhitelist": "105"}, "authorizationWhitelist", False),
        ({"metricsExporterType": "PROM", "metricsPromExporterHost": "0.0.0.0"},
         "metricsPromExporterHost", False),
    ],
)  # fmt: skip
def test_each_of_the_keys(changed: dict[str, str], key: str, serious: bool) -> None:
    found = _found({**SAFE, **changed})
    assert found.keys() - _found(SAFE).keys() == {key}
    assert (found[key].severity is Severity.SERIOUS) == serious


@pytest.mark.parametrize(
    ("secret", "severity"),
    [
        ("12345678", Severity.SERIOUS), ("RocketMQ", Severity.SERIOUS), ("root", Severity.SERIOUS),
        ("Short-1", Severity.ADVICE), ("298374650192837465", Severity.ADVICE),
        (STRONG, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("bind", ["0.0.0.0", "127.0.0.1"])
def test_secrets_that_are_guessed(secret: str, severity: Severity | None, bind: str) -> None:
    text = json.dumps({"username": "root", "password": secret})
    found = _found({**SAFE, "bindAddress": bind, "initAuthenticationUser": text})
    one = found.get("initAuthenticationUser")
    assert (one and one.severity) == severity
    assert all(secret not in str(f.to_json()) for f in found.values() if secret != "root")


@pytest.mark.parametrize("text", ["[]", "{", '{"username": 1}', '{"password": 12345678}'])
def test_a_user_that_is_none(text: str) -> None:
    _found({**SAFE, "initAuthenticationUser": text})


def _private(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_files_that_others_can_read(tmp_path: Path) -> None:
    conf = _private(tmp_path / "broker.conf")
    key = _private(tmp_path / "server.key")
    users = _private(tmp_path / "store" / "config" / "users.json")
    acl = _private(tmp_path / "conf" / "plain_acl.yml")
    tools = _private(tmp_path / "conf" / "tools.yml")
    changed = {
        **SAFE,
        "aclEnable": "true",
        "rocketmqHome": str(tmp_path),
        "storePathRootDir": str(tmp_path / "store"),
        "tls.server.keyPath": str(key),
        "innerClientAuthenticationCredentials": json.dumps(
            {"accessKey": "broker-a", "secretKey": STRONG}
        ),
    }
    assert _serious(_found(changed, conf)) == set()
    for path in (conf, key, users, acl, tools):
        path.chmod(0o640)
        found = _found(changed, conf)
        assert _serious(found) == {str(path)}
        assert (found[str(path)].now, found[str(path)].set) == ("0640", f"chmod 600 {path}")
        path.chmod(0o600)


def test_accounts_of_acl_1(tmp_path: Path) -> None:
    _private(
        tmp_path / "conf" / "plain_acl.yml",
        "globalWhiteRemoteAddresses: ['*', 10.0.0.*]\n"
        "accounts:\n"
        "- {accessKey: RocketMQ, secretKey: 12345678}\n"
        f"- {{accessKey: operator, secretKey: {STRONG}, whiteRemoteAddress: 10.0.0.1, admin: true}}"
        "\n"
        f"- {{accessKey: anybody, secretKey: {STRONG}1, whiteRemoteAddress: '*'}}\n",
    )
    plain = {**SAFE, "authenticationEnabled": "false", "authorizationEnabled": "false"}
    values = {**plain, "aclEnable": "true", "rocketmqHome": str(tmp_path)}
    rows = [
        (one.key.rpartition("plain_acl.yml: ")[2], one.now, one.severity.value)
        for one in _all(values)
        if "plain_acl.yml" in one.key
    ]
    assert sorted(rows) == [
        ("RocketMQ: secretKey", "set", "serious"),
        ("anybody: whiteRemoteAddress", "*", "serious"),
        ("globalWhiteRemoteAddresses", "*", "serious"),
        ("globalWhiteRemoteAddresses", "10.0.0.*", "advice"),
        ("operator: whiteRemoteAddress", "10.0.0.1", "advice"),
    ]
    (tmp_path / "conf" / "plain_acl.yml").write_text("accounts: [")
    assert "plain_acl.yml: line" in _found(values)["aclEnable"].why


def _check(*words: str) -> Result:
    return CliRunner().invoke(main, ["config", "check", "--hardening", *words])


def test_the_command(tmp_path: Path) -> None:
    conf = _private(tmp_path / "broker.conf", "bindAddress=0.0.0.0\nlistenPort=12000\n")
    done = _check(str(conf))
    assert done.exit_code == 1
    assert "serious  authenticationEnabled=false\n" in done.output
    assert "why: whoever reaches port 12000 on 0.0.0.0 " in done.output
    assert done.output.splitlines()[-1] == "3 serious, 4 advice"
    rows = json.loads(_check(str(conf), "-o", "json").output)
    assert len(rows) == 7
    assert rows[0].keys() == {"severity", "key", "value", "set", "why"}
    conf.write_text("bindAddress=127.0.0.1\n")
    assert (_check(str(conf)).exit_code, _check(str(conf), "-o", "json").output) == (0, "[]\n")
    assert _check("--namesrv").exit_code == 1
    assert CliRunner().invoke(main, ["config", "check", "-o", "json"]).exit_code == 2
    conf.write_text("listenPort=x\n")
    assert _check(str(conf)).exit_code == 1


def test_files_of_tls_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    """Otherwise the advice would be that of a server that can start."""
    conf = tmp_path / "broker.conf"
    gone = tmp_path / "gone.pem"
    conf.write_text(f"tls.server.keyPath={gone}\ntls.server.certPath={gone}\n")
    result = _check(str(conf))
    assert result.exit_code == 1
    assert f"cannot read {gone}" in result.stderr
    assert "serious" not in result.output


def test_a_name_server_has_no_messages() -> None:
    (text,) = [f.why for f in _all({}, namesrv=True) if f.key == "authenticationEnabled"]
    assert text.endswith("registers brokers, changes routes")


def test_what_the_start_line_says_is_open() -> None:
    broker, namesrv = values_of(BrokerConfig()), values_of(NamesrvConfig())
    assert "read and write messages, and change" in (open_to(broker) or "")
    says = open_to(namesrv) or ""
    assert "read routes and register brokers, and change routes and configuration" in says
    assert "and change" not in (open_to({**broker, "adminAddressAllowList": "10.0.0.1"}) or "")
    assert "each user may" in (open_to({**broker, "authenticationEnabled": "true"}) or "")
    for key in ("aclEnable", "authorizationEnabled"):
        assert open_to({**broker, key: "true"}) is None
