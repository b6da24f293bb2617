"""What is so at the broker now, for its history: connections, the log, the disk."""

from __future__ import annotations

import trio

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.stats.disk_use import Disks
from pyrmq.engine import Store, log_bounds
from pyrmq.net.server.server import RemotingServer


async def state_of(live: LiveConfig, store: Store, server: RemotingServer) -> dict[str, int]:
    """Bytes, and numbers. `diskUsed`: percent of the commit log's disk, -1 if unknown."""
    disks = await trio.to_thread.run_sync(Disks.of, live.now)
    begin, end, flushed, confirmed, indexed = log_bounds(store.native)
    return {
        "connections": len(server.connections),
        "logBegin": begin,
        "logEnd": end,
        "flushBehind": end - flushed,
        "confirmBehind": end - confirmed,
        "indexBehind": end - indexed,
        "diskUsed": disks.log_used,
        "diskFree": max((disk.free for disk in disks.logs), default=0),
    }
