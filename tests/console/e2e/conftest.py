"""A broker in this process, and a deadline for tests that ask for one."""

from __future__ import annotations

from tests.support.fixtures import deadline as deadline
from tests.support.fixtures import embedded as embedded
from tests.support.fixtures import serve as serve
