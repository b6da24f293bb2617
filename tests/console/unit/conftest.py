"""An end for tests that might hang."""

from tests.support.fixtures import deadline as deadline
