"""What the engine gets to speak TLS with, and who else answers than a server with TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrmq.bench.loads import config
from pyrmq.bench.options import OptionError, Options
from pyrmq.bench.secured import native
from pyrmq.engine import BenchRun
from pyrmq.net.client.tls import Tls
from tests.support.certificates import Authority


def test_names_are_those_that_certificates_must_have(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    hosts = {"10.0.0.1:1": "broker-a:1", "10.0.0.2:1": "10.0.0.2:1"}
    made = native(Tls(ca=authority.file), hosts)
    assert made["names"] == {"10.0.0.1:1": "broker-a", "10.0.0.2:1": "10.0.0.2"}
    assert made["ca"] == str(authority.file)
    assert (made["own"], made["insecure"], made["any_name"]) == (None, False, False)
    made = native(Tls(ca=authority.file, server_hostname="all.example"), hosts)
    assert set(made["names"].values()) == {"all.example"}


def test_a_key_in_the_file_of_its_certificate(tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text("both")
    made = native(Tls(insecure=True, cert=both, key_password="word"), {})
    assert (made["own"], made["ca"], made["password"]) == ((str(both), str(both)), None, "word")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"--tls-ca .*gone: No such file"):
        native(Tls(ca=tmp_path / "gone"), {})
    with pytest.raises(OptionError, match="--tls-cert"):
        native(Tls(insecure=True, cert=tmp_path / "gone"), {})


def test_files_without_what_they_should_have(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    for tls, text in [
        (Tls(ca=empty), "trustCertPath: .*empty has no certificate"),
        (Tls(insecure=True, cert=empty), "certPath: .*empty has no certificate"),
    ]:
        options = Options("send", address="127.0.0.1:1", count=1, tls=tls)
        with pytest.raises(ValueError, match=text):
            BenchRun(config(options, [], {}))
