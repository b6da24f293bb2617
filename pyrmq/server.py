"""Name server and broker in one process: what `pyrmq server` and embedded use run."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from pyrmq.auth.settings import AccessKeys
from pyrmq.broker import Broker, BrokerConfig
from pyrmq.broker.access_control import open_users
from pyrmq.config.table import keys_of
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


def namesrv_keys(config: BrokerConfig) -> dict[str, Any]:
    """The fields of the name server's configuration that are as its broker's: what guards the
    broker guards its name server."""
    fields = [field for field, _ in keys_of(AccessKeys).values()]
    return {name: getattr(config, name) for name in (*fields, "admin_address_allow_list")}


@asynccontextmanager
async def serving(
    broker_config: BrokerConfig,
    namesrv_config: NamesrvConfig,
    pinned: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[Running]:
    """Runs both until left. The broker registers with this name server (and those of
    namesrvAddr). Both have the same users and access lists, those of the broker. `pinned`: see
    `Broker.serving`."""
    both = broker_config.has_users and namesrv_config.has_users
    namesrv = NameServer(namesrv_config, partial(open_users, broker_config) if both else None)
    async with Tasks() as tasks:
        await tasks.start(namesrv.run)
        own = namesrv.reachable
        addresses = ";".join(a for a in (own, broker_config.namesrv_addr) if a)
        config = dataclasses.replace(
            broker_config,
            namesrv_addr=addresses,
            own_name_server=namesrv.for_own_broker(broker_config),
        )
        shared = namesrv.access if both else None
        async with Broker.serving(config, pinned, shared) as broker:
            yield Running(own, broker.address, broker)
