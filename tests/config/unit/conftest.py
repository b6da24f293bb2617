"""A configuration of the test's own."""

from tests.broker.unit.conftest import config as config
