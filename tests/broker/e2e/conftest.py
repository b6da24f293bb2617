"""An embedded broker, a server process per file, and a deadline for every trio test."""

from tests.support.fixtures import client as client
from tests.support.fixtures import deadline as deadline
from tests.support.fixtures import embedded as embedded
from tests.support.fixtures import process as process
from tests.support.fixtures import serve as serve
from tests.support.fixtures import serve_apart as serve_apart
from tests.support.scratch import in_memory as in_memory
