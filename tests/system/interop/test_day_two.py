"""Dead letters, lives of messages and resets of offsets, with Apache RocketMQ's broker.

They are the functions of tests/admin/e2e; the fixtures that give them a broker are other ones here.
"""

from __future__ import annotations

import pytest

from tests.admin.e2e import test_dead_letters, test_life, test_offsets

from .test_client_suite import apache as apache
from .test_client_suite import deadline as deadline
from .test_client_suite import embedded as embedded
from .test_client_suite import serve as serve
from .test_client_suite import shared as shared

pytestmark = [
    pytest.mark.usefixtures("deadline"),
    pytest.mark.thorough("the same tests with Apache RocketMQ's broker"),
]

OFFSETS = (
    "test_a_preview_of_each_queue", "test_one_queue_and_one_offset",
    "test_members_are_named_and_moved", "test_a_group_that_is_broadcast_to",
    "test_brokers_that_ask_members",
)  # fmt: skip
"""Those with a preview; test_mqadmin_offsets.py has the commands of the original."""

globals().update(
    {
        name: test
        for module in (test_dead_letters, test_life)
        for name, test in vars(module).items()
        if name.startswith("test_") and callable(test)
    }
    | {name: getattr(test_offsets, name) for name in OFFSETS}
)
