"""How commands connect: credentials and TLS, from options, the environment and files.

An option goes before its variable, and both go before `conf/tools.yml` below ROCKETMQ_HOME.
A secret is never an option: every user of a machine sees the command lines of all processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pyrmq.net.client.credentials import Credentials
    from pyrmq.net.client.tls import Tls

ACCESS_KEY, SECRET_KEY = "PYRMQ_ACCESS_KEY", "PYRMQ_SECRET_KEY"
SECRET_KEY_FILE = "PYRMQ_SECRET_KEY_FILE"
TLS = "PYRMQ_TLS"
KEY_PASSWORD = "PYRMQ_TLS_KEY_PASSWORD"
TLS_TEXTS = {
    "tls_ca": "PYRMQ_TLS_CA",
    "tls_cert": "PYRMQ_TLS_CERT",
    "tls_key": "PYRMQ_TLS_KEY",
    "tls_server_name": "PYRMQ_TLS_SERVER_NAME",
    "tls_config": "PYRMQ_TLS_CONFIG",
}
TLS_FLAGS = {"tls_insecure": "PYRMQ_TLS_INSECURE", "tls_any_name": "PYRMQ_TLS_ANY_NAME"}
TRUE, FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


@dataclass(frozen=True, slots=True)
class Access:
    """What a command connects with."""

    credentials: Credentials | None = None
    tls: Tls | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Access:
        """From the options `given`, by name, the environment and files. ConfigError."""
        return cls(credentials_of(given), _tls(given))

    @classmethod
    def from_environment(cls) -> Access:
        """The same without options. ConfigError."""
        return cls.of({})


def _refuse_secret(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError(
            "a secret on a command line is seen by all users of this machine: use "
            f"--secret-key-file FILE (chmod 600), or set {SECRET_KEY}"
        )


_FILE = click.Path(dir_okay=False)
OPTIONS = (
    click.option(
        "--access-key", metavar="KEY", help=f"Sign requests: the account.  [env: {ACCESS_KEY}]"
    ),
    click.option(
        "--secret-key-file",
        type=_FILE,
        metavar="FILE",
        help="A file with its secret key, which only you can read (chmod 600).  "
        f"[env: {SECRET_KEY_FILE}, or the key in {SECRET_KEY}]",
    ),
    click.option("--secret-key", hidden=True, expose_value=False, callback=_refuse_secret),
    click.option("--tls/--no-tls", default=None, help=f"Connect with TLS.  [env: {TLS}]"),
    click.option(
        "--tls-ca",
        type=_FILE,
        metavar="FILE",
        help="Certificates that are trusted (PEM).  [default: the system's] "
        f"[env: {TLS_TEXTS['tls_ca']}]",
    ),
    click.option(
        "--tls-cert",
        type=_FILE,
        metavar="FILE",
        help=f"Own certificate (PEM).  [env: {TLS_TEXTS['tls_cert']}]",
    ),
    click.option(
        "--tls-key",
        type=_FILE,
        metavar="FILE",
        help=f"Its key; the password of the key is in {KEY_PASSWORD}.  "
        f"[env: {TLS_TEXTS['tls_key']}]",
    ),
    click.option(
        "--tls-server-name",
        metavar="NAME",
        help="Name in the certificates of servers, instead of their hosts.  "
        f"[env: {TLS_TEXTS['tls_server_name']}]",
    ),
    click.option(
        "--tls-any-name",
        is_flag=True,
        default=None,
        help=f"Accept any name in a trusted certificate.  [env: {TLS_FLAGS['tls_any_name']}]",
    ),
    click.option(
        "--tls-insecure",
        is_flag=True,
        default=None,
        help=f"Verify nothing.  [env: {TLS_FLAGS['tls_insecure']}]",
    ),
    click.option(
        "--tls-config",
        type=_FILE,
        metavar="FILE",
        help="RocketMQ's tls.properties, instead of the files above.  "
        f"[env: {TLS_TEXTS['tls_config']}]",
    ),
)
"""Each of them turns TLS on, except --no-tls."""
_NAMES = ("access_key", "secret_key_file", "tls", *TLS_TEXTS, *TLS_FLAGS)


def access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options; the command gets `access`, a function that returns an Access and raises
    ConfigError."""

    @wraps(command)
    def run(*args: Any, **rest: Any) -> Any:
        given = {name: rest.pop(name) for name in _NAMES}
        return command(*args, access=lambda: Access.of(given), **rest)

    for option in reversed(OPTIONS):
        run = option(run)
    return run


def credentials_of(given: Mapping[str, Any]) -> Credentials | None:
    """From the options `given`, by name, the environment, or `conf/tools.yml`; None where there are
    none. ConfigError."""
    from pyrmq.cli.tools_file import credentials_of_file
    from pyrmq.config.secret_file import read_secret
    from pyrmq.errors import ClientError, ConfigError
    from pyrmq.net.client.credentials import Credentials

    access = given.get("access_key") or os.environ.get(ACCESS_KEY, "")
    file, what = given.get("secret_key_file"), "--secret-key-file"
    secret = ""
    if not file:
        secret = os.environ.get(SECRET_KEY, "")
        file, what = os.environ.get(SECRET_KEY_FILE, ""), SECRET_KEY_FILE
        if secret and file:
            raise ConfigError(f"{SECRET_KEY} and {SECRET_KEY_FILE} exclude each other: unset one")
    if file:
        secret = read_secret(file, what)
    if not access and not secret:
        access, secret = credentials_of_file()
    if not access and not secret:
        return None
    if not access or not secret:
        raise ConfigError(
            "an access key and a secret key go together: --access-key and --secret-key-file, or "
            f"{ACCESS_KEY} and {SECRET_KEY_FILE} or {SECRET_KEY}"
        )
    try:
        return Credentials(access, secret)
    except ClientError as e:
        raise ConfigError(f"credentials: {e}") from None


def _tls(given: Mapping[str, Any]) -> Tls | None:
    from pyrmq.errors import ConfigError
    from pyrmq.net.client.tls import Tls

    texts = {name: _text(given, name, variable) for name, variable in TLS_TEXTS.items()}
    flags = {name: _flag(given, name, variable) for name, variable in TLS_FLAGS.items()}
    wanted = _flag(given, "tls", TLS)
    if wanted is None:
        wanted = any(texts.values()) or any(flags.values())
    if not wanted:
        return None
    ca, cert, key, name, config = texts.values()
    insecure, any_name = bool(flags["tls_insecure"]), bool(flags["tls_any_name"])
    if config:
        if ca or cert or key or insecure:
            raise ConfigError(
                "--tls-config names the files: leave out --tls-ca, --tls-cert, --tls-key and "
                "--tls-insecure"
            )
        return Tls.from_properties(config, server_hostname=name, check_hostname=not any_name)
    return Tls(
        ca=ca,
        cert=cert,
        key=key,
        key_password=(os.environ.get(KEY_PASSWORD) or None) if cert else None,
        server_hostname=name,
        check_hostname=not any_name,
        insecure=insecure,
    )


def _text(given: Mapping[str, Any], name: str, variable: str) -> str | None:
    return given.get(name) or os.environ.get(variable) or None


def _flag(given: Mapping[str, Any], name: str, variable: str) -> bool | None:
    """None: not said."""
    from pyrmq.errors import ConfigError

    said = given.get(name)
    if said is not None:
        return bool(said)
    text = os.environ.get(variable, "").strip().lower()
    if text not in ("", *TRUE, *FALSE):
        raise ConfigError(f"{variable} must be true or false")
    return None if not text else text in TRUE
