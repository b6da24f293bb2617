"""Keys of ACL 1.0 that do not go together."""

from __future__ import annotations

from typing import Any

import pytest

from pyrmq.broker.access_control import open_access_control
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.errors import ConfigError


def test_accounts_need_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    with pytest.raises(ConfigError, match="needs rocketmqHome, or the variable ROCKETMQ_HOME"):
        BrokerConfig(acl_enable=True)
    assert BrokerConfig().rocketmq_home == ""
    monkeypatch.setenv("ROCKETMQ_HOME", "/opt/rocketmq")
    assert BrokerConfig(acl_enable=True).rocketmq_home == "/opt/rocketmq"


USERS = {
    "authentication_enabled": True,
    "authentication_metadata_provider": "LocalAuthenticationMetadataProvider",
}
LISTS = {
    "authorization_enabled": True,
    "authorization_metadata_provider": "LocalAuthorizationMetadataProvider",
}


@pytest.mark.parametrize("keys", [USERS, USERS | LISTS])
def test_accounts_and_users_exclude_each_other(keys: dict[str, Any]) -> None:
    BrokerConfig(**keys)
    with pytest.raises(ConfigError, match="aclEnable and authenticationEnabled are both true: set"):
        BrokerConfig(acl_enable=True, rocketmq_home="/opt", **keys)


def test_a_broker_without_access_control_reads_no_accounts() -> None:
    made = open_access_control(BrokerConfig(rocketmq_home="/nowhere"))
    assert (made.guard, made.keyring, made.plain) == (None, None, None)
