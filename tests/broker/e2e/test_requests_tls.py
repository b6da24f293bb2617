"""The requests of `test_requests`, over TLS with the certificate that a broker makes by itself."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest

from tests.broker.e2e.test_requests import *  # noqa: F403 - its tests, with this client
from tests.support.client import Client
from tests.support.server import ServerProcess


@pytest.fixture
def client(process: ServerProcess) -> Iterator[Client]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with Client(process.broker, tls=context) as connection:
        yield connection
