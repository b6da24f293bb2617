"""The tests of the console's rooms in tests/console/e2e once more, on Apache RocketMQ's broker."""

from __future__ import annotations

import pytest

from tests.console.e2e import test_message_rooms, test_waiting_rooms

from .test_client_suite import _tests
from .test_client_suite import apache as apache
from .test_client_suite import deadline as deadline
from .test_client_suite import embedded as embedded
from .test_client_suite import serve as serve
from .test_client_suite import shared as shared

pytestmark = [
    pytest.mark.usefixtures("deadline"),
    pytest.mark.thorough("the same tests with Apache RocketMQ's broker"),
]

globals().update(_tests(test_message_rooms, test_waiting_rooms))
