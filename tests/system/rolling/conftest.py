"""A deadline for every trio test."""

from tests.support.fixtures import deadline as deadline
