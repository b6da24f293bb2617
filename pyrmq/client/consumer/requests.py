"""What brokers ask of a consumer: to reset offsets, how far it is, how it runs, and to consume one
message now. [ClientRemotingProcessor]"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio

from pyrmq.client.consumer.consume_service import Caller, ReconsumeLater, consumed
from pyrmq.client.consumer.held_queues import HeldQueues
from pyrmq.client.consumer.offsets import decode_table, encode_table
from pyrmq.client.consumer.pull_loop import restore_topic
from pyrmq.client.instance import ClientInstance
from pyrmq.client.namespaces import Namespace
from pyrmq.engine import Command
from pyrmq.errors import ProtocolError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.message import decode_record
from pyrmq.net import fastjson
from pyrmq.net.command import Response

log = logging.getLogger(__name__)

MAX_REMARK = 1000
MAX_TABLE = 65_536
"""Values that a table of offsets may hold."""


def answer_running_info(
    client: ClientInstance, group: str, info: Callable[[bool], dict[str, Any]]
) -> None:
    """Has GET_CONSUMER_RUNNING_INFO of a group answered with `info(stacks)`."""

    async def answer(command: Command) -> Response:
        await trio.lowlevel.checkpoint()
        asked = command.ext.get("consumerGroup", "")
        if asked != group:
            return _refused(f"The Consumer Group <{asked[:255]}> not exist in this consumer")
        return Response(body=fastjson.dumps(info(command.ext.get("jstackEnable") == "true")))

    client.incoming.on_request[RequestCode.GET_CONSUMER_RUNNING_INFO] = answer


class ConsumerRequests:
    """`group` is that of the broker; `info(stacks)` is how the consumer runs; `call` None: it has
    no listener."""

    def __init__(
        self,
        client: ClientInstance,
        group: str,
        names: Namespace,
        held: HeldQueues,
        info: Callable[[bool], dict[str, Any]],
        call: Caller | None,
        *,
        orderly: bool,
    ) -> None:
        self._group = group
        self._names = names
        self._held = held
        self._call = call
        self._orderly = orderly
        answer_running_info(client, group, info)
        client.incoming.on_request |= {
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
        }

    async def _reset(self, command: Command) -> None:
        """Queues of ours that are named go on at the offsets that are given, whatever was consumed
        of them; what listeners still have counts for nothing."""
        await trio.lowlevel.checkpoint()
        if command.ext.get("group") != self._group:
            return
        body = fastjson.loads_object(command.body, MAX_TABLE)
        offsets = decode_table(body.get("offsetTable"))
        for process in list(self._held.table.values()):
            offset = offsets.get(process.queue)
            if offset is not None:
                log.info(
                    "offset of %s is reset to %d",
                    escape(process.queue),
                    offset,
                    extra=about(queue=process.queue),
                )
                process.reset(offset)

    async def _status(self, command: Command) -> Response:
        await trio.lowlevel.checkpoint()
        ours = command.ext.get("group") == self._group
        topic = command.ext.get("topic", "")
        offsets = {
            p.queue: p.commit_offset()
            for p in self._held.held()
            if ours and topic in ("", p.queue.topic)
        }
        return Response(body=fastjson.dumps({"messageQueueTable": encode_table(offsets)}))

    async def _consume_directly(self, command: Command) -> Response:
        """The listener consumes a message of an operator's choice; no offset moves."""
        group = command.ext.get("consumerGroup", "")
        if group != self._group:
            return _refused(f"The Consumer Group <{group[:255]}> not exist in this consumer")
        if self._call is None:
            return _refused(f"the consumer of group {group[:255]} has no listener: it is a loop")
        try:
            message = decode_record(memoryview(command.body))
        except ProtocolError as e:
            return _refused(f"the message cannot be read: {e}")
        message.broker_name = command.ext.get("brokerName", "")
        restore_topic(message, self._group)
        message.topic = self._names.shown(message.topic)
        began, remark = trio.current_time(), None
        try:
            done = consumed(await self._call([message]), 1, self._call.batch)
        except ReconsumeLater as e:
            result, remark = "CR_LATER", str(e)[:MAX_REMARK] or None
        except Exception as e:
            self._call.failed([message])
            result, remark = "CR_THROW_EXCEPTION", f"{type(e).__name__}: {e}"[:MAX_REMARK]
        else:
            result = "CR_SUCCESS" if done else "CR_LATER"
        body = {
            "autoCommit": True,
            "consumeResult": result,
            "order": self._orderly,
            "remark": remark,
            "spentTimeMills": int((trio.current_time() - began) * 1000),
        }
        return Response(body=fastjson.dumps(body))


def _refused(text: str) -> Response:
    return Response(ResponseCode.SYSTEM_ERROR, text)
