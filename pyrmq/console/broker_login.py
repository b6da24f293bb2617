"""Whether a broker accepts a user: it answers a question only to whoever signs right.

The request is CHECK_CLIENT_CONFIG, which needs no right. A broker that checks no signatures would
accept everybody: so it is asked first with a user that cannot be there, and has to refuse.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.link import Replica
from pyrmq.console.link import Links
from pyrmq.console.settings import Settings
from pyrmq.errors import (
    ClientError,
    ConnectError,
    NoPermissionError,
    PyrmqError,
    RequestTimeoutError,
    ResponseError,
)
from pyrmq.model.codes import RequestCode
from pyrmq.net import fastjson
from pyrmq.net.client.credentials import Credentials

CHECKS_FOR = 600.0
"""Seconds for which a broker that refused a stranger is not tried again."""
MOST_BROKERS = 3
"""Brokers that are asked before a login fails because none answers."""
_QUESTION = fastjson.dumps(
    {
        "clientId": "pyrmq-console",
        "group": "pyrmq-console",
        "namespace": "",
        "subscriptionData": {
            "topic": "pyrmq-console",
            "subString": "*",
            "expressionType": "TAG",
            "tagsSet": [],
            "codeSet": [],
            "subVersion": 0,
        },
    }
)


class NotLoggedInError(PyrmqError):
    """Name or password are wrong."""


class BrokerLogin:
    """Asks a broker about users. `links`: the console's own connections, by which it learns where
    the brokers are, if it has credentials of its own."""

    def __init__(self, settings: Settings, links: Callable[[], Links]) -> None:
        self._settings = settings
        self._links = links
        self._checks: dict[str, float] = {}
        """Until when a broker is known to check signatures."""

    async def check(self, user: Credentials) -> None:
        """Returns if a broker accepts the user. NotLoggedInError if it does not; ClientError if
        none checks signatures; another PyrmqError if none can be asked."""
        async with self._admin(user) as admin:
            brokers = await self._brokers(admin)
            failure: PyrmqError = ClientError("the cluster has no broker that could be asked")
            for broker in brokers[:MOST_BROKERS]:
                try:
                    await self._check(admin, broker)
                    return
                except (ConnectError, RequestTimeoutError) as e:
                    failure = e
            raise failure

    async def _check(self, admin: Admin, broker: Replica) -> None:
        address = broker.address
        if trio.current_time() >= self._checks.get(address, 0.0):
            stranger = Credentials(f"console-{secrets.token_hex(8)}", secrets.token_hex(16))
            async with self._admin(stranger) as other:
                if await _accepts(other, address):
                    raise ClientError(
                        f"broker {broker.label} checks no signatures, so it cannot log users in: "
                        "set authenticationEnabled=true there, or start the console with "
                        "--login FILE"
                    )
            self._checks[address] = trio.current_time() + CHECKS_FOR
        if not await _accepts(admin, address):
            raise NotLoggedInError("user or password are wrong")

    async def _brokers(self, admin: Admin) -> list[Replica]:
        own = self._settings.credentials
        if own is not None:
            admin = await self._links().get(own)
        try:
            found = await admin.link.replicas(slaves=True, default_all=True)
        except NoPermissionError as e:
            if own is not None:
                raise
            raise NotLoggedInError(f"the name server refuses this user: {e}") from e
        return [one for one in found if one.address not in admin.link.missed]

    def _admin(self, credentials: Credentials) -> Admin:
        of = self._settings
        return Admin(of.namesrv, timeout=of.timeout, credentials=credentials, tls=of.tls)


async def _accepts(admin: Admin, address: str) -> bool:
    """Whether a broker answers the question; False if it refuses the signature. Other errors say
    nothing of the user: they leave."""
    try:
        await admin.link.ask(address, RequestCode.CHECK_CLIENT_CONFIG, {}, _QUESTION)
    except ResponseError as e:
        # Accounts of ACL 1.0 have no code of their own. [AclException]
        if isinstance(e, NoPermissionError) or "AclException" in str(e):
            return False
        raise
    return True
