"""What an operator does with one message: download it, send it again, have a consumer take it."""

from __future__ import annotations

import trio

from pyrmq.admin.api import Admin
from pyrmq.admin.connections import Connection
from pyrmq.admin.consume_stats import is_offline
from pyrmq.admin.messages import DirectResult
from pyrmq.admin.sending import producer_of
from pyrmq.console.messages.one import copy_of
from pyrmq.errors import ClientError, PyrmqError, TopicNotExistError
from pyrmq.model.compression import decompress
from pyrmq.model.message import SendResult
from pyrmq.model.record import ReceivedMessage

MOST_MEMBERS = 200
"""Members of a group among which one is chosen."""
_UNPACKING = trio.CapacityLimiter(1)
"""A body may take 64 MiB when it is unpacked: one at a time."""


async def whole_body(message: ReceivedMessage) -> bytes:
    """The body, unpacked. Raises ProtocolError if it is damaged or too large."""
    if message.body_error is not None:
        raise message.body_error
    return await trio.to_thread.run_sync(
        decompress, message.body, message.sys_flag, limiter=_UNPACKING
    )


async def resend(admin: Admin, message: ReceivedMessage) -> SendResult:
    """Sends a copy of a message to its topic. Raises ClientError if it may not be sent, and as
    `Producer.send`."""
    copied, sharding_key = copy_of(message, await whole_body(message))
    async with producer_of(admin.link, retry_times=0) as producer:
        return await producer.send(copied, sharding_key=sharding_key)


async def members_of(admin: Admin, group: str) -> list[Connection]:
    """The members of a group that are connected now, by client id; none if there are none."""
    try:
        found = await admin.groups.connections(group)
    except PyrmqError as e:
        if is_offline(e) or isinstance(e, TopicNotExistError):
            return []
        raise
    return sorted(found.connections, key=lambda c: c.client_id)[:MOST_MEMBERS]


async def deliver(
    admin: Admin, message: ReceivedMessage, group: str, client_id: str
) -> DirectResult:
    """Has one member of a group consume a message now. Offsets do not change. Raises ClientError if
    the member is not connected."""
    members = await members_of(admin, group)
    if all(m.client_id != client_id for m in members):
        raise ClientError(f"{client_id} is no connected member of group {group} now")
    return await admin.messages.consume_directly(message, group, client_id)
