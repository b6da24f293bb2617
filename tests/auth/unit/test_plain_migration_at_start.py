"""migrateAuthFromV1Enabled: accounts become users when a broker starts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from pyrmq.auth import secret_file
from pyrmq.auth.access import Access
from pyrmq.auth.model import UserType
from pyrmq.broker.access_control import access_files, open_users
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.errors import ConfigError

TEXT = """\
globalWhiteRemoteAddresses: [10.9.*.*]
accounts:
- accessKey: operator
  secretKey: secret-of-operator
  admin: true
- accessKey: orders-service
  secretKey: secret-of-orders
  topicPerms: [orders=PUB, 'all*=SUB']
"""
ON: dict[str, Any] = {
    "authentication_metadata_provider": "LocalAuthenticationMetadataProvider",
    "authorization_metadata_provider": "LocalAuthorizationMetadataProvider",
    "authentication_enabled": True,
    "migrate_auth_from_v1_enabled": True,
}


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    return BrokerConfig(
        store_path_root_dir=tmp_path / "store", rocketmq_home=str(_home(tmp_path, TEXT)), **ON
    )


def _home(folder: Path, text: str) -> Path:
    file = folder / "home" / "conf" / "plain_acl.yml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)
    return folder / "home"


def _users(config: BrokerConfig) -> Access:
    access = open_users(config)
    assert access is not None
    return access


def test_the_start_makes_users_and_says_what_it_did(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        _users(config)
    found = Access(*access_files(config))  # from the files
    assert [user.name for user in found.users.all()] == ["operator", "orders-service"]
    assert [user.name for user in found.users.supers] == ["operator"]
    acl = found.acls.get("User:orders-service")
    assert acl is not None
    assert [entry["resource"] for entry in acl.to_json()["policies"][0]["entries"]] == [
        "Topic:orders"
    ]
    text = caplog.text
    assert "2 users were made, 0 were there; migrateAuthFromV1Enabled can be removed" in text
    assert "10.9.*.*" in text
    assert "the permission for all* is left out" in text
    assert "createUser orders-service: before -, after type=Normal,status=enable" in text
    assert "createAcl User:orders-service" in text
    assert "secret-of" not in text


def test_users_that_are_there_stay_as_they_are(config: BrokerConfig) -> None:
    access = Access(*access_files(config))
    access.ensure_super("orders-service", "its own password")
    found = _users(config)
    user = found.users.get("orders-service")
    assert user is not None
    assert (user.password, user.type) == ("its own password", UserType.SUPER)
    assert found.acls.get("User:orders-service") is None
    assert found.users.get("operator") is not None


@pytest.mark.parametrize("killed_at", [1, 2])
def test_the_next_start_completes_one_that_was_killed(
    config: BrokerConfig, killed_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each write: before it reaches the disk."""
    written = 0
    save = secret_file.save

    def killed(path: Path, value: dict[str, Any]) -> None:
        nonlocal written
        written += 1
        if written == killed_at:
            raise KeyboardInterrupt
        save(path, value)

    with monkeypatch.context() as patched:
        patched.setattr(secret_file, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            open_users(config)
    for _ in range(2):
        found = _users(config)
        assert [user.name for user in found.users.all()] == ["operator", "orders-service"]
        assert [acl.subject for acl in found.acls.all()] == ["User:orders-service"]


def test_an_account_that_cannot_be_a_user_stops_the_start(tmp_path: Path) -> None:
    text = TEXT.replace("orders-service", "orders service")
    home = str(_home(tmp_path, text))
    config = BrokerConfig(store_path_root_dir=tmp_path / "store", rocketmq_home=home, **ON)
    with pytest.raises(ConfigError, match="'orders service' cannot be a user"):
        open_users(config)
    assert not access_files(config)[0].exists()


def test_without_access_files_nothing_is_made(
    config: BrokerConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "home" / "conf" / "plain_acl.yml").unlink()
    with pytest.raises(ConfigError, match="initAuthenticationUser"):
        open_users(config)
    assert "nothing is migrated" in caplog.text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"acl_enable": True, "authentication_enabled": False}, "set aclEnable=false"),
        ({"authorization_metadata_provider": ""}, "authorizationMetadataProvider="),
        ({"rocketmq_home": ""}, "needs rocketmqHome"),
    ],
)
def test_keys_that_it_needs(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    keys = {**ON, "rocketmq_home": str(tmp_path), **changed}
    with pytest.raises(ConfigError, match=said):
        BrokerConfig(store_path_root_dir=tmp_path, **keys)
