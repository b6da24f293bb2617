"""Settings of TLS: their keys, RocketMQ's `tls.properties`, and what they are together.

RocketMQ's names, from TlsSystemConfig. There they are system properties; `tls.server.mode`,
`tls.enable` and `tls.config.file` are nothing else, and the file has the others and wins
(TlsHelper).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyrmq.config.files import load_file
from pyrmq.errors import ConfigError
from pyrmq.escape import escape

MODE = "tls.server.mode"
ENABLE = "tls.enable"
CONFIG_FILE = "tls.config.file"
TEST_MODE = "tls.test.mode.enable"
NEED_CLIENT_AUTH = "tls.server.need.client.auth"
SERVER_KEY = "tls.server.keyPath"
SERVER_KEY_PASSWORD = "tls.server.keyPassword"
SERVER_CERT = "tls.server.certPath"
SERVER_AUTH_CLIENT = "tls.server.authClient"
SERVER_TRUST = "tls.server.trustCertPath"
CLIENT_KEY = "tls.client.keyPath"
CLIENT_KEY_PASSWORD = "tls.client.keyPassword"
CLIENT_CERT = "tls.client.certPath"
CLIENT_AUTH_SERVER = "tls.client.authServer"
CLIENT_TRUST = "tls.client.trustCertPath"

SERVER_FILE_KEYS = (
    TEST_MODE,
    NEED_CLIENT_AUTH,
    SERVER_KEY,
    SERVER_KEY_PASSWORD,
    SERVER_CERT,
    SERVER_AUTH_CLIENT,
    SERVER_TRUST,
)
"""Keys of a server that the file may have."""
CLIENT_FILE_KEYS = (
    TEST_MODE,
    CLIENT_KEY,
    CLIENT_KEY_PASSWORD,
    CLIENT_CERT,
    CLIENT_AUTH_SERVER,
    CLIENT_TRUST,
)
"""The same of a client."""
FILE_KEYS = tuple(dict.fromkeys((*SERVER_FILE_KEYS, *CLIENT_FILE_KEYS)))
ELSEWHERE = (MODE, ENABLE, CONFIG_FILE)
"""Keys that RocketMQ does not read from the file."""

DEFAULT_CONFIG_FILE = Path("/etc/rocketmq/tls.properties")

DISABLED = "disabled"
PERMISSIVE = "permissive"
ENFORCING = "enforcing"
MODES = (DISABLED, PERMISSIVE, ENFORCING)
CLIENT_AUTHS = ("none", "optional", "require")


@dataclass(frozen=True, slots=True)
class TlsServerSettings:
    """How a server speaks TLS. Empty paths: none."""

    mode: str = PERMISSIVE
    test_mode: bool | None = None
    """A self-signed certificate, and clients are not verified. None: so it is if no file is named,
    unless the mode is enforcing."""
    need_client_auth: str = "none"
    """Whether a client is asked for a certificate: none, optional, require."""
    key_path: str = ""
    key_password: str = field(default="", repr=False)
    cert_path: str = ""
    auth_client: bool = False
    """Whether the certificates of clients are verified against `trust_cert_path`."""
    trust_cert_path: str = ""

    @property
    def is_self_signed(self) -> bool:
        """Whether the server makes its certificate by itself."""
        if self.test_mode is None:
            named = self.key_path or self.cert_path or self.trust_cert_path
            return not named and self.mode != ENFORCING
        return self.test_mode


@dataclass(frozen=True, slots=True)
class TlsClientSettings:
    """How a client speaks TLS. Empty paths: none."""

    enable: bool = False
    test_mode: bool | None = None
    """The server is not verified, and no certificate is sent. None: so it is if no file is named
    and `auth_server` is not asked for."""
    key_path: str = ""
    key_password: str = field(default="", repr=False)
    cert_path: str = ""
    auth_server: bool = False
    """Whether the server's certificate is verified, against `trust_cert_path` if there is one, else
    against the system's authorities."""
    trust_cert_path: str = ""


def read_tls_properties(path: Path) -> dict[str, str]:
    """The tls keys of a properties file. ConfigError if the file cannot be read, or if it has a key
    that is unknown or that belongs elsewhere. The error has no value: some are secret."""
    found = load_file(path)
    for name in found:
        if name in ELSEWHERE:
            raise ConfigError(
                f"{path}: {name} does not belong into this file: set it in broker.conf, "
                "namesrv.conf, or in the program that connects"
            )
        if name not in FILE_KEYS:
            raise ConfigError(
                f"{path}: unknown key {escape(name[:100])!r}: known are {', '.join(FILE_KEYS)}"
            )
    return found


def server_settings(values: Mapping[str, str]) -> TlsServerSettings:
    """Settings from keys and values; keys that are not a server's are left out. ConfigError names
    the key at fault."""
    return TlsServerSettings(
        mode=_choice(values, MODE, MODES, PERMISSIVE),
        test_mode=_flag(values, TEST_MODE),
        need_client_auth=_choice(values, NEED_CLIENT_AUTH, CLIENT_AUTHS, "none"),
        key_path=_path(values, SERVER_KEY),
        key_password=values.get(SERVER_KEY_PASSWORD, ""),
        cert_path=_path(values, SERVER_CERT),
        auth_client=bool(_flag(values, SERVER_AUTH_CLIENT)),
        trust_cert_path=_path(values, SERVER_TRUST),
    )


def client_settings(values: Mapping[str, str]) -> TlsClientSettings:
    """The same for a client."""
    return TlsClientSettings(
        enable=bool(_flag(values, ENABLE)),
        test_mode=_flag(values, TEST_MODE),
        key_path=_path(values, CLIENT_KEY),
        key_password=values.get(CLIENT_KEY_PASSWORD, ""),
        cert_path=_path(values, CLIENT_CERT),
        auth_server=bool(_flag(values, CLIENT_AUTH_SERVER)),
        trust_cert_path=_path(values, CLIENT_TRUST),
    )


def with_file(values: Mapping[str, str]) -> dict[str, str]:
    """`values` and those of the file that `tls.config.file` names; the file wins, as in RocketMQ.
    The default file may be absent. ConfigError as `read_tls_properties`."""
    named = _path(values, CONFIG_FILE)
    if not named and not DEFAULT_CONFIG_FILE.is_file():
        return dict(values)
    path = Path(named) if named else DEFAULT_CONFIG_FILE
    try:
        return {**values, **read_tls_properties(path)}
    except ConfigError as e:
        raise ConfigError(f"{CONFIG_FILE}: {e}") from None


def _path(values: Mapping[str, str], name: str) -> str:
    text = values.get(name, "").strip()
    return str(Path(text).expanduser()) if text else ""


def _choice(values: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    text = values.get(name, "").strip().lower() or default
    if text not in choices:
        raise ConfigError(f"{name}={escape(text[:100])}: {' or '.join(choices)} expected")
    return text


def _flag(values: Mapping[str, str], name: str) -> bool | None:
    """None: it is not set."""
    text = values.get(name, "").strip().lower()
    if text not in ("", "true", "false"):
        raise ConfigError(f"{name}={escape(text[:100])}: true or false expected")
    return None if not text else text == "true"
