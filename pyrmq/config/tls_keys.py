"""The keys of TLS in broker.conf and namesrv.conf."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pyrmq.config import tls
from pyrmq.config.table import key, keys_of


def _flag(text: str) -> None:
    if text.lower() not in ("", "true", "false"):
        raise ValueError("true or false expected")


@dataclass(frozen=True)
class TlsKeys:
    """Keys that broker and name server have in common. In RocketMQ they are system properties;
    those from `tls.test.mode.enable` on may stand in the file of `tls.config.file`, which wins."""

    tls_server_mode: str = key(
        tls.PERMISSIVE,
        "Whether connections speak TLS: disabled, permissive (as the first byte of each says), "
        "enforcing (all of them).",
        name=tls.MODE,
        choices=tls.MODES,
        section="TLS ([tls.md](tls.md))",
    )
    tls_config_file: str = key(
        "",
        f"RocketMQ's tls.properties, whose keys win over those here; empty: "
        f"{tls.DEFAULT_CONFIG_FILE}, if it is there.",
        name=tls.CONFIG_FILE,
        values="a file",
    )
    tls_test_mode_enable: str = key(
        "",
        "true: the certificate is made at the start, self-signed, and nobody is verified, also "
        "where this server connects to others. Empty: the certificate is so if no file is named "
        "and the mode is not enforcing.",
        name=tls.TEST_MODE,
        check=_flag,
        values="true, false",
    )
    tls_server_need_client_auth: str = key(
        "none",
        "Whether clients are asked for a certificate.",
        name=tls.NEED_CLIENT_AUTH,
        choices=tls.CLIENT_AUTHS,
    )
    tls_server_key_path: str = key(
        "", "The private key, PEM (PKCS8, PKCS1, SEC1).", name=tls.SERVER_KEY, values="a file"
    )
    tls_server_key_password: str = key(
        "",
        "Password of a key that is encrypted (PBES2). It is shown nowhere.",
        name=tls.SERVER_KEY_PASSWORD,
        secret=True,
    )
    tls_server_cert_path: str = key(
        "",
        "The certificate, and those that lead to its authority, PEM.",
        name=tls.SERVER_CERT,
        values="a file",
    )
    tls_server_auth_client: bool = key(
        False,
        "Whether certificates of clients are verified.",
        name=tls.SERVER_AUTH_CLIENT,
    )
    tls_server_trust_cert_path: str = key(
        "",
        "Certificates of the authorities that sign those of clients, PEM.",
        name=tls.SERVER_TRUST,
        values="a file",
    )

    def tls_settings(self) -> tls.TlsServerSettings:
        """What these keys and the file say together. ConfigError."""
        values: dict[str, str] = {}
        names = {field: name for name, (field, _) in keys_of(self).items()}
        for field in fields(TlsKeys):
            value = getattr(self, field.name)
            values[names[field.name]] = str(value).lower() if isinstance(value, bool) else value
        return tls.server_settings(tls.with_file(values))
