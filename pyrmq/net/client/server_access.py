"""How brokers and name servers connect to others: their keys, and what they come to.

[BrokerOuterAPI, AuthConfig.innerClientAuthenticationCredentials, TlsSystemConfig]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from pyrmq.config.table import key
from pyrmq.config.tls import (
    CLIENT_AUTH_SERVER,
    CLIENT_CERT,
    CLIENT_KEY,
    CLIENT_KEY_PASSWORD,
    CLIENT_TRUST,
    CONFIG_FILE,
    DISABLED,
    ENABLE,
    ENFORCING,
    TEST_MODE,
    with_file,
)
from pyrmq.config.tls_keys import TlsKeys
from pyrmq.errors import ClientError, ConfigError
from pyrmq.net.address import Address
from pyrmq.net.client.channel import Channels
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

INNER = "innerClientAuthenticationCredentials"


def _credentials(text: str) -> Credentials | None:
    try:
        return Credentials.from_json(text, "this") if text.strip() else None
    except ClientError as e:
        raise ValueError(str(e)) from None


def _flag(text: str) -> None:
    if text.lower() not in ("", "true", "false"):
        raise ValueError("true or false expected")


@dataclass(frozen=True, slots=True)
class OwnNameServer:
    """The name server that runs with a broker, in its process or in the one that started it: the
    broker is known there without a key of its configuration."""

    address: Address
    credentials: Credentials | None = field(repr=False)
    tls: Tls | None


@dataclass(frozen=True)
class ConnectingKeys(TlsKeys):
    """Keys of a server that connects to others, behind those of its own TLS."""

    inner_client_authentication_credentials: str = key(
        "",
        "What this server signs with when it asks others: name servers, its master, its slaves.",
        check=_credentials,
        values='{"accessKey":"…","secretKey":"…"}',
        section="Connections to other servers",
        secret=True,
    )
    tls_enable: bool = key(
        False,
        "Whether this server connects to others with TLS, a slave also to its master's HA port.",
        name=ENABLE,
    )
    tls_client_trust_cert_path: str = key(
        "",
        "Certificates (PEM) that are trusted, whatever host they are for. "
        "Empty: the system's, for the host that is connected to.",
        name=CLIENT_TRUST,
        values="a file",
    )
    tls_client_auth_server: str = key(
        "",
        "false: certificates of servers are not verified. Empty: as true; RocketMQ's default is "
        "false.",
        name=CLIENT_AUTH_SERVER,
        check=_flag,
        values="true, false",
    )
    tls_client_cert_path: str = key(
        "", "Own certificate with its chain (PEM).", name=CLIENT_CERT, values="a file"
    )
    tls_client_key_path: str = key("", "Its key (PEM).", name=CLIENT_KEY, values="a file")
    tls_client_key_password: str = key(
        "", "The password of the key.", name=CLIENT_KEY_PASSWORD, secret=True
    )

    own_name_server: OwnNameServer | None = None
    """No key: whoever runs both servers sets it."""


def channels_of(config: ConnectingKeys) -> Channels:
    """Connections as a server's configuration says. ConfigError."""
    own = config.own_name_server
    apart = {} if own is None else {own.address: (own.credentials, own.tls)}
    return Channels(credentials=credentials_of(config), tls=tls_of(config), apart=apart)


def own_tls(name_server: TlsKeys, config: ConnectingKeys) -> Tls | None:
    """How a broker connects to its own name server: with TLS if that takes nothing else, or if the
    broker's configuration has tls.enable. ConfigError.

    Nothing is verified: the port is one of this process, or of the one that started it, so nobody
    is on the way. Where the name server wants certificates of its clients, its own is shown, unless
    the broker has one for its connections.
    """
    settings, given = name_server.tls_settings(), tls_of(config)
    if settings.mode == DISABLED or (given is None and settings.mode != ENFORCING):
        return None
    if given is not None and given.cert is not None:
        return Tls(cert=given.cert, key=given.key, key_password=given.key_password, insecure=True)
    if settings.need_client_auth == "none" or not settings.cert_path:
        return Tls(insecure=True)
    return Tls(
        cert=settings.cert_path,
        key=settings.key_path,
        key_password=settings.key_password or None,
        insecure=True,
    )


def credentials_of(config: ConnectingKeys) -> Credentials | None:
    try:
        return _credentials(config.inner_client_authentication_credentials)
    except ValueError as e:
        raise ConfigError(f"{INNER}: {e}") from None


def tls_of(config: ConnectingKeys) -> Tls | None:
    """None without tls.enable. ConfigError. The properties file is read once."""
    if not config.tls_enable:
        return None
    return _tls(
        (
            (CLIENT_TRUST, config.tls_client_trust_cert_path),
            (CLIENT_AUTH_SERVER, config.tls_client_auth_server),
            (CLIENT_CERT, config.tls_client_cert_path),
            (CLIENT_KEY, config.tls_client_key_path),
            (CLIENT_KEY_PASSWORD, config.tls_client_key_password),
            (TEST_MODE, config.tls_test_mode_enable),
            (CONFIG_FILE, config.tls_config_file),
        )
    )


@lru_cache(16)
def _tls(keys: tuple[tuple[str, str], ...]) -> Tls:
    values = with_file({name: text for name, text in keys if text})
    # Those who sign for a cluster sign for no other; addresses of brokers are numbers mostly.
    return Tls.from_keys(values, check_hostname=not values.get(CLIENT_TRUST))
