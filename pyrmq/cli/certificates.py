"""A certificate authority and certificates for a cluster, made and read with the openssl program.

Keys are on the curve P-256, in PKCS#8, which Java's clients read as well. No file that is there is
replaced, and keys are readable by their owner alone.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyrmq.errors import ConfigError
from pyrmq.net.address import is_host

SECONDS = 20
"""For one call of openssl, and for one connection."""
MAX_SIZE = 1 << 20
AUTHORITY_DAYS = 3650
MAX_NAMES = 100


@dataclass(frozen=True, slots=True)
class Shown:
    """What a certificate says."""

    subject: str
    issuer: str
    names: str
    """Hosts that it is for, as openssl prints them; "": none."""
    valid_from: str
    valid_until: str
    fingerprint: str
    """SHA-256."""
    expired: bool
    authority: bool


def _openssl() -> str:
    found = shutil.which("openssl")
    if found is None:
        raise ConfigError(
            "the program openssl is not found: install it (apt install openssl, dnf install "
            "openssl), or make certificates elsewhere"
        )
    return found


def _run(*words: str, given: bytes = b"") -> bytes:
    """What openssl prints. ConfigError with its last line."""
    try:
        done = subprocess.run(
            [_openssl(), *words], input=given, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"openssl {words[0]} took more than {SECONDS} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="backslashreplace").strip().splitlines()
        raise ConfigError(f"openssl {words[0]} failed: {lines[-1] if lines else 'without a word'}")
    return done.stdout


AUTHORITY = ("ca.key", "ca.crt")
CERTIFICATES = ("server.key", "server.crt", "client.key", "client.crt")


def make(
    folder: Path, hosts: Sequence[str], days: int, client: str, authority: Path | None = None
) -> list[Path]:
    """Makes an authority, a certificate for servers with these names, and one for clients, whose
    name is `client`. `authority`: a folder that has one, instead of a new one. Returns the files.
    ConfigError if one is there already, or openssl fails."""
    files = CERTIFICATES if authority else AUTHORITY + CERTIFICATES
    names = _names(hosts)
    if not client or len(client) > 64 or not client.isprintable() or set(client) & set("/+=,\\"):
        raise ConfigError("the name of a client has 1 to 64 printable characters, none of /+=,\\")
    there = [folder / name for name in files if os.path.lexists(folder / name)]
    if there:
        raise ConfigError(f"{there[0]} is there already: nothing is replaced, take another folder")
    made: list[Path] = []
    try:
        with tempfile.TemporaryDirectory(prefix="pyrmq-tls-") as scratch:
            content = _made(Path(scratch), names, days, client, _authority(authority))
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in files:
            _write(folder / name, content[name])
            made.append(folder / name)
    except OSError as e:
        for path in made:
            with suppress(OSError):
                path.unlink()
        raise ConfigError(f"{e.filename or folder}: {e.strerror}") from e
    return made


def _names(hosts: Sequence[str]) -> list[str]:
    """subjectAltName entries."""
    if not 1 <= len(hosts) <= MAX_NAMES:
        raise ConfigError(f"a server's certificate has 1 to {MAX_NAMES} hosts: --host NAME")
    names = []
    for host in hosts:
        try:
            names.append(f"IP:{ipaddress.ip_address(host)}")
        except ValueError:
            bare = host.removeprefix("*.")
            if not is_host(bare) or not bare.isascii() or set(bare) & set(",;/ :"):
                raise ConfigError(f"{host[:64]!r} is no host name and no address") from None
            names.append(f"DNS:{host}")
    return names


_SECTIONS = """\
[req]
distinguished_name = name
prompt = no
[name]
CN = pyrmq
[ca]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = {names}
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
"""A server's certificate is a client's as well: brokers connect to name servers and masters."""


def _authority(folder: Path | None) -> dict[str, bytes]:
    """The files of an authority that is there; none for a new one. ConfigError, OSError."""
    if folder is None:
        return {}
    certificates_of(folder / "ca.crt")
    return {name: (folder / name).read_bytes() for name in AUTHORITY}


def _made(
    scratch: Path, names: Sequence[str], days: int, client: str, authority: dict[str, bytes]
) -> dict[str, bytes]:
    """The content of the files. `scratch` is its owner's alone."""
    conf = scratch / "openssl.cnf"
    conf.write_text(_SECTIONS.format(names=",".join(names)))
    content = {f"{name}.key": _key() for name in ("ca", "server", "client")} | authority
    for name in ("ca", "server", "client"):
        _write(scratch / f"{name}.key", content[f"{name}.key"])
    common = ("-config", str(conf), "-sha256")
    if not authority:
        content["ca.crt"] = _run(
            "req", "-x509", "-new", "-key", str(scratch / "ca.key"), *common,
            "-subj", f"/CN=pyrmq authority {secrets.token_hex(4)}", "-extensions", "ca",
            "-days", str(max(days, AUTHORITY_DAYS)), "-set_serial", _serial(),
        )  # fmt: skip
    (scratch / "ca.crt").write_bytes(content["ca.crt"])
    server = names[0].partition(":")[2][:64]
    for name, subject in (("server", server), ("client", client)):
        request = _run(
            "req", "-new", "-key", str(scratch / f"{name}.key"), *common, "-subj", f"/CN={subject}",
        )  # fmt: skip
        (scratch / f"{name}.csr").write_bytes(request)
        content[f"{name}.crt"] = _run(
            "x509", "-req", "-in", str(scratch / f"{name}.csr"), "-sha256",
            "-CA", str(scratch / "ca.crt"), "-CAkey", str(scratch / "ca.key"),
            "-extfile", str(conf), "-extensions", name, "-days", str(days),
            "-set_serial", _serial(),
        )  # fmt: skip
    return content


def _key() -> bytes:
    return _run("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")


def _serial() -> str:
    return f"0x{secrets.randbits(126) | 1 << 126:x}"


def _write(path: Path, raw: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(raw)


def certificates_of(path: Path) -> list[str]:
    """The certificates of a PEM file, the first one first. ConfigError if there is none."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SIZE + 1)
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror}") from e
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    parts = raw[:MAX_SIZE].decode("ascii", "replace").split(begin)[1:]
    found = [f"{begin}{part.partition(end)[0]}{end}\n" for part in parts if end in part]
    if not found:
        raise ConfigError(f"{path} has no certificate: a PEM file was expected")
    return found[:32]


def certificate_at(host: str, port: int) -> str:
    """The certificate that a server shows, which is not verified. ConfigError."""
    try:
        return ssl.get_server_certificate((host, port), timeout=SECONDS)
    except ssl.SSLError as e:
        raise ConfigError(f"{host}:{port} does not speak TLS: {e.reason or e}") from e
    except OSError as e:
        raise ConfigError(f"{host}:{port}: {e.strerror or e or type(e).__name__}") from e


def show(pem: str) -> Shown:
    """What a certificate says. ConfigError if it cannot be read."""
    raw = pem.encode()
    printed = _run(
        "x509", "-noout", "-subject", "-issuer", "-dates", "-fingerprint", "-sha256",
        "-nameopt", "RFC2253,sep_comma_plus_space", given=raw,
    ).decode(errors="backslashreplace")  # fmt: skip
    values: dict[str, str] = {}
    for line in printed.splitlines():
        name, _, value = line.partition("=")
        values[name.strip().lower()] = value.strip()
    names = ""
    with suppress(ConfigError):  # it has none
        found = _run("x509", "-noout", "-ext", "subjectAltName", given=raw).decode()
        names = " ".join(line.strip() for line in found.splitlines()[1:])
    text = _run("x509", "-noout", "-text", given=raw).decode(errors="backslashreplace")
    return Shown(
        subject=values.get("subject", ""),
        issuer=values.get("issuer", ""),
        names=names,
        valid_from=values.get("notbefore", ""),
        valid_until=values.get("notafter", ""),
        fingerprint=values.get("sha256 fingerprint", ""),
        expired=_expired(raw),
        authority="CA:TRUE" in text,
    )


def _expired(raw: bytes) -> bool:
    try:
        _run("x509", "-noout", "-checkend", "0", given=raw)
    except ConfigError:
        return True
    return False
