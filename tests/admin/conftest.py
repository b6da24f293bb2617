"""The fixtures of tests/e2e: an embedded server, and a deadline for every test."""

from tests.e2e.conftest import deadline as deadline
from tests.e2e.conftest import embedded as embedded
from tests.e2e.conftest import serve as serve
