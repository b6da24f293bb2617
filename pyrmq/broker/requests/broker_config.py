"""GET_BROKER_CONFIG and UPDATE_BROKER_CONFIG. [AdminBrokerProcessor]"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from pyrmq.broker.bounds import Bounded
from pyrmq.broker.config.broker_config import OTHER_KEYS, BrokerConfig
from pyrmq.broker.config.updates import ConfigUpdates
from pyrmq.config.files import format_properties, parse_properties
from pyrmq.config.table import FixedKey, check_value, values_of
from pyrmq.engine import Command
from pyrmq.errors import (
    ConfigError,
    InvalidParameterError,
    NoPermissionError,
    ServiceNotAvailableError,
)
from pyrmq.escape import escape
from pyrmq.net import fastjson
from pyrmq.net.address import Address
from pyrmq.net.command import Response
from pyrmq.net.server.answers import Elsewhere
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

MAX_BODY = 16_384
"""Longest update, bytes."""
MAX_NAMED = 5
"""Most faults that are looked for, and named."""
WAITING = 16
"""Updates that may wait for the one under way."""


ChangeRole = Callable[[Mapping[str, str], str], Awaitable[str]]
"""Changes brokerRole, and says what it did: by whom it was asked is its second argument."""


class ConfigProcessor:
    """`told` waits until the name servers know what concerns them."""

    def __init__(
        self,
        updates: ConfigUpdates,
        address: Address,
        told: Callable[[], Awaitable[None]],
        change_role: ChangeRole,
    ) -> None:
        self._change_role = change_role
        self._updates = updates
        self._address = address
        self._told = told
        self._bounded = Bounded("updates of the configuration", 1, WAITING)

    def get(self, connection: Connection, command: Command) -> Response:
        """GET_BROKER_CONFIG: every key that this version knows the meaning of, as `key=value`."""
        values = values_of(self._updates.live.now)
        host, port = self._address
        values |= {"brokerIP1": host, "listenPort": str(port)}
        values |= {row.name: row.accepted[0] for row in OTHER_KEYS if isinstance(row, FixedKey)}
        version = fastjson.dumps(self._updates.version.to_json()).decode()
        return Response(ext={"version": version}, body=format_properties(values).encode())

    def update(self, connection: Connection, command: Command) -> Elsewhere:
        """UPDATE_BROKER_CONFIG: lines `key=value`, of which all count or none."""
        values = self._parsed(command.body)
        if "brokerRole" in values:
            for key, value in values.items():
                self._check(key, value)
            change = self._change_role(values, connection.peer)
            return self._bounded.begin(self._role(change))
        return self._bounded.begin(self._update(connection, self._checked(values)))

    async def _role(self, change: Awaitable[str]) -> Response:
        return Response(remark=await change)

    def _parsed(self, body: bytes) -> dict[str, str]:
        if len(body) > MAX_BODY:
            raise InvalidParameterError(f"an update has at most {MAX_BODY} bytes")
        try:
            values = parse_properties(body.decode())
        except UnicodeDecodeError:
            raise InvalidParameterError("the update is not UTF-8") from None
        if not values:
            raise InvalidParameterError("the update has no line key=value")
        return values

    def _check(self, key: str, value: str) -> None:
        try:
            check_value(BrokerConfig, key, value, OTHER_KEYS)
        except ConfigError as e:
            raise InvalidParameterError(_nothing_changed([str(e)])) from e

    def _checked(self, values: dict[str, str]) -> dict[str, str]:
        wrong: list[str] = []
        fixed: list[str] = []
        for key, value in values.items():
            if len(wrong) + len(fixed) >= MAX_NAMED:
                break
            try:
                check_value(BrokerConfig, key, value, OTHER_KEYS)
            except ConfigError as e:
                wrong.append(str(e))
                continue
            why = self._updates.why_not(key)
            if why is not None:
                fixed.append(why)
        if wrong:
            raise InvalidParameterError(_nothing_changed(wrong + fixed))
        if fixed:
            raise NoPermissionError(_nothing_changed(fixed))
        return values

    async def _update(self, connection: Connection, values: dict[str, str]) -> Response:
        try:
            changes = await self._updates.update(values)
        except ConfigError as e:
            raise InvalidParameterError(_nothing_changed([str(e)])) from e
        except OSError as e:
            raise ServiceNotAvailableError(f"the update cannot be saved: {e.strerror}") from e
        text = "; ".join(f"{key}: {old} -> {new}" for key, (old, new) in changes.items())
        if changes:
            log.info("configuration updated by %s: %s", escape(connection.peer), escape(text))
            await self._told()
        return Response(remark=text or "nothing changed: these are the values already")


def _nothing_changed(faults: list[str]) -> str:
    return escape(f"nothing was changed: {'; '.join(fault[:300] for fault in faults)}")
