"""What to change on the configuration of a broker or a name server that others can reach.

Pure but for the modes of files and the accounts of ACL 1.0, which are read. Values of secrets are
looked at, and never part of a finding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pyrmq.auth.plain.files import Folder
from pyrmq.auth.plain.rules import Rules, load_rules
from pyrmq.config.files import load_file
from pyrmq.config.secret_file import is_open
from pyrmq.errors import ConfigError
from pyrmq.metrics.settings import DISABLED, PROMETHEUS, TYPES
from pyrmq.net.address import is_loopback

Values = Mapping[str, str]
"""By key, those with their default included."""

WEAK = frozenset(
    {
        "12345678", "123456789", "1234567890", "123456", "password", "rocketmq", "rocketmq2",
        "admin", "admin123", "secret", "changeme", "secretkey", "yoursecretkey", "qwerty",
    }
)  # fmt: skip
"""Secrets that are tried first: those of RocketMQ's own examples among them."""
SHORT = 12
"""Characters of a secret that is not easily guessed from a captured signature."""
TLS_FILE = Path("/etc/rocketmq/tls.properties")
_SECRETS = ("initAuthenticationUser", "innerClientAuthenticationCredentials",
            "tls.server.keyPassword", "tls.client.keyPassword")  # fmt: skip


class Severity(Enum):
    SERIOUS = "serious"
    """Somebody who reaches a port, or an account of this machine, can do harm."""
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to change. `now` is the value of `key`, a mode, or "set" for a secret."""

    severity: Severity
    key: str
    now: str
    set: str
    why: str

    def to_json(self) -> dict[str, str]:
        return {
            "severity": self.severity.value,
            "key": self.key,
            "value": self.now,
            "set": self.set,
            "why": self.why,
        }


def _serious(key: str, now: str, change: str, why: str) -> Finding:
    return Finding(Severity.SERIOUS, key, now, change, why)


def _advice(key: str, now: str, change: str, why: str) -> Finding:
    return Finding(Severity.ADVICE, key, now, change, why)


def findings(values: Values, written: Values, file: Path | None, *, namesrv: bool) -> list[Finding]:
    """What to change, the serious first. `values` are those of the server, `written` those that
    the file and the environment have, with secrets. ConfigError if accounts cannot be read."""
    values = {**values, **_tls_file(values)}
    found = [*_of_secrets(written), *_of_files(values, written, file, namesrv)]
    if not namesrv and _is(values, "aclEnable"):
        found += _of_accounts(load_rules(Folder(Path(values["rocketmqHome"]))))
    found += _of_metrics(values)
    bind = values.get("bindAddress", "")
    if not is_loopback(bind):
        found += _of_access(values, bind)
        found += _of_tls(values)
        found += () if namesrv else _of_broker(values, bind)
    return sorted(found, key=lambda one: one.severity is not Severity.SERIOUS)


def _is(values: Values, key: str) -> bool:
    return values.get(key, "false").lower() == "true"


def _tls_file(values: Values) -> Values:
    """The keys of tls.properties, which win."""
    path = Path(values["tls.config.file"]) if values.get("tls.config.file") else TLS_FILE
    return load_file(path) if path.is_file() else {}


def _of_access(values: Values, bind: str) -> Iterator[Finding]:
    plain = _is(values, "aclEnable")
    signed, rights = _is(values, "authenticationEnabled"), _is(values, "authorizationEnabled")
    broker = "storePathRootDir" in values
    may = "reads, writes and changes everything" if broker else "registers brokers, changes routes"
    if not plain and not signed:
        yield _serious(
            "authenticationEnabled", "false", "authenticationEnabled=true, "
            "authorizationEnabled=true and the other keys of docs/security.md, First user",
            f"whoever reaches port {values.get('listenPort', '')} on {bind} {may}",
        )  # fmt: skip
    if signed and not rights:
        yield _serious(
            "authorizationEnabled", "false", "authorizationEnabled=true",
            "each user may do everything, also to topics of others",
        )  # fmt: skip
    if not values.get("adminAddressAllowList"):
        make = _advice if plain or rights else _serious
        yield make(
            "adminAddressAllowList", "", "the addresses of operators, such as 10.0.0.5",
            "requests that administrate are taken from every address",
        )  # fmt: skip
    for key in ("authenticationWhitelist", "authorizationWhitelist"):
        if values.get(key):
            yield _advice(
                key, values[key], "nothing, unless a client needs it",
                "these requests are taken from everybody",
            )  # fmt: skip


def _of_metrics(values: Values) -> Iterator[Finding]:
    served = TYPES.get(values.get("metricsExporterType", DISABLED)) == PROMETHEUS
    host = values.get("metricsPromExporterHost", "")
    if served and not is_loopback(host):
        yield _advice(
            "metricsPromExporterHost", host,
            "127.0.0.1, or a firewall that lets only Prometheus to metricsPromExporterPort",
            "metrics have no access control: whoever reaches the port learns names of topics and "
            "groups",
        )  # fmt: skip


def _of_tls(values: Values) -> Iterator[Finding]:
    mode = values.get("tls.server.mode", "disabled")
    key, cert = values.get("tls.server.keyPath"), values.get("tls.server.certPath")
    made = _is(values, "tls.test.mode.enable")
    if mode == "disabled":
        yield _serious(
            "tls.server.mode", mode, "enforcing, with tls.server.keyPath and tls.server.certPath",
            "messages and signed requests can be read on the way, and sent again",
        )  # fmt: skip
        return
    if mode == "permissive":
        yield _advice(
            "tls.server.mode", mode, "enforcing, once all clients speak TLS",
            "a client that is set up wrong sends its messages in plain text, and nobody sees it",
        )  # fmt: skip
    if made or not (key and cert):
        yield _serious(
            "tls.test.mode.enable" if made else "tls.server.certPath",
            "true" if made else cert or "",
            "tls.test.mode.enable=false, tls.server.keyPath and tls.server.certPath",
            "the certificate is self-signed: clients cannot tell this server from another",
        )
    if _is(values, "tls.server.authClient") and not values.get("tls.server.trustCertPath"):
        yield _serious(
            "tls.server.trustCertPath", "", "the certificate of your authority",
            "certificates of clients cannot be verified without it",
        )  # fmt: skip


def _of_broker(values: Values, bind: str) -> Iterator[Finding]:
    port = values.get("haListenPort", "0")
    if port == "0":
        port = str(int(values.get("listenPort", "0")) + 1)
    is_closed = (
        values.get("tls.server.mode") == "enforcing"
        and values.get("tls.server.need.client.auth") == "require"
        and _is(values, "tls.server.authClient")
    )
    if values.get("brokerRole") != "SLAVE" and not is_closed:
        yield _advice(
            "haListenPort", port,
            "a firewall that lets only slaves to this port, or certificates of slaves "
            "(tls.server.mode=enforcing, tls.server.need.client.auth=require, "
            "tls.server.authClient=true)",
            f"the HA protocol has no users: whoever reaches the port on {bind} copies the log",
        )  # fmt: skip
    if _is(values, "migrateAuthFromV1Enabled"):
        yield _advice(
            "migrateAuthFromV1Enabled", "true", "false, after the first start",
            "a user that is deleted comes back with the next start, while it has an account of "
            "ACL 1.0",
        )  # fmt: skip
    if _is(values, "autoCreateTopicEnable"):
        yield _advice(
            "autoCreateTopicEnable", "true", "false, and create topics as an operator",
            "every client that may send makes topics, with a misspelled name as well",
        )  # fmt: skip
    if _is(values, "autoCreateSubscriptionGroup"):
        yield _advice(
            "autoCreateSubscriptionGroup", "true", "false, and create groups as an operator",
            "every client makes groups, each of which is kept",
        )  # fmt: skip


def _of_secrets(written: Values) -> Iterator[Finding]:
    for key, name, secret in (
        ("initAuthenticationUser", "username", "password"),
        ("innerClientAuthenticationCredentials", "accessKey", "secretKey"),
    ):
        try:
            pair = json.loads(written.get(key) or "{}")
        except ValueError:
            continue  # another check says so
        if isinstance(pair, dict) and pair.get(secret) is not None:
            yield from _of_secret(key, str(pair.get(name)), str(pair[secret]))


def _of_secret(key: str, user: str, secret: str) -> Iterator[Finding]:
    if secret.lower() in WEAK or secret == user:
        yield _serious(key, "set", "a random secret: openssl rand -hex 24",
                       f"the secret of {user} is one of those that are tried first")  # fmt: skip
    elif len(secret) < SHORT or re.fullmatch(r"\d+|[a-z]+", secret):
        yield _advice(key, "set", "a random secret: openssl rand -hex 24",
                      f"the secret of {user} can be guessed from one captured request")  # fmt: skip


def _of_accounts(rules: Rules) -> Iterator[Finding]:
    for account in rules.accounts.values():
        where = f"{rules.path_of[account.access_key]}: {account.access_key}"
        yield from _of_secret(f"{where}: secretKey", account.access_key, account.secret_key)
        if account.white.every:
            yield _serious(
                f"{where}: whiteRemoteAddress", account.white.text, "nothing, or few addresses",
                "requests with this access key need no signature, from wherever they come",
            )  # fmt: skip
        elif account.white.text and account.admin:
            yield _advice(
                f"{where}: whiteRemoteAddress", account.white.text, "nothing",
                "whoever has one of these addresses is an administrator, without a signature",
            )  # fmt: skip
    for file in rules.files:
        for pattern in file.white:
            make = _serious if pattern.every else _advice
            yield make(
                f"{file.path}: globalWhiteRemoteAddresses", pattern.text, "few addresses, or none",
                "from there no request needs an account",
            )  # fmt: skip


def _of_files(
    values: Values, written: Values, file: Path | None, namesrv: bool
) -> Iterator[Finding]:
    """Files with secrets that other accounts of this machine can read."""
    if file is not None and any(written.get(key) for key in _SECRETS):
        yield from _mode(file, "it has secrets")
    for key in ("tls.server.keyPath", "tls.client.keyPath"):
        if values.get(key):
            yield from _mode(Path(values[key]), "it is a private key")
    if _is(values, "aclEnable") and not namesrv:
        folder = Folder(Path(values.get("rocketmqHome", "")))
        for path in folder.paths():
            yield from _mode(path, "it has secret keys")
        yield from _mode(folder.home / "conf" / "tools.yml", "it has secret keys")
    for path in _users_files(values, namesrv):
        yield from _mode(path, "it has the passwords of users")


def _users_files(values: Values, namesrv: bool) -> Iterable[Path]:
    if namesrv:
        return [Path(values["kvConfigPath"]).with_name("namesrvUsers.json")]
    return [Path(values["storePathRootDir"]) / "config" / "users.json"]


def _mode(path: Path, why: str) -> Iterator[Finding]:
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        return  # what is not there is read by nobody
    if is_open(mode):
        yield _serious(
            str(path), f"{mode:04o}", f"chmod 600 {path}", f"{why}, and other accounts can reach it"
        )


def check(values: Values, written: Values, file: Path | None, *, namesrv: bool) -> list[Finding]:
    """As `findings`; accounts that cannot be read are a finding as well."""
    try:
        return findings(values, written, file, namesrv=namesrv)
    except ConfigError as e:
        return [_serious("aclEnable", "true", "access files that can be read", str(e))]
