"""Here Spark has the jar: `rocketmq` is the reader in the JVM, `pyrmq` the one in Python."""

from __future__ import annotations

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "reader" in metafunc.fixturenames:
        metafunc.parametrize("reader", ["jvm"], indirect=True, scope="session")
