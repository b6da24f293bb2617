"""Fixtures of tests/support: an embedded server, and a deadline for every test."""

from __future__ import annotations

from tests.support.fixtures import deadline as deadline
from tests.support.fixtures import embedded as embedded
from tests.support.fixtures import serve as serve
