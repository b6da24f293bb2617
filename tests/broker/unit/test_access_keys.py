"""Keys of ACL 1.0 that do not go together."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pyrmq.broker.assembly import plain_access
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.config.table import key
from pyrmq.errors import ConfigError


def test_accounts_need_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    with pytest.raises(ConfigError, match="needs rocketmqHome, or the variable ROCKETMQ_HOME"):
        BrokerConfig(acl_enable=True)
    assert BrokerConfig().rocketmq_home == ""
    monkeypatch.setenv("ROCKETMQ_HOME", "/opt/rocketmq")
    assert BrokerConfig(acl_enable=True).rocketmq_home == "/opt/rocketmq"


@dataclass(frozen=True, slots=True)
class _WithUsers(BrokerConfig):
    authentication_enabled: bool = key(False, "Users.")
    authorization_enabled: bool = key(False, "Access lists.")


@pytest.mark.parametrize("name", ["authentication", "authorization"])
def test_accounts_and_users_exclude_each_other(name: str) -> None:
    _WithUsers(acl_enable=True, rocketmq_home="/opt")
    keys = {f"{name}_enabled": True}
    with pytest.raises(ConfigError, match=f"aclEnable and {name}Enabled are both true: set"):
        _WithUsers(acl_enable=True, rocketmq_home="/opt", **keys)
    _WithUsers(**keys)


def test_a_broker_without_access_control_reads_no_accounts() -> None:
    assert plain_access(BrokerConfig(rocketmq_home="/nowhere"), lambda: None) is None
