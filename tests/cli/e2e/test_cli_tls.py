"""`pyrmq tls`: certificates that TLS takes, and what a certificate says."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyrmq.cli import main

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="needs the openssl program")
FILES = ["ca.crt", "ca.key", "client.crt", "client.key", "server.crt", "server.key"]


def _tls(*words: object) -> Result:
    return CliRunner().invoke(main, ["tls", *map(str, words)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls") / "made"
    done = _tls("make", folder, "--host", "localhost", "--host", "127.0.0.1", "--client", "alice")
    assert done.exit_code == 0, done.output
    return folder


@contextmanager
def _serving(made: Path, clients: ssl.VerifyMode = ssl.CERT_NONE) -> Iterator[int]:
    """A server that greets who has shaken hands; its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made / "server.crt", made / "server.key")
    context.load_verify_locations(made / "ca.crt")
    context.verify_mode = clients
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                try:
                    with context.wrap_socket(connection, server_side=True) as stream:
                        stream.sendall(b"hello")
                except OSError:
                    connection.close()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            thread.join()


def test_the_files_are_their_owners_alone(made: Path) -> None:
    assert sorted(os.listdir(made)) == FILES
    assert {(made / name).stat().st_mode & 0o777 for name in FILES} == {0o600}
    assert made.stat().st_mode & 0o777 == 0o700
    assert (made / "server.key").read_text().startswith("-----BEGIN PRIVATE KEY-----")  # PKCS#8


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_both_sides_verify_each_other(made: Path, host: str) -> None:
    context = ssl.create_default_context(cafile=str(made / "ca.crt"))
    context.load_cert_chain(made / "client.crt", made / "client.key")
    with (
        _serving(made, ssl.CERT_REQUIRED) as port,
        socket.create_connection(("127.0.0.1", port)) as raw,
        context.wrap_socket(raw, server_hostname=host) as stream,
    ):
        assert stream.recv(5) == b"hello"


def test_another_host_and_another_authority_are_refused(made: Path, tmp_path: Path) -> None:
    assert _tls("make", tmp_path / "other", "--host", "localhost").exit_code == 0
    for authority, host in ((made, "elsewhere"), (tmp_path / "other", "localhost")):
        context = ssl.create_default_context(cafile=str(authority / "ca.crt"))
        with (
            _serving(made) as port,
            socket.create_connection(("127.0.0.1", port)) as raw,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            context.wrap_socket(raw, server_hostname=host)


def test_new_certificates_of_an_authority(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "next"
    done = _tls("make", folder, "--host", "localhost", "--authority", made, "--days", "1")
    assert done.exit_code == 0, done.output
    assert sorted(os.listdir(folder)) == [n for n in FILES if not n.startswith("ca.")]
    verified = subprocess.run(
        ["openssl", "verify", "-CAfile", made / "ca.crt", folder / "server.crt"], check=False
    )
    assert verified.returncode == 0
    assert _tls("make", tmp_path / "none", "--host", "x", "--authority", folder).exit_code == 1


def test_nothing_is_replaced(made: Path) -> None:
    before = {name: (made / name).read_bytes() for name in FILES}
    done = _tls("make", made, "--host", "localhost")
    assert done.exit_code == 1
    assert "nothing is replaced" in done.output
    assert {name: (made / name).read_bytes() for name in FILES} == before


@pytest.mark.parametrize(
    "words",
    [
        ("--host", ""), ("--host", "a,DNS:b"), ("--host", "a b"), ("--host", "a\nb"), (),
        ("--host", "localhost", "--client", "a/CN=b"), ("--host", "localhost", "--days", "0"),
    ],
)  # fmt: skip
def test_what_cannot_be_made(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = _tls("make", tmp_path / "made", *words)
    assert done.exit_code in (1, 2)
    assert "Traceback" not in done.output
    assert not (tmp_path / "made").exists()


def test_what_a_certificate_says(made: Path) -> None:
    done = _tls("show", made / "server.crt")
    assert done.exit_code == 0
    assert "subject      CN=localhost" in done.output
    assert "DNS:localhost, IP Address:127.0.0.1" in done.output
    (authority,) = json.loads(_tls("show", made / "ca.crt", "-o", "json").output)
    (client,) = json.loads(_tls("show", made / "client.crt", "-o", "json").output)
    assert (authority["authority"], client["authority"]) == (True, False)
    assert (client["subject"], client["issuer"]) == ("CN=alice", authority["subject"])
    assert (client["names"], client["expired"]) == ("", False)


def test_what_a_server_shows(made: Path) -> None:
    with _serving(made, ssl.CERT_REQUIRED) as port:
        done = _tls("show", f"127.0.0.1:{port}", "-o", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output) == json.loads(
        _tls("show", made / "server.crt", "-o", "json").output
    )


def test_what_cannot_be_shown(made: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()[1]
    for what in (made / "server.key", tmp_path / "gone", empty, f"127.0.0.1:{closed}"):
        done = _tls("show", what)
        assert done.exit_code == 1
        assert done.output.startswith("Error: ")


def test_a_certificate_that_has_expired(made: Path, tmp_path: Path) -> None:
    request, old = tmp_path / "old.csr", tmp_path / "old.crt"
    for words in (
        ["req", "-new", "-key", made / "client.key", "-subj", "/CN=old", "-out", request],
        ["x509", "-req", "-in", request, "-CA", made / "ca.crt", "-CAkey", made / "ca.key",
         "-days", "-1", "-set_serial", "5", "-out", old],
    ):  # fmt: skip
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    done = _tls("show", old)
    assert done.exit_code == 1
    assert "(expired)" in done.output


def test_without_the_program(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    for words in (("make", tmp_path / "made", "--host", "x"), ("show", made / "ca.crt")):
        done = _tls(*words)
        assert done.exit_code == 1
        assert "openssl is not found: install it" in done.output
    assert not (tmp_path / "made").exists()
