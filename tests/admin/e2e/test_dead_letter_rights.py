"""Which rights the commands for dead letters need, at a broker with access control.

docs/dead-letters.md has the same table: `RIGHTS`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyrmq.admin import Admin
from pyrmq.admin.auth import Acl, Entry, User
from pyrmq.client import Producer, PushConsumer
from pyrmq.model.message import Message
from pyrmq.net.address import format_address
from pyrmq.net.client.credentials import Credentials
from pyrmq.server import Running
from tests.auth.e2e.test_access_requests import ON, admin_of
from tests.support.dead_letters import die, until
from tests.support.fixtures import Serve
from tests.support.mqadmin import Ran, admin

pytestmark = pytest.mark.usefixtures("deadline")

GROUP, TOPIC = "billing", "orders"
SECRET = "r00t-secret"
READ = {
    f"Topic:%DLQ%{GROUP}": {"Sub", "Get"},
    "Group:TOOLS_CONSUMER": {"Sub"},
}
