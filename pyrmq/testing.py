"""An embedded broker for anyone's tests.

async with pyrmq.testing.broker() as server:
    async with Producer("group", namesrv=server.namesrv) as producer:
        ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyrmq.broker import BrokerConfig
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.server import Running, serving

SMALL_LOG = 16 << 20
"""Commit-log file size of test stores, bytes."""


@asynccontextmanager
async def broker(store: Path | None = None, **settings: Any) -> AsyncIterator[Running]:
    """Name server and broker on free loopback ports, on a temporary store unless one is given.

        async with pyrmq.testing.broker() as server:
            async with pyrmq.Producer("group", namesrv=server.namesrv) as producer: ...

    `settings` are fields of BrokerConfig (`flush_disk_type="SYNC_FLUSH"`, …). Yields what runs:
    `namesrv` is the address for clients. ConfigError for a setting that cannot be meant,
    StoreLockedError if another broker has the store open.
    """
    with ExitStack() as stack:
        root = store or Path(stack.enter_context(TemporaryDirectory(prefix="pyrmq-")))
        defaults: dict[str, Any] = {
            "broker_name": "broker-a",
            "broker_ip1": "127.0.0.1",
            "bind_address": "127.0.0.1",
            "listen_port": 0,
            "namesrv_addr": "",
            "store_path_root_dir": root,
            "mapped_file_size_commit_log": SMALL_LOG,
        }
        config = BrokerConfig(**{**defaults, **settings})
        namesrv = NamesrvConfig(
            listen_port=0,
            bind_address="127.0.0.1",
            kv_config_path=config.store_path_root_dir / "config" / "kvConfig.json",
        )
        async with serving(config, namesrv) as running:
            yield running
