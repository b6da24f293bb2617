"""Who `pyrmq bench` signs its requests as."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrmq.bench.loads import config
from pyrmq.bench.options import Options
from pyrmq.cli.bench_keys import bench_credentials
from pyrmq.errors import ConfigError
from pyrmq.net.client.requests import Credentials


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCESS_KEY", "SECRET_KEY", "SECRET_KEY_FILE"):
        monkeypatch.delenv(f"PYRMQ_{name}", raising=False)
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text("my secret\n")
    return path


def test_options_go_before_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bench_credentials(None, None) is None
    assert bench_credentials("me", file) == Credentials("me", "my secret")
    monkeypatch.setenv("PYRMQ_ACCESS_KEY", "other")
    assert bench_credentials(None, file) == Credentials("other", "my secret")
    monkeypatch.setenv("PYRMQ_SECRET_KEY", "another")
    assert bench_credentials(None, None) == Credentials("other", "another")
    assert bench_credentials("me", None) == Credentials("me", "another")
    assert bench_credentials("me", file) == Credentials("me", "my secret")


def test_a_file_that_the_environment_names(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYRMQ_ACCESS_KEY", "me")
    monkeypatch.setenv("PYRMQ_SECRET_KEY_FILE", str(file))
    assert bench_credentials(None, None) == Credentials("me", "my secret")
    monkeypatch.setenv("PYRMQ_SECRET_KEY", "another")
    with pytest.raises(ConfigError, match="exclude each other"):
        bench_credentials(None, None)


def test_one_key_without_the_other(file: Path) -> None:
    for access, path in (("me", None), (None, file), ("", file)):
        with pytest.raises(ConfigError, match="go together"):
            bench_credentials(access, path)


@pytest.mark.parametrize("raw", [b"", b"\n", b"\xff", b"a\nb\n", b"x" * 1025, b"x" * 5000])
def test_files_without_a_key(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match="one line with a secret key"):
        bench_credentials("me", path)
    with pytest.raises(ConfigError, match="cannot be read"):
        bench_credentials("me", tmp_path / "none")


def test_the_result_has_the_access_key_only() -> None:
    options = Options("send", embedded=True, credentials=Credentials("me", "sesame", "tok"))
    options.check()
    assert options.settings()["access_key"] == "me"
    assert "sesame" not in str(options.settings())
    assert "access_key" not in Options("send", embedded=True).settings()
    assert config(options, [])["credentials"] == ("me", "sesame", "tok")
    assert config(Options("send", embedded=True), [])["credentials"] is None
