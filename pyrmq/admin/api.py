"""Admin: one object for all administrative requests to a cluster."""

from __future__ import annotations

from typing import Any, Self

from pyrmq.admin.access import Access
from pyrmq.admin.accounts import Accounts
from pyrmq.admin.auth import Acls, Users
from pyrmq.admin.brokers import Brokers
from pyrmq.admin.clusters import Clusters
from pyrmq.admin.connections import Producers
from pyrmq.admin.controllers import Controllers
from pyrmq.admin.draining import Draining
from pyrmq.admin.expected import Expected
from pyrmq.admin.exports import Exports
from pyrmq.admin.groups import Groups
from pyrmq.admin.link import AdminLink, Progress
from pyrmq.admin.messages import Messages
from pyrmq.admin.namesrv import Namesrv
from pyrmq.admin.offsets import Offsets
from pyrmq.admin.rocksdb import RocksDb
from pyrmq.admin.timers import Timers
from pyrmq.admin.topics import Topics
from pyrmq.client.option_types import AdminOptions, check_types
from pyrmq.errors import ConfigError
from pyrmq.net.address import parse_addresses
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls


class Admin:
    """Administrative requests to name servers and brokers, pyrmq's and Apache RocketMQ's.

        async with Admin("127.0.0.1:9876") as admin:
            for topic in await admin.topics.list():
                print(topic)

    namesrv: `host:port;host:port`.
    timeout: seconds for one request.
    progress: called during long calls with a description, the number done and the total.
    credentials: sign all requests with them.
    tls: connect with TLS; default: without.
    expected: the brokers that should exist; by default those that this object has seen. Calls to
    all brokers report the missing ones: Outcomes and `failed` contain a BrokerMissingError for
    each.

    Raises ConfigError if `namesrv` is not a list of addresses. Methods raise ResponseError if a
    server refuses (`server` is its address), and ConnectError or RequestTimeoutError if it is
    unreachable or does not answer. Calls to several servers return Outcomes.
    """

    def __init__(
        self,
        namesrv: str,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        expected: Expected | None = None,
    ) -> None:
        check_types(AdminOptions, locals())
        addresses = parse_addresses(namesrv)
        if not addresses:
            raise ConfigError("namesrv names no name server: give host:port;host:port")
        self.link = AdminLink(
            addresses,
            timeout=timeout,
            progress=progress,
            credentials=credentials,
            tls=tls,
            expected=expected,
        )
        self.access = Access(self.link)
        self.accounts = Accounts(self.link)
        self.acls = Acls(self.link)
        self.brokers = Brokers(self.link)
        self.clusters = Clusters(self.link)
        self.controllers = Controllers(self.link)
        self.draining = Draining(self.link)
        self.exports = Exports(self.link)
        self.groups = Groups(self.link)
        self.namesrv = Namesrv(self.link)
        self.offsets = Offsets(self.link)
        self.producers = Producers(self.link)
        self.rocksdb = RocksDb(self.link)
        self.timers = Timers(self.link)
        self.topics = Topics(self.link)
        self.users = Users(self.link)
        self.messages = Messages(self.link)

    async def __aenter__(self) -> Self:
        await self.link.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.link.__aexit__(*error)
