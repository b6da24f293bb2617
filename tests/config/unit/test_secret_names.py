"""Which keys are secrets."""

from __future__ import annotations

import pytest

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.config.secret_names import is_secret
from pyrmq.config.table import keys_of
from pyrmq.namesrv.config import NamesrvConfig


@pytest.mark.parametrize(
    "name",
    ["password", "secretKey", "secret_key", "tlsKeyPassword", "initAuthenticationUser",
     "innerClientAuthenticationCredentials", "aclSecretKey", "tls.server.keyPassword", "authToken"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["accessKey", "keys", "topic", "passive", "authenticationEnabled"])
def test_names_that_are_no_secret(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize("cls", [BrokerConfig, NamesrvConfig])
def test_our_own_keys_are_told_apart_by_their_names(cls: type) -> None:
    rows = {name: row.secret for name, (_, row) in keys_of(cls).items()}
    assert {name for name in rows if is_secret(name)} == {name for name in rows if rows[name]}
