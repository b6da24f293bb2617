"""The keys of access control, which brokers and name servers share. [AuthConfig]

RocketMQ names classes where it has choices. Their names are accepted, with their packages or
without; other classes are refused, as nothing here loads Java's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from pyrmq.auth.model import check_password, check_user_name
from pyrmq.config.table import UnusedKey, key
from pyrmq.errors import ConfigError, InvalidParameterError
from pyrmq.net.client.server_access import ConnectingKeys

_CACHED = "users and access lists are in memory, whole, and each change counts at once"


def _one_of(*names: str) -> Callable[[str], None]:
    """A check for names of classes, with or without their package."""

    def check(text: str) -> None:
        if text and text.rpartition(".")[2] not in names:
            raise ValueError(f"{' or '.join(names)} expected, or nothing")

    return check


def codes(text: str) -> frozenset[int]:
    """Request codes, separated by commas. ValueError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) > 256 or not all(p.isascii() and p.isdecimal() and len(p) < 10 for p in parts):
        raise ValueError("request codes expected, separated by commas, such as 105,38")
    return frozenset(map(int, parts))


def _pair(text: str, name: str, secret: str) -> tuple[str, str] | None:
    """Two members of a JSON object; None for an empty text. ValueError, without the secret."""
    if not text.strip():
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    values = (found.get(name), found.get(secret)) if isinstance(found, dict) else (None, None)
    first, second = values
    if not isinstance(first, str) or not isinstance(second, str):
        raise ValueError(f'a JSON object such as {{"{name}":"…","{secret}":"…"}} is expected')
    try:
        check_user_name(first)
        check_password(second)
    except InvalidParameterError as e:
        raise ValueError(str(e)) from None
    return first, second


def init_user(text: str) -> tuple[str, str] | None:
    """Name and password of initAuthenticationUser."""
    return _pair(text, "username", "password")


def inner_credentials(text: str) -> tuple[str, str] | None:
    """Access key and secret key of innerClientAuthenticationCredentials."""
    return _pair(text, "accessKey", "secretKey")


@dataclass(frozen=True)
class AccessKeys(ConnectingKeys):
    """Keys of access control, behind those of connections. They stand last."""

    authentication_enabled: bool = key(
        False,
        "Whether each request must be signed by a user.",
        section="Access control ([access.md](access.md))",
    )
    authorization_enabled: bool = key(
        False, "Whether users need rights. Needs authenticationEnabled=true."
    )
    authentication_metadata_provider: str = key(
        "",
        "Where users are: config/users.json. Needed by authenticationEnabled; alone it allows to "
        "make users before that is switched on.",
        check=_one_of("LocalAuthenticationMetadataProvider"),
        values="LocalAuthenticationMetadataProvider",
    )
    authorization_metadata_provider: str = key(
        "",
        "Where access lists are: config/acls.json. Needed by authorizationEnabled.",
        check=_one_of("LocalAuthorizationMetadataProvider"),
        values="LocalAuthorizationMetadataProvider",
    )
    authentication_provider: str = key(
        "",
        "Who says whether a signature is right; there is one.",
        check=_one_of("DefaultAuthenticationProvider"),
        values="DefaultAuthenticationProvider",
    )
    authorization_provider: str = key(
        "",
        "Who says whether a right is there; there is one.",
        check=_one_of("DefaultAuthorizationProvider"),
        values="DefaultAuthorizationProvider",
    )
    authentication_strategy: str = key(
        "",
        "Both are one thing here: each signature is checked.",
        check=_one_of("StatelessAuthenticationStrategy", "StatefulAuthenticationStrategy"),
        values="StatelessAuthenticationStrategy, StatefulAuthenticationStrategy",
    )
    authorization_strategy: str = key(
        "",
        "Both are one thing here: decisions are kept for each connection until a change.",
        check=_one_of("StatelessAuthorizationStrategy", "StatefulAuthorizationStrategy"),
        values="StatelessAuthorizationStrategy, StatefulAuthorizationStrategy",
    )
    authentication_whitelist: str = key(
        "",
        "Requests that need no signature. One that has an access key is checked all the same.",
        check=codes,
        values="request codes, separated by commas",
    )
    authorization_whitelist: str = key(
        "",
        "Requests that need no right.",
        check=codes,
        values="request codes, separated by commas",
    )
    init_authentication_user: str = key(
        "",
        "A super user that is made at the start, unless a user has its name.",
        check=init_user,
        values='{"username":"…","password":"…"}',
        secret=True,
    )

    @property
    def has_users(self) -> bool:
        """Whether this server keeps users and access lists, and takes requests about them."""
        return bool(self.authentication_metadata_provider)

    def check_access(self) -> None:
        """ConfigError for keys that do not go together."""
        users = "authenticationMetadataProvider=LocalAuthenticationMetadataProvider"
        lists = "authorizationMetadataProvider=LocalAuthorizationMetadataProvider"
        if self.authentication_enabled and not self.authentication_metadata_provider:
            raise ConfigError(f"authenticationEnabled=true needs {users}")
        if self.authorization_enabled and not self.authorization_metadata_provider:
            raise ConfigError(f"authorizationEnabled=true needs {lists}")
        if self.authorization_enabled and not self.authentication_enabled:
            raise ConfigError(
                "authorizationEnabled=true needs authenticationEnabled=true: otherwise anyone may "
                "say to be any user"
            )
        if self.authorization_metadata_provider and not self.authentication_metadata_provider:
            raise ConfigError(f"authorizationMetadataProvider needs {users}")
        if self.init_authentication_user and not self.authentication_metadata_provider:
            raise ConfigError(f"initAuthenticationUser needs {users}")


OTHER_ACCESS_KEYS: tuple[UnusedKey, ...] = tuple(
    UnusedKey(name, _CACHED)
    for name in (
        "userCacheMaxNum", "userCacheExpiredSecond", "userCacheRefreshSecond",
        "aclCacheMaxNum", "aclCacheExpiredSecond", "aclCacheRefreshSecond",
        "statefulAuthenticationCacheMaxNum", "statefulAuthenticationCacheExpiredSecond",
        "statefulAuthorizationCacheMaxNum", "statefulAuthorizationCacheExpiredSecond",
    )
)  # fmt: skip
"""RocketMQ's keys of access control without a field."""
