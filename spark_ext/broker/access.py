"""How a query connects, by its options: credentials and TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyrmq.config.secret_file import read_secret
from pyrmq.errors import ClientError, ConfigError
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls

if TYPE_CHECKING:
    from spark_ext.options import Options

_TLS = (
    "tlsCaFile",
    "tlsCertFile",
    "tlsKeyFile",
    "tlsKeyPassword",
    "tlsServerName",
    "tlsAnyName",
    "tlsInsecure",
)


def credentials_of(options: Options) -> Credentials | None:
    """ConfigError for keys without each other, and for a file that cannot be used."""
    key, file, plain = options["accessKey"], options["secretKeyFile"], options["secretKey"]
    token = options["securityToken"]
    if key is None and file is None and plain is None and token is None:
        return None
    if key is None or (file is None and plain is None):
        raise ConfigError("options accessKey and secretKeyFile (or secretKey) go together")
    found = plain if file is None else read_secret(file, "option secretKeyFile")
    try:
        return Credentials(key, found, token or "")
    except ClientError as error:
        raise ConfigError(f"options accessKey, secretKey: {error}") from None


def tls_of(options: Options) -> Tls | None:
    """ConfigError for options that contradict each other."""
    given = [name for name in _TLS if options[name]]
    if options["tls"] is False and given:
        raise ConfigError(f"option {given[0]} needs tls=true")
    if not options["tls"] and not given:
        return None
    return Tls(
        ca=options["tlsCaFile"],
        cert=options["tlsCertFile"],
        key=options["tlsKeyFile"],
        key_password=options["tlsKeyPassword"],
        server_hostname=options["tlsServerName"],
        check_hostname=not options["tlsAnyName"],
        insecure=options["tlsInsecure"],
    )
