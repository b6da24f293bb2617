"""A transactional producer as these tests begin it."""

from __future__ import annotations

from typing import Any

from pyrmq.client import TransactionalProducer
from tests.support.scripted.streams import (
    StreamCluster,
)


def producer(listener: Any, **options: Any) -> TransactionalProducer:
    return TransactionalProducer("pg", listener, namesrv=StreamCluster.namesrv, **options)
