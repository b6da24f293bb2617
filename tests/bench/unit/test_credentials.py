"""Who `pyrmq bench` signs its requests as."""

from __future__ import annotations

from pyrmq.bench.loads import config
from pyrmq.bench.options import Options
from pyrmq.net.client.credentials import Credentials


def test_the_result_has_the_access_key_only() -> None:
    options = Options("send", embedded=True, credentials=Credentials("me", "sesame", "tok"))
    options.check()
    assert options.settings()["access_key"] == "me"
    assert "sesame" not in str(options.settings())
    assert "access_key" not in Options("send", embedded=True).settings()
    assert config(options, [], {})["credentials"] == ("me", "sesame", "tok")
    assert config(Options("send", embedded=True), [], {})["credentials"] is None
