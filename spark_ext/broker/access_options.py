"""Rows of the table of options that say how to connect: credentials and TLS.

Names of options with a secret match `spark.redaction.regex` (secret, password, token, access key),
so that Spark itself does not show their values.
"""

from __future__ import annotations

from spark_ext.option import BROKER, WRITES, Option, boolean, text


def secret(value: str) -> str:
    """A text that no error quotes."""
    if not value:
        raise ValueError("is empty")
    return value


OPTIONS: tuple[Option, ...] = (
    Option(
        "accessKey",
        text,
        BROKER | WRITES,
        None,
        "Account (ACL 1.0) or user (2.0) that signs all requests. Goes with secretKeyFile or "
        "secretKey.",
    ),
    Option(
        "secretKeyFile",
        text,
        BROKER | WRITES,
        None,
        "File with its secret key, which only its owner may read (`chmod 600`). The driver reads "
        "it; tasks get the key from the driver.",
        group="secretKey",
    ),
    Option(
        "secretKey",
        secret,
        BROKER | WRITES,
        None,
        "The key itself. Spark redacts it where it shows options. Not allowed in CREATE TABLE and "
        "on command lines.",
        group="secretKey",
    ),
    Option(
        "securityToken",
        secret,
        BROKER | WRITES,
        None,
        "Token of temporary keys.",
    ),
    Option(
        "tls",
        boolean,
        BROKER | WRITES,
        None,
        "Whether to connect with TLS. The options below turn it on as well. Their files must be "
        "at the same path on the driver and on all executors.",
    ),
    Option(
        "tlsCaFile",
        text,
        BROKER | WRITES,
        None,
        "Certificates that are trusted (PEM). Default: the system's.",
    ),
    Option("tlsCertFile", text, BROKER | WRITES, None, "Own certificate with its chain (PEM)."),
    Option("tlsKeyFile", text, BROKER | WRITES, None, "Its key (PEM)."),
    Option("tlsKeyPassword", secret, BROKER | WRITES, None, "Password of the key."),
    Option(
        "tlsServerName",
        text,
        BROKER | WRITES,
        None,
        "Name in the certificates of servers, instead of the host of each address.",
    ),
    Option(
        "tlsAnyName",
        boolean,
        BROKER | WRITES,
        "false",
        "Whether to accept any name in a trusted certificate.",
    ),
    Option(
        "tlsInsecure",
        boolean,
        BROKER | WRITES,
        "false",
        "Whether to verify nothing. Then everybody on the way can read and change messages.",
    ),
)
SECRETS = ("secretKey", "securityToken", "tlsKeyPassword")
"""Options whose values are shown and kept nowhere."""
