"""What the broker knows of slow requests beside their figures: who asked, and what was stored."""

from __future__ import annotations

from collections.abc import Iterable

from pyrmq.broker.tables.clients import ClientTable
from pyrmq.engine import Store
from pyrmq.model.record import decode_record
from pyrmq.net.server.server import RemotingServer


def complete(server: RemotingServer, clients: ClientTable, store: Store) -> None:
    """Has the lines of slow requests name clients, groups and topics, where the request itself is
    gone by the time that it is known to be slow."""

    def client_of(peer: str) -> tuple[str | None, Iterable[str]]:
        found = (c for c in server.connections.values() if c.peer == peer)
        connection = next(found, None)
        if connection is None:
            return None, ()
        return clients.client_id_of(connection), clients.groups_of(connection)

    def stored_at(offset: int) -> tuple[str, int] | None:
        record = store.record_at(offset)
        if record is None:
            return None
        message = decode_record(record, inflate_body=False)
        return message.properties.get("REAL_TOPIC", message.topic), len(record)

    server.slow_requests.client_of = client_of
    server.slow_requests.stored_at = stored_at
