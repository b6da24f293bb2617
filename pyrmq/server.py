"""Name server and broker in one process: what `pyrmq server` and embedded use run."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType

from pyrmq.broker import Broker, BrokerConfig
from pyrmq.namesrv import NameServer
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.net.address import Address
from pyrmq.net.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs: `namesrv` is what clients connect to."""

    namesrv: str
    broker_address: Address
    broker: Broker


@asynccontextmanager
async def serving(
    broker_config: BrokerConfig,
    namesrv_config: NamesrvConfig,
    pinned: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[Running]:
    """Runs both until left. The broker registers with this name server (and those of
    namesrvAddr). `pinned`: see `Broker.serving`."""
    namesrv = NameServer(namesrv_config)
    async with Tasks() as tasks:
        await tasks.start(namesrv.run)
        own = namesrv.reachable
        addresses = ";".join(a for a in (own, broker_config.namesrv_addr) if a)
        config = dataclasses.replace(broker_config, namesrv_addr=addresses)
        async with Broker.serving(config, pinned) as broker:
            yield Running(own, broker.address, broker)
