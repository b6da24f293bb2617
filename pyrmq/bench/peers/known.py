"""The peers that `pyrmq bench peers` knows, in the order of their turns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyrmq.bench.peers.apache import VERSION, Apache
from pyrmq.bench.peers.kafka import Kafka
from pyrmq.bench.peers.nats import Nats
from pyrmq.bench.peers.ours import Floor, Ours
from pyrmq.bench.peers.peer import Peer

KEYS = ("floor", "pyrmq", "apache", "kafka", "nats")


def peers(
    chosen: Sequence[str] = KEYS,
    *,
    apache_home: Path | None = None,
    apache_version: str = VERSION,
    kafka_home: Path | None = None,
    nats: Path | None = None,
    install: bool = False,
) -> list[Peer]:
    """Those chosen, from the places that are given. install: fetches what is missing."""
    known: list[Peer] = [
        Floor(),
        Ours(),
        Apache(apache_home, apache_version),
        Kafka(kafka_home, install),
        Nats(nats, install),
    ]
    return [peer for peer in known if peer.key in chosen]
