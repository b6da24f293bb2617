"""Environment variables that set keys."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pyrmq.broker.config.broker_config import OTHER_KEYS, BrokerConfig
from pyrmq.config.environment import (
    BROKER,
    NAMESRV,
    FromEnvironment,
    _upper_snake,
    from_environment,
)
from pyrmq.config.table import RenamedKey, keys_of
from pyrmq.namesrv import config as namesrv

ROOT = Path(__file__).resolve().parents[3]


def of_broker(**variables: str) -> FromEnvironment:
    return from_environment(BrokerConfig, OTHER_KEYS, BROKER, variables)


def of_namesrv(**variables: str) -> FromEnvironment:
    return from_environment(namesrv.NamesrvConfig, namesrv.OTHER_KEYS, NAMESRV, variables)


def test_every_key_has_a_variable() -> None:
    for key, (field, _) in keys_of(BrokerConfig).items():
        value = str(getattr(BrokerConfig(), field))
        found = of_broker(**{f"PYRMQ_BROKER_CONF_{field.upper()}": value})
        if not value:
            assert "is blank: unset it" in str(found.errors[0])
            continue
        assert found.errors == []
        assert found.values == {key: value}
    for other in OTHER_KEYS:
        value = getattr(other, "accepted", ("x",))[0]
        found = of_broker(**{f"PYRMQ_BROKER_CONF_{_upper_snake(other.name)}": value})
        if isinstance(other, RenamedKey):
            assert f"{other.name} is now called {other.now}" in str(found.errors[0])
        else:
            assert found.values == {other.name: value}


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("PYRMQ_BROKER_CONF_BROKER_NAME", "brokerName"),
        ("PYRMQ_BROKER_CONF_LISTEN_PORT", "listenPort"),
        ("PYRMQ_BROKER_CONF_BROKER_IP1", "brokerIP1"),
        ("PYRMQ_BROKER_CONF_CHECK_CRC_ON_RECOVER", "checkCRCOnRecover"),
        ("PYRMQ_BROKER_CONF_NAMESRV_ADDR", "namesrvAddr"),
        ("PYRMQ_BROKER_CONF_HA_LISTEN_PORT", "haListenPort"),
        ("PYRMQ_BROKER_CONF_ACL_ENABLE", "aclEnable"),
    ],
)
def test_names(variable: str, key: str) -> None:
    values = {"listenPort": "1", "haListenPort": "1", "checkCRCOnRecover": "true"}
    values |= {"brokerIP1": "10.0.0.1", "namesrvAddr": "h:1", "aclEnable": "false"}
    found = of_broker(**{variable: values.get(key, "x")})
    assert found.variables == {key: variable}


def test_name_servers_have_their_own() -> None:
    both = {"PYRMQ_BROKER_CONF_LISTEN_PORT": "1", "PYRMQ_NAMESRV_CONF_LISTEN_PORT": "2"}
    assert of_broker(**both).values == {"listenPort": "1"}
    assert of_namesrv(**both).values == {"listenPort": "2"}


@pytest.mark.parametrize(
    ("variable", "word"),
    [
        ("PYRMQ_BROKER_CONF_BROKER_NAM", "did you mean PYRMQ_BROKER_CONF_BROKER_NAME"),
        ("PYRMQ_BROKER_CONF_NAME", "did you mean PYRMQ_BROKER_CONF_BROKER_NAME"),
        ("PYRMQ_BROKER_CONF_brokerName", "sets no key"),
        ("PYRMQ_BROKER_CONF_", "sets no key"),
        ("PYRMQ_BROKER_CONF_" + "X" * 5000, "sets no key"),
        ("PYRMQ_BROKER_LISTEN_PORT", "did you mean PYRMQ_BROKER_CONF_LISTEN_PORT?"),
        ("PYRMQ_LISTEN_PORT", "did you mean PYRMQ_BROKER_CONF_LISTEN_PORT?"),
        ("PYRMQ_CONFIG_LISTEN_PORT", "did you mean PYRMQ_BROKER_CONF_LISTEN_PORT?"),
    ],
)
def test_unknown_variables(variable: str, word: str) -> None:
    found = of_broker(**{variable: "1"})
    assert found.values == {}
    (error,) = found.errors
    assert word in str(error)
    assert len(str(error)) < 500


def test_what_others_set_is_left_alone() -> None:
    """Kubernetes makes these for services called pyrmq-broker and pyrmq-namesrv."""
    for word in ("BROKER", "NAMESRV"):
        made = {
            f"PYRMQ_{word}_SERVICE_HOST": "10.0.0.1", f"PYRMQ_{word}_SERVICE_PORT": "10911",
            f"PYRMQ_{word}_PORT": "tcp://10.0.0.1:10911", f"PYRMQ_{word}_PORT_10911_TCP": "x",
            f"PYRMQ_{word}_PORT_10911_TCP_ADDR": "10.0.0.1", "PYRMQ_SEED": "1",
            "NAMESRV_ADDR": "nonsense", "PATH": "/bin",
        }  # fmt: skip
        assert of_broker(**made) == FromEnvironment()
        assert of_namesrv(**made) == FromEnvironment()


def test_variables_of_this_repository_are_no_keys() -> None:
    """PYRMQ_SEED and others mean something else, and must not become errors of a broker."""
    listed = subprocess.run(
        ["git", "grep", "-hoE", "PYRMQ_[A-Z_]+[A-Z]", "--", ":!docs", ":!*config*", ":!*.md"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    names = set(listed.stdout.split())
    if not {"PYRMQ_SEED", "PYRMQ_THOROUGH"} <= names:
        pytest.skip("this is no checkout")
    names -= {name for name in names if "_CONF" in name}
    assert of_broker(**dict.fromkeys(names, "1")) == FromEnvironment()
    assert of_namesrv(**dict.fromkeys(names, "1")) == FromEnvironment()


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("70000", "PYRMQ_BROKER_CONF_LISTEN_PORT: listenPort=70000: must be 0 to 65535"),
        ("", "PYRMQ_BROKER_CONF_LISTEN_PORT is blank: unset it, or give it a value"),
        ("x", "a number expected"),
        ("\udcff", "is not UTF-8"),
    ],
)
def test_values_are_checked(value: str, word: str) -> None:
    found = of_broker(PYRMQ_BROKER_CONF_LISTEN_PORT=value, PYRMQ_BROKER_CONF_BROKER_NAME="b")
    assert found.values == {"brokerName": "b"}
    (error,) = found.errors
    assert word in str(error)


def test_another_variable_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "nonsense")
    assert of_broker(PYRMQ_BROKER_CONF_LISTEN_PORT="1").errors == []
