"""Authorities, and the keys and certificates they have signed, made with the openssl command."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .toolchain import Missing


def _openssl(*words: str) -> None:
    tool = shutil.which("openssl")
    if tool is None:
        raise Missing("openssl is not on PATH: install it (Debian: apt install openssl)")
    done = subprocess.run([tool, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"openssl {' '.join(words)}: {done.stderr}"


@dataclass(frozen=True)
class Pair:
    """Files in PEM: a private key (PKCS#8, as Java wants it) and its certificate."""

    key: Path
    certificate: Path


class Authority:
    """A certificate authority of its own in `folder`."""

    def __init__(self, folder: Path, name: str = "interop") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.pair = Pair(folder / f"{name}.key", folder / f"{name}.pem")
        _new_key(self.pair.key)
        subject = ("-subj", f"/CN={name} authority", "-days", "2")
        files = ("-key", str(self.pair.key), "-out", str(self.pair.certificate))
        _openssl("req", "-x509", "-new", *files, *subject)

    @property
    def certificate(self) -> Path:
        return self.pair.certificate

    def issue(self, name: str) -> Pair:
        """A pair for 127.0.0.1 and localhost, for servers and for clients."""
        pair = Pair(self._folder / f"{name}.key", self._folder / f"{name}.pem")
        request, more = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        more.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        _new_key(pair.key)
        files = ("-key", str(pair.key), "-out", str(request))
        _openssl("req", "-new", *files, "-subj", f"/CN={name}")
        by = ("-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key), "-CAcreateserial")
        extra = ("-days", "2", "-extfile", str(more))
        _openssl("x509", "-req", "-in", str(request), "-out", str(pair.certificate), *by, *extra)
        return pair


def _new_key(path: Path) -> None:
    curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    _openssl("genpkey", *curve, "-out", str(path))


@dataclass(frozen=True)
class Tls:
    """Files of RocketMQ's tls.properties: one for servers, which are clients of each other as well,
    one for clients, and one for clients that trust another authority."""

    server: Path
    client: Path
    stranger: Path


def make(folder: Path) -> Tls:
    """Servers show a certificate; clients verify it and show one of their own. [TlsSystemConfig]"""
    authority = Authority(folder)
    server, client = authority.issue("server"), authority.issue("client")
    other = Authority(folder, "other")
    ours = {
        "tls.test.mode.enable": "false",
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.keyPath": server.key,
        "tls.server.certPath": server.certificate,
        "tls.server.trustCertPath": authority.certificate,
    }
    return Tls(
        _properties(folder / "server.properties", ours | _client(server, authority)),
        _properties(folder / "client.properties", _client(client, authority)),
        _properties(folder / "stranger.properties", _client(client, other)),
    )


def _client(pair: Pair, authority: Authority) -> dict[str, object]:
    return {
        "tls.test.mode.enable": "false",
        "tls.client.authServer": "true",
        "tls.client.keyPath": pair.key,
        "tls.client.certPath": pair.certificate,
        "tls.client.trustCertPath": authority.certificate,
    }


def _properties(path: Path, values: dict[str, object]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return path


def jvm_options(properties: Path, *more: str) -> list[str]:
    """Of a Java program that connects with TLS."""
    return ["-Dtls.enable=true", f"-Dtls.config.file={properties}", *more]
