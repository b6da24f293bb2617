"""The tables of one broker: what its files and its clients say."""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.broker.tables.clients import ClientTable
from pyrmq.broker.tables.consumer_filters import ConsumerFilters
from pyrmq.broker.tables.groups import GroupTable
from pyrmq.broker.tables.offsets import OffsetTable
from pyrmq.broker.tables.topic_creation import Topics


@dataclass(frozen=True, slots=True)
class Tables:
    """Topics, groups, offsets and SQL92 filters are in files; clients are those connected now."""

    topics: Topics
    groups: GroupTable
    offsets: OffsetTable
    filters: ConsumerFilters
    clients: ClientTable
