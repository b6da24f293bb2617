"""An embedded broker, and a deadline for every trio test."""

from tests.support.fixtures import deadline as deadline
from tests.support.fixtures import embedded as embedded
from tests.support.fixtures import serve as serve
